"""Small LLaMA models with random weights and a tokenizer of bytes, for experiments that train their own."""

import re
from typing import Any

from supple.engine.seeding import derive
from supple.networks.redraw import borrow_generators
from supple.registry.errors import UsageError

PATTERN = re.compile(r"llama:(\d+)x(\d+)")
HEAD = 32  # width of an attention head
CONTEXT = 2048  # tokens
PAD, END = "<|pad|>", "<|end|>"
SPECIAL = (PAD, END, "<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def fresh_llama(text: str, seed: int) -> tuple[Any, Any]:
    """Return (model, tokenizer) of `llama:WIDTHxLAYERS`, such as llama:256x4.

    Attention heads of width 32, an MLP of 8/3 the width (a multiple of 32), embedding and head apart. The weights are
    transformers' initialisation, drawn from `seed`; torch's global generator is left as it was.
    Raises UsageError for another text, or a width that is no multiple of 32.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    match = PATTERN.fullmatch(text)
    width, layers = (int(number) for number in match.groups()) if match else (0, 0)
    if not width or not layers or width % HEAD:
        raise UsageError(
            f"{text!r}: a new model is llama:WIDTHxLAYERS with a width in multiples of {HEAD}: llama:256x4"
        )
    tokenizer = byte_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=-(-8 * width // (3 * HEAD)) * HEAD,
        num_hidden_layers=layers,
        num_attention_heads=width // HEAD,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with borrow_generators(derive(seed, "language model", text)):
        return LlamaForCausalLM(config), tokenizer


def byte_tokenizer() -> Any:
    """Return a tokenizer of 256 bytes and five special tokens;
    a turn is <|user|>…<|end|> and the like, with no other signs between."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    bytes_ = sorted(pre_tokenizers.ByteLevel.alphabet())  # a printable character for each
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(bytes_)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, additional_special_tokens=list(SPECIAL[2:])
    )
    wrapped.chat_template = TEMPLATE
    return wrapped
