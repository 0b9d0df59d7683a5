"""What the tests of all tracks read of a run."""

import json
from pathlib import Path
from typing import Any


def read_log(run: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of a run's log without its clocks."""
    lines = [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("time", "seconds")} for line in lines]
