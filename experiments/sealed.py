"""config.json, comparison.json and outcome.json: JSON objects with a checksum of every entry beside them.

So one that was edited is refused by the entry's name, and what a folder says is what was trained.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import claim, files, typed
from .errors import RunError, UsageError

SUMS, DIGITS = "sums", 16  # the entry with the checksums of all others, and how long each is


def start_folder(path: Path, name: str, value: dict[str, Any], *beside: str) -> None:
    """Make a new folder that holds one JSON object and the checksums of its entries, or make nothing.

    Raises UsageError if `path` holds something, but for what is named in `beside` and this process's claim."""
    known = {f"{name}.tmp", claim.FILE, *beside}  # the first of a process that was killed while it began here
    taken = UsageError(
        f"--out {path} already holds another run or other files: choose a new folder, "
        f"or continue with `supple resume {path}`"
    )
    new = not path.exists()
    if not new and not path.is_dir():
        raise taken
    path.mkdir(parents=True, exist_ok=True)
    with files.in_turn(path):  # of two that begin here at once, the second finds what the first has begun
        if any(entry.name not in known for entry in path.iterdir()):
            raise taken
        try:
            write_json(path / name, value)
        except BaseException:
            if new:
                with suppress(OSError):  # it may hold what another process began there
                    path.rmdir()
            raise


def read_json(path: Path, otherwise: str) -> dict[str, Any]:
    """Read what `write_json` wrote. Raises UsageError beginning with `otherwise` if there is no such file, RunError
    if it is damaged, or naming the entry that was changed, added or removed since."""
    value = read_object(path, otherwise)
    if SUMS not in value:
        raise UsageError(
            f"{otherwise}: its {path.name} is not one of this version of supple (it has no {SUMS!r}); "
            f"what another version wrote, that version goes on with"
        )
    return check_sums(path, value)


def read_object(path: Path, otherwise: str) -> dict[str, Any]:
    """Read a JSON object, whoever wrote it. Raises UsageError beginning with `otherwise` if there is no such file,
    RunError if it is damaged."""
    try:
        value = typed.parse(files.contents(path))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{otherwise}: it has no {path.name}") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error})") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: damaged (not a JSON object)")
    return value


def check_sums(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    """Return what was read from a file without its checksums, which must be those of its entries. Raises RunError."""
    sums = value.pop(SUMS)
    if not isinstance(sums, dict):
        raise RunError(f"{path}: damaged ({SUMS!r} is no object)")
    found = _sums(value)
    for key in (*sums, *found):
        if sums.get(key) != found.get(key):
            what = "removed" if key not in found else "added" if key not in sums else "changed"
            raise RunError(
                f"{path}: {json.dumps(key)} was {what} since supple wrote it (its checksum does not match): "
                f"put it back as it was, or begin a new run"
            )
    return value


def _sums(value: dict[str, Any]) -> dict[str, str]:
    return {key: files.sha256(json.dumps(item, sort_keys=True).encode())[:DIGITS] for key, item in value.items()}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object and the checksums of its entries, atomically."""
    sealed = {**value, SUMS: _sums(json.loads(json.dumps(value)))}
    files.replace(path, f"{json.dumps(sealed, indent=2)}\n".encode())
