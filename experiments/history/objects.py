"""Read config.json, comparison.json, sweep.json and outcome.json for reports."""

from pathlib import Path

from supple.engine.storage import signed_json
from supple.registry.errors import RunError

from .logs import Row


def read_object(file: Path) -> Row:
    """Return the contents of a JSON file with a checksum. Raises ValueError if it has none, or is damaged."""
    try:
        return signed_json.read_json(file, str(file.parent))
    except RunError as error:
        raise ValueError(str(error)) from error
