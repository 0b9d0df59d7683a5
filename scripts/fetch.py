"""supple fetch: download what environments or tracks need and supple does not bring.

  supple fetch                      what there is
  supple fetch humanoid-bench

Every file is checked against a SHA-256 that supple brings; what is there already, and intact, is not downloaded
again. The files go to SUPPLE_CACHE, or else to the user's cache folder.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import tyro

from supple.envs.humanoid_assets import NAME, cache_folder, manifest
from supple.experiments.errors import RunError, UsageError
from supple.interventions import did_you_mean
from supple.scripts.console import parse, progress_display, run, screen


@dataclass(frozen=True)
class Collection:
    """Files that belong together."""

    about: str
    source: str  # URL that the files' paths are appended to
    files: Callable[[], dict[str, str]]  # path → SHA-256


COLLECTIONS = {
    NAME: Collection(
        "HumanoidBench's model files for the h1 tasks (MIT, 15.7 MB)",
        "https://raw.githubusercontent.com/carlosferrazza/humanoid-bench/main/humanoid_bench/assets",
        manifest,
    ),
}
TIMEOUT = 30.0  # seconds without an answer


@dataclass(kw_only=True)
class Options:
    name: tyro.conf.Positional[str]
    """What to download; `supple fetch` alone lists what there is."""

    cache: Path | None = None
    """Folder to put it below (default: SUPPLE_CACHE, or the user's cache folder)."""

    source: str | None = None
    """URL or folder to take the files from (default: where their authors publish them)."""


def fetch(name: str, cache: Path, source: str | None = None) -> tuple[Path, int]:
    """Make `cache`/`name` complete; returns that folder and the number of files that were fetched.

    A file appears under its name only once it is complete and its hash is right.
    Raises RunError, in one line, for a file that cannot be had or has another hash; OSError for a full disk.
    """
    collection, folder = COLLECTIONS[name], cache / name
    source = source or collection.source
    files = collection.files()
    missing = [path for path, digest in files.items() if not _intact(folder / path, digest)]
    with progress_display() as display:
        for path in display.track(missing, total=len(missing), description=name):
            content = _download(source, path)
            if hashlib.sha256(content).hexdigest() != files[path]:
                raise RunError(f"{source.rstrip('/')}/{path} is not the file that was asked for: wrong SHA-256")
            _write(folder / path, content)
    return folder, len(missing)


def _intact(file: Path, digest: str) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest


def _download(source: str, path: str) -> bytes:
    if "://" not in source:
        try:
            return (Path(source).expanduser() / path).read_bytes()
        except OSError as error:
            raise RunError(f"{error.filename}: {error.strerror}") from error
    url = f"{source.rstrip('/')}/{quote(path)}"
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
            return answer.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RunError(f"cannot download {url}: {getattr(error, 'reason', None) or error}") from error


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def main(args: Sequence[str]) -> None:
    if not args:
        screen.print(f"{(__doc__ or '').strip()}\n", markup=False, highlight=False)
        for name, collection in COLLECTIONS.items():
            screen.print(f"{name}: {collection.about}", markup=False, highlight=False)
        return
    options = parse(Options, None, args, "supple fetch", (__doc__ or "").split(": ", 1)[1])
    if options.name not in COLLECTIONS:
        raise UsageError(
            f"nothing to fetch under {options.name!r}{did_you_mean(options.name, COLLECTIONS)} "
            f"(names: {', '.join(COLLECTIONS)})"
        )
    cache = options.cache or cache_folder()
    folder, fetched = fetch(options.name, cache, options.source)
    screen.print(f"done: {folder} ({fetched} files fetched)", soft_wrap=True, markup=False, highlight=False)
    if cache.expanduser().resolve() != cache_folder().resolve():
        screen.print(f"for supple to find it: export SUPPLE_CACHE={cache}", soft_wrap=True, markup=False)


if __name__ == "__main__":
    run(main)
