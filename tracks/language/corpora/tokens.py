"""A corpus as tokens: `name.bin`, uint16 little endian without a header, and `name.json`, which describes it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supple.registry.errors import UsageError

FORMAT = "supple tokens 1"
TYPE = np.dtype("<u2")


@dataclass(frozen=True)
class TokenFile:
    """Tokens that stay in their file until they are used.

    about: The JSON beside it: source, tokenizer (its name), fingerprint (of the tokenizer), vocab_size, tokens (their
    number), and sha256 (of the tokens)."""

    path: Path
    about: dict[str, Any]
    tokens: NDArray[np.uint16]

    @classmethod
    def open(cls, path: str | Path) -> "TokenFile":
        """Return the tokens in `path` (….bin), after comparing them with the JSON beside them.

        Their number, vocabulary and SHA-256 sum are compared, for which the file is read once (about a second for 10⁹
        tokens, more from a slow disk).

        Raises UsageError, which names the file, if one is damaged or does not fit, and OSError if one is missing.
        """
        path = Path(path)
        about = _read_description(path.with_suffix(".json"))
        size, expected = path.stat().st_size, about["tokens"] * TYPE.itemsize
        if size != expected or not size:
            raise UsageError(f"{path}: {size:,} bytes, expected {expected:,}: damaged")
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        if digest != about["sha256"]:
            raise UsageError(f"{path}: damaged (its checksum does not match)")
        return cls(path, about, np.memmap(path, TYPE, "r"))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def where(self) -> str:
        """The kind and path of the file, for messages, because the path alone may be one in the cache."""
        return f"{self.about['source']}, {self.path}"

    def batch(self, starts: Tensor, length: int) -> tuple[Tensor, Tensor]:
        """Return inputs and targets, (B, length) int64 each: the tokens from `starts` (B,) on, and those one further.

        Raises ValueError if the file has fewer than length + 1 tokens, and IndexError if one of the starts is too close
        to the end."""
        windows = np.lib.stride_tricks.sliding_window_view(self.tokens, length + 1)  # (n − length, length + 1)
        rows = torch.from_numpy(windows[starts.numpy()].astype(np.int64))
        return rows[:, :-1], rows[:, 1:]

    def check(self, block: int) -> None:
        """Raise UsageError unless there are more tokens than a block has."""
        if len(self) <= block:
            raise UsageError(f"{self.where}: {len(self):,} tokens are too few for a block of {block:,}")


def write_tokens(
    path: Path, pieces: Iterable[NDArray[np.uint16]], source: str, tokenizer: str, fingerprint: str, vocab_size: int
) -> TokenFile:
    """Write tokens piece by piece, and then their description, without which they cannot be opened.

    Args:
        path: The file of the tokens (….bin). The description gets the same name with the ending .json.
        pieces: The tokens, (any number,) each.
        source: A description of the text, for reports.
        tokenizer: The tokenizer's name.
        fingerprint: The tokenizer's fingerprint.
        vocab_size: The number that all tokens are below, at most 65,536.
    """
    digest, count = sha256(), 0
    with path.open("wb") as file:
        for piece in pieces:
            content = piece.astype(TYPE).tobytes()
            digest.update(content)
            file.write(content)
            count += len(piece)
    about = {
        "format": FORMAT, "source": source, "tokenizer": tokenizer, "fingerprint": fingerprint,
        "vocab_size": vocab_size, "tokens": count, "sha256": digest.hexdigest(),
    }  # fmt: skip
    path.with_suffix(".json").write_bytes(f"{json.dumps(about, indent=2)}\n".encode())
    return TokenFile.open(path)


def _read_description(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UsageError(f"{path}: not JSON ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise UsageError(f"{path}: does not describe tokens (wanted '{FORMAT}')")
    return content
