"""Preparation of a corpus from text files: a training part and a validation part, as tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple.registry.cache import cache_folder
from supple.registry.errors import UsageError

from .published import PUBLISHED
from .tokenizers import FILE, Bytes, Tokenizer, read_tokenizer, train_bpe
from .tokens import TokenFile, write_tokens

VALIDATION = 0.1  # of the bytes of each text
PIECE = 2**18  # bytes of text that are encoded at once
Part = tuple[Path, int, int]  # bytes of a file, from, to


@dataclass(frozen=True)
class Corpus:
    """A folder with `train.bin`, `validation.bin`, a JSON beside each, and `tokenizer.json` of a trained tokenizer."""

    folder: Path
    train: TokenFile
    validation: TokenFile

    @classmethod
    def open(cls, folder: str | Path) -> "Corpus":
        """Return the corpus in a folder. Raises UsageError if there is none, or a file is damaged."""
        folder = Path(folder)
        if not (folder / "train.bin").is_file():
            raise UsageError(f"{folder}: no corpus here: it needs train.bin, validation.bin and a JSON beside each")
        train, validation = (TokenFile.open(folder / f"{part}.bin") for part in ("train", "validation"))
        return cls(folder, train, validation)

    @property
    def tokenizer(self) -> Tokenizer:
        return Bytes() if self.train.about["tokenizer"] == Bytes.name else read_tokenizer(self.folder / FILE)


def prepare(
    files: Sequence[str | Path],
    folder: str | Path,
    tokenizer: str | Tokenizer = "bytes",
    source: str = "",
) -> Corpus:
    """Make a corpus of text files (UTF-8) in `folder`, which is created. Existing files are overwritten.

    Each file is a text. The last tenth of its bytes, from the next end of a line, is for validation. Every text is
    therefore in both parts, and no piece of it is in both.

    Args:
        tokenizer: `bytes`; `bpe:SIZE`, trained on the training part; a tokenizer.json, such as that of another corpus
            with which this one will be used; or a Tokenizer.
        source: A description of the text, for reports. By default, the names of the files.

    Raises UsageError, which names the file, if one is empty, too short to be divided, or not
    UTF-8, and for an unknown tokenizer.
    """
    folder = Path(folder)
    training, held_out = zip(*(_divide(Path(file)) for file in files), strict=True)
    chosen = tokenizer if isinstance(tokenizer, Tokenizer) else make_tokenizer(tokenizer, training_text(files))
    folder.mkdir(parents=True, exist_ok=True)
    chosen.save(folder)
    source = source or ", ".join(Path(file).name for file in files)
    about = (source, chosen.name, chosen.fingerprint, chosen.vocab_size)
    train = write_tokens(folder / "train.bin", _encode(training, chosen), *about)
    return Corpus(folder, train, write_tokens(folder / "validation.bin", _encode(held_out, chosen), *about))


def corpus_text(name: str) -> list[Path]:
    """Return the text files of brown, kjv or foldoc in the cache. Raises UsageError if they have not been fetched."""
    files = [cache_folder() / name / file for file in PUBLISHED[name]]
    if missing := [file for file in files if not file.is_file()]:
        raise UsageError(f"{missing[0]}: no such file: `supple fetch {name}` brings it")
    return files


def make_tokenizer(text: str, training: Iterable[str]) -> Tokenizer:
    """Return the tokenizer that a text names (see `prepare`). training: Texts on which `bpe:SIZE` is trained."""
    kind, _, size = text.partition(":")
    if text == Bytes.name:
        return Bytes()
    if kind == "bpe" and size.isdecimal():
        return train_bpe(training, int(size))
    if text.endswith(".json"):
        return read_tokenizer(Path(text).expanduser())
    raise UsageError(f"unknown tokenizer {text!r} (known: bytes, bpe:SIZE, or the path of a tokenizer.json)")


def _encode(parts: Sequence[Part], tokenizer: Tokenizer) -> Iterator[NDArray[np.uint16]]:
    end = np.array([tokenizer.end], np.uint16)
    for part in parts:
        for text in _read_pieces(part):
            yield tokenizer.encode(text)
        yield end


def _divide(file: Path) -> tuple[Part, Part]:
    """Return the two parts of a file. The cut is after a line, or before a character if no line ends after it."""
    size = file.stat().st_size
    with file.open("rb") as text:
        text.seek(cut := int(size * (1 - VALIDATION)))
        line = text.readline()
    inside = next((i for i, byte in enumerate(line) if byte & 0xC0 != 0x80), len(line))  # UTF-8: 10…… goes on
    cut += len(line) if cut + len(line) < size else inside
    if not 0 < cut < size:
        raise UsageError(f"{file}: {size} bytes are too few to be divided into training and validation")
    return (file, 0, cut), (file, cut, size)


def _read_pieces(part: Part) -> Iterator[str]:
    """Yield the text of a part in pieces that end with a line."""
    file, start, stop = part
    with file.open("rb") as text:
        text.seek(start)
        while (place := text.tell()) < stop:
            piece = text.read(min(PIECE, stop - place))
            piece += text.readline(stop - text.tell())
            try:
                yield piece.decode()
            except UnicodeDecodeError as error:
                raise UsageError(f"{file}: byte {place + error.start} is no UTF-8 text") from error


def training_text(files: Sequence[str | Path]) -> Iterator[str]:
    """Return the training part of these texts, divided as by `prepare`, to train a tokenizer on several corpora."""
    return chain.from_iterable(_read_pieces(_divide(Path(file))[0]) for file in files)
