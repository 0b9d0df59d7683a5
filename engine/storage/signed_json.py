"""JSON files with a checksum of every entry: config.json, comparison.json, outcome.json and others.

If an entry was edited, the file is refused and the entry named. A folder therefore says what was really trained.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...registry import quoted, schema
from ...registry.errors import RunError, UsageError
from . import claim, files

SUMS, DIGITS = "sums", 16  # the entry with the checksums of all others, and their length


def start_folder(path: Path, name: str, value: dict[str, Any], *beside: str) -> None:
    """Make a new folder with one JSON file and its checksums, or make nothing.

    Raises:
        UsageError: `path` has contents other than those named in `beside` and this process's claim.
    """
    known = {f"{name}.tmp", claim.FILE, files.LOCK, *beside}  # the first is left by a process that was killed here
    new = not path.exists()
    if not new and not path.is_dir():
        raise _taken_error(path)
    path.mkdir(parents=True, exist_ok=True)
    with files.lock_folder(
        path
    ):  # if two processes start here at the same time, the second finds the files of the first
        if any(entry.name not in known for entry in path.iterdir()):
            raise _taken_error(path)
        try:
            write_json(path / name, value)
        except BaseException:
            if new:
                with suppress(OSError):  # it may contain files of another process
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


def _is_signed(file: Path) -> bool:
    with suppress(UsageError, RunError):
        return SUMS in _read_object(file, str(file))
    return False


def read_json(path: Path, otherwise: str) -> dict[str, Any]:
    """Return the contents of a file written by `write_json`, without the checksums.

    Args:
        path: The file.
        otherwise: The beginning of the message if it does not exist or has no checksums.

    Raises:
        UsageError: There is no such file, or it has no checksums.
        RunError: The file is damaged, or an entry was changed, added or removed; the message names it.
    """
    value = _read_object(path, otherwise)
    if SUMS in value:
        return _check_sums(path, value)
    raise UsageError(
        f"{otherwise}: its {path.name} was not written by this version of supple (it has no {SUMS!r}); continue with "
        "the version that wrote it"
    )


def _read_object(path: Path, otherwise: str) -> dict[str, Any]:
    """Return the JSON object in a file. Raises UsageError if there is none, and RunError if it is damaged."""
    try:
        value = schema.parse_json(files.contents(path))
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{otherwise}: it has no {path.name}") from None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(f"{path}: damaged ({error})") from error
    if not isinstance(value, dict):
        raise RunError(f"{path}: damaged (not a JSON object)")
    return value


def _check_sums(path: Path, value: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of a file without its checksums. Raises RunError if one does not match its entry."""
    sums = value.pop(SUMS)
    if not isinstance(sums, dict):
        raise RunError(f"{path}: damaged ({SUMS!r} is not an object)")
    computed = _sums(value)
    for key in (*sums, *computed):
        if sums.get(key) != computed.get(key):
            what = "removed" if key not in computed else "added" if key not in sums else "changed"
            raise RunError(
                f"{path}: {json.dumps(key)} was {what} since supple wrote the file (its checksum does not match): "
                f"restore it, or start a new run"
            )
    return value


def _sums(value: dict[str, Any]) -> dict[str, str]:
    return {key: files.sha256(json.dumps(item, sort_keys=True).encode())[:DIGITS] for key, item in value.items()}


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write a JSON object and the checksums of its entries atomically."""
    signed = {**value, SUMS: _sums(json.loads(json.dumps(value)))}
    files.replace(path, f"{json.dumps(signed, indent=2)}\n".encode())
