"""Corpora for pretraining: text from `supple fetch` or of your own, tokenizers, token files and windows."""

from .prepare import Corpus, corpus_text, make_tokenizer, prepare, training_text
from .tokenizers import Bytes, Tokenizer, TrainedTokenizer, read_tokenizer, train_bpe
from .tokens import TokenFile, write_tokens
from .windows import Mixture, check_same_tokenizer, draw_windows, make_mixture, validation_windows

__all__ = [
    "Bytes",
    "Corpus",
    "Mixture",
    "TokenFile",
    "Tokenizer",
    "TrainedTokenizer",
    "check_same_tokenizer",
    "corpus_text",
    "draw_windows",
    "make_mixture",
    "make_tokenizer",
    "prepare",
    "read_tokenizer",
    "train_bpe",
    "training_text",
    "validation_windows",
    "write_tokens",
]
