"""A small CLIP with new weights and its own tokenizer, which needs only transformers."""

import re
from typing import Any

from supple.engine.seeding import derive
from supple.networks.redraw import borrow_generators
from supple.registry.errors import UsageError

from .clip import Clip

NEW = "clip:"  # begins the name of a model with new weights
SMALL = "64x3"
SIDE, PATCH, POSITIONS = 28, 7, 64  # pixels, pixels, tokens of a text
HEAD_WIDTH = 32


def new_clip(name: str, seed: int = 0) -> Clip:
    """Return a small CLIP with new weights.

    `clip:small` is `clip:64x3`: both encoders have 3 layers of width 64, with 356,033 parameters in total. Images are
    28 × 28 in patches of 7 × 7, and heads have width 32. The tokenizer is CLIP's kind over bytes without merges, so a
    text is spelled. transformers initialises the weights as for any CLIPModel, from the seed.

    Raises UsageError for another name, or sizes that do not fit.
    """
    text = name.removeprefix(NEW)
    sizes = re.fullmatch(r"(\d+)x(\d+)", SMALL if text == "small" else text)
    width, layers = map(int, sizes.groups()) if sizes else (0, 0)
    if not (width and layers) or (width > HEAD_WIDTH and width % HEAD_WIDTH):
        raise UsageError(
            f"model {name!r}: new models are {NEW}small or {NEW}WIDTHxLAYERS, such as {NEW}{SMALL}; a width above "
            f"{HEAD_WIDTH} must be a multiple of it, the width of a head"
        )
    from transformers import CLIPConfig, CLIPModel

    tokenizer = byte_tokenizer()
    shared = {
        "hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers, "projection_dim": width,
        "num_attention_heads": max(1, width // HEAD_WIDTH),
    }  # fmt: skip
    config = CLIPConfig(
        text_config={
            **shared, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS,
            "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={**shared, "image_size": SIDE, "patch_size": PATCH},
        projection_dim=width,
    )  # fmt: skip
    with borrow_generators(derive(seed, "network")):
        model = CLIPModel(config)
    return Clip(model, tokenizer, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), f"{name}, new weights of seed {seed}")


def byte_tokenizer() -> Any:
    """Return CLIP's tokenizer with bytes as its vocabulary, each inside a word and at its end, and without merges."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import CLIPTokenizer

    letters = sorted(ByteLevel.alphabet())
    vocabulary = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={word: number for number, word in enumerate(vocabulary)}, merges=[])
