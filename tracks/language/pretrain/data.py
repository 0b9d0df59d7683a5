"""The corpora of a pretraining run: prepared ones, and texts that are tokenized here once."""

from dataclasses import replace
from hashlib import file_digest, sha256
from pathlib import Path

from supple.engine.storage import files
from supple.registry.cache import cache_folder
from supple.registry.errors import UsageError
from supple.tracks.language.corpora import (
    Corpus,
    Mixture,
    check_same_tokenizer,
    corpus_text,
    make_mixture,
    make_tokenizer,
    prepare,
    training_text,
)
from supple.tracks.language.corpora.published import ENGLISH

from .settings import PretrainSettings


def load(settings: PretrainSettings) -> tuple[dict[str, Corpus], list[Mixture]]:
    """Return the corpora of a run by name, and the part of them that each phase uses.

    Raises UsageError if a corpus is missing or too small, or has another tokenizer."""
    of_texts = {name: _find_texts(name) for name in (*settings.first, *settings.second)}
    texts = tuple((name, paths) for name, paths in of_texts.items() if paths)
    prepared = prepare_texts(texts, settings.tokenizer) if texts else {}
    corpora = {name: prepared.get(name) or Corpus.open(Path(name).expanduser()) for name in of_texts}
    check_same_tokenizer([corpus.train for corpus in corpora.values()])
    first, second = ([corpora[name].train for name in names] for names in (settings.first, settings.second))
    first = [replace(part, tokens=part.tokens[: int(len(part) * settings.first_share)]) for part in first]
    phases = [make_mixture(first)] + ([make_mixture(second, [1.0] * len(second))] if second else [])
    return corpora, phases


def _find_texts(name: str) -> tuple[Path, ...]:
    """Return the text files of a name: a corpus of `supple fetch` or a text file. A prepared folder has none."""
    path = Path(name).expanduser()
    if name in ENGLISH:
        return tuple(corpus_text(name))
    if path.exists():
        return (path,) if path.is_file() else ()
    raise UsageError(
        f"{name!r} is no corpus: name {', '.join(ENGLISH)} (`supple fetch NAME`), a text file, or a folder with "
        f"train.bin and validation.bin"
    )


def prepare_texts(texts: tuple[tuple[str, tuple[Path, ...]], ...], tokenizer: str) -> dict[str, Corpus]:
    """Return texts as corpora with one tokenizer, which is trained on the training text of all of them.

    They are kept in the cache folder, under the checksum of their texts."""
    content = sha256(tokenizer.encode())
    if tokenizer.endswith(".json"):
        content.update(Path(tokenizer).expanduser().read_bytes())
    for name, paths in texts:
        content.update(name.encode(errors="surrogateescape"))
        for file in paths:
            with file.open("rb") as stream:  # which may be larger than the memory
                content.update(file_digest(stream, "sha256").digest())
    home = cache_folder() / "tokens" / content.hexdigest()[:16]
    home.parent.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(home.parent):  # another process may be at it
        if not home.is_dir():
            with files.atomic_folder(home) as temporary:
                trained = make_tokenizer(tokenizer, training_text([file for _, paths in texts for file in paths]))
                for index, (name, paths) in enumerate(texts):
                    prepare(paths, temporary / str(index), trained, name)
    return {name: Corpus.open(home / str(index)) for index, (name, _) in enumerate(texts)}
