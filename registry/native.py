"""Functions in C beside the Python that calls them, compiled when they are first needed and kept in the cache."""

import ctypes
import os
import platform
import shutil
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

from .cache import cache_folder

PROCESSOR = Path("/proc/cpuinfo")


@cache
def load_native(source: Path, *flags: str) -> ctypes.CDLL | None:
    """Return the functions of a file in C or C++, or None on a machine that cannot compile it.

    They do without a compiler if it has worked here before with the same source, flags and type of processor.

    Args:
        source: The file.
        flags: Those of the compiler, beside those of a shared library.
    """
    made = cache_folder() / "native" / f"{source.stem}-{_identity(source, flags)}.so"
    with suppress(OSError):  # there is none, or it was made beside another C library
        return ctypes.CDLL(str(made))
    return ctypes.CDLL(str(made)) if _compile(source, flags, made) else None


def _identity(source: Path, flags: tuple[str, ...]) -> str:
    """Return a name for what the compiler makes of a file for this type of processor."""
    lines = PROCESSOR.read_text().splitlines() if PROCESSOR.exists() else []
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return sha256("\n".join([source.read_text(), *flags, platform.machine(), features]).encode()).hexdigest()[:16]


def _compile(source: Path, flags: tuple[str, ...], made: Path) -> bool:
    """Compile a file, and return whether this has worked. Another process may do the same at the same time."""
    chosen, *usual = ("CXX", "g++", "c++") if source.suffix == ".cpp" else ("CC", "cc", "gcc", "clang")
    compiler = next(filter(None, map(shutil.which, [os.environ.get(chosen, ""), *usual])), None)
    if compiler is None:
        return False
    try:
        made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            fresh = Path(folder) / made.name
            command = [compiler, "-shared", "-fPIC", *flags, str(source), "-o", str(fresh), "-lm"]
            subprocess.run(command, check=True, capture_output=True)
            ctypes.CDLL(str(fresh))
            fresh.replace(made)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
