"""Read config.json, comparison.json and outcome.json, and check the types of their entries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from ...engine.kinds import all_kinds
from ...engine.storage import signed_json
from ...engine.storage.run_directory import Config
from ...registry import schema
from ...registry.errors import RunError
from .logs import Row

# The types of the entries that a report reads in config.json, comparison.json and outcome.json.
PLAN = {
    "fork_step": int, "arms": list[str], "seeds": list[int], "variants": list[dict[str, Any]],
    "only": list[tuple[str, int]],
}  # fmt: skip
OUTCOME = {"outcome": str, "reason": str, "diverged": dict[str, dict[str, Any]]}
ENTRIES = get_type_hints(Config) | PLAN | OUTCOME


def read_object(file: Path) -> Row:
    """Return the contents of config.json, comparison.json or outcome.json.

    Raises ValueError, which names the file and any entry that was changed or has the wrong type.
    """
    contents = read_signed(file)
    try:
        _check_types(contents, ENTRIES, "")
        if kind := all_kinds().get(contents.get("algorithm", "")):
            _check_types(contents.get("settings", {}), get_type_hints(kind.settings_class()), "settings")
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    return contents


def read_signed(file: Path) -> Row:
    """Return the contents of a JSON file with checksums. Raises ValueError if it has none, or is damaged."""
    try:
        return signed_json.read_json(file, str(file.parent))
    except RunError as error:
        raise ValueError(str(error)) from error


def _check_types(entries: Row, types: Mapping[str, Any], where: str) -> None:
    """Raise ValueError for an entry of the wrong type. Entries that are not in `types` may have any type."""
    schema.convert_entries({name: value for name, value in entries.items() if name in types}, types, where)
