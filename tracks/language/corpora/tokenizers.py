"""Tokenizers: bytes, or byte-pair encoding trained on a corpus. They have at most 65,536 tokens, which fit uint16.

`end` is the token after each text. `fingerprint` is the SHA-256 of all that a tokenizer does: corpora with the same one
may be used together. `save` writes the file that is needed for decoding into the folder of a corpus.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.registry import one_line
from supple.registry.errors import UsageError
from supple.tracks.language.models import require

LARGEST = 2**16
SMALLEST_BPE = 257  # all bytes and the end of a text
END = "<|endoftext|>"  # GPT-2's
FILE = "tokenizer.json"


class Bytes:
    """One token for each byte of UTF-8. Byte 0, which does not occur in text, ends a text."""

    name, vocab_size, end = "bytes", 256, 0
    fingerprint = sha256(b"bytes").hexdigest()

    def encode(self, text: str) -> NDArray[np.uint16]:
        return np.frombuffer(text.encode(), np.uint8).astype(np.uint16)

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        return bytes(np.asarray(tokens, np.uint8)).decode(errors="replace")

    def save(self, folder: Path) -> None:
        (folder / FILE).unlink(missing_ok=True)  # of another tokenizer, before


class TrainedTokenizer:
    """A tokenizer of the `tokenizers` library, from its JSON text. Its vocabulary has `<|endoftext|>`, as GPT-2's.

    Raises:
        UsageError: The text is no tokenizer, has no `<|endoftext|>`, or has more than 65,536 tokens.
        RunError: The library is missing.
    """

    def __init__(self, text: str, origin: str = FILE) -> None:
        """origin: The source of the text, for messages."""
        require("tokenizers", "a trained tokenizer")
        import tokenizers

        self.text = text
        try:
            self._tokenizer = tokenizers.Tokenizer.from_str(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # the library raises Exception itself, and others when Rust panics
            raise UsageError(f"{origin}: not a tokenizer of the tokenizers library ({one_line(error)})") from error
        self.vocab_size = self._tokenizer.get_vocab_size()
        end = self._tokenizer.token_to_id(END)
        if end is None:
            raise UsageError(f"{origin}: its vocabulary has no {END}, which ends each text")
        if self.vocab_size > LARGEST:
            raise UsageError(f"{origin}: {self.vocab_size:,} tokens do not fit uint16: at most {LARGEST:,}")
        self.end, self.fingerprint = end, sha256(text.encode()).hexdigest()
        self.name = f"{json.loads(text)['model']['type'].lower()}:{self.vocab_size}"

    def encode(self, text: str) -> NDArray[np.uint16]:
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).ids, np.uint16)

    def decode(self, tokens: Sequence[int] | NDArray[np.integer]) -> str:
        return self._tokenizer.decode(np.asarray(tokens).tolist(), skip_special_tokens=False)

    def save(self, folder: Path) -> None:
        (folder / FILE).write_text(self.text, encoding="utf-8", newline="\n")


def train_bpe(texts: Iterable[str], size: int) -> TrainedTokenizer:
    """Return a byte-level byte-pair encoding as GPT-2's, trained on these texts. The result is deterministic.

    size: The size of the vocabulary, 257 to 65,536. It is smaller if the texts have fewer pairs that occur twice.

    Raises UsageError for other sizes, and RunError if the `tokenizers` library is missing.
    """
    if not SMALLEST_BPE <= size <= LARGEST:
        raise UsageError(f"bpe:{size}: a vocabulary has {SMALLEST_BPE} to {LARGEST:,} tokens")
    require("tokenizers", "a trained tokenizer")
    import tokenizers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=[END],
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return TrainedTokenizer(tokenizer.to_str())


def read_tokenizer(path: Path) -> TrainedTokenizer:
    """Return the tokenizer in a JSON file."""
    return TrainedTokenizer(path.read_bytes().decode(errors="replace"), str(path))


Tokenizer = Bytes | TrainedTokenizer
