"""JSON files with a checksum: config.json, comparison.json, outcome.json and others.

A file that was edited is refused. A folder therefore says what was really trained.
"""

import json
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from supple.registry import quoted
from supple.registry.errors import RunError, UsageError

from . import files, lock

SIGNATURE = "supple"  # the entry with the format, the version that wrote the file, and the checksum of all others
FORMAT = 3


def start_folder(path: Path, name: str, value: dict[str, Any], *beside: str) -> None:
    """Make a new folder with one JSON file and its checksum, or make nothing.

    Raises:
        UsageError: `path` has contents other than those named in `beside` and the lock of this process.
    """
    known = {f"{name}.tmp", lock.FILE, *beside}  # the first is left by a process that was killed here
    if path.is_file():
        raise _taken_error(path)
    new = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(path):  # if two processes start here at once, the second finds the files of the first
        if any(entry.name not in known for entry in path.iterdir()):
            raise _taken_error(path)
        try:
            write_json(path / name, value)
        except OSError:  # such as a full disk
            if new:
                path.rmdir()
            raise


def _taken_error(path: Path) -> UsageError:
    """Return the exception to raise for a folder that is not new, which says how to go on with what is in it."""
    several = {"comparison.json": "a comparison", "sweep.json": "a sweep"}
    what = next((what for file, what in several.items() if (path / file).is_file()), "")
    if what:
        return UsageError(
            f"--out {path} already holds {what}: `supple worker {quoted(path)}` joins in its runs, "
            f"`supple resume {quoted(path)}` continues it, and for another one choose a new folder"
        )
    return UsageError(
        f"--out {path} already holds another run or other files: choose a new folder, "
        f"or continue with `supple resume {quoted(path)}`"
    )


def require_outside(path: Path) -> None:
    """Raise UsageError if a folder that a user names lies inside a run, a comparison or a sweep.

    Its name could be one under which supple writes, replaces or removes something there.
    """
    for folder in path.resolve().parents:
        for name in ("config.json", "comparison.json", "sweep.json"):
            if (folder / name).is_file() and _is_signed(folder / name):
                raise UsageError(
                    f"--out {path} lies inside {folder}, whose folders are supple's own: choose another place"
                )


def require_new(path: Path) -> None:
    """Raise UsageError if a folder that a user names for other results is not empty, or lies inside a run."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise UsageError(f"--out {path} already holds other files: choose a new folder")
    require_outside(path)


def _is_signed(file: Path) -> bool:
    with suppress(UsageError, RunError):
        return SIGNATURE in _read_object(file, str(file))
    return False


def read_json(path: Path, otherwise: str) -> dict[str, Any]:
    """Return the contents of a file written by `write_json`, without its signature.

    Args:
        path: The file.
        otherwise: The beginning of the message if it does not exist or has another format.

    Raises:
        UsageError: There is no such file, or it has another format.
        RunError: The file is damaged or was changed.
    """
    value = _read_object(path, otherwise)
    signature = value.pop(SIGNATURE, None)
    if not isinstance(signature, dict) or signature.get("format") != FORMAT:
        wrote = signature.get("version") if isinstance(signature, dict) else "that wrote it"
        raise UsageError(
            f"{otherwise}: its {path.name} was written by another version of supple: continue with the version {wrote}"
        )
    if signature.get("sha256") != _sum(value):
        raise RunError(
            f"{path}: changed since supple wrote it (its checksum does not match): restore it, or start a new run"
        )
    return value


def _read_object(path: Path, otherwise: str) -> dict[str, Any]:
    """Return the JSON object in a file. Raises UsageError if there is none, and RunError if it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{otherwise}: it has no {path.name}") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error})") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: damaged (not a JSON object)")
    return value


def _sum(value: dict[str, Any]) -> str:
    return files.sha256(json.dumps(value, sort_keys=True).encode())


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object with its signature atomically."""
    signature = {"format": FORMAT, "version": version("supple"), "sha256": _sum(json.loads(json.dumps(value)))}
    files.replace(path, f"{json.dumps({**value, SIGNATURE: signature}, indent=2)}\n".encode())
