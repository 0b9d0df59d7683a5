"""Suites: sweep files for tables and figures of papers, by name."""

import tomllib
from pathlib import Path

from supple.registry import did_you_mean
from supple.registry.errors import UsageError

FOLDER = Path(__file__).parent


def suites() -> dict[str, Path]:
    """Return the sweep files by name, in alphabetical order."""
    return {file.stem: file for file in sorted(FOLDER.glob("*.toml"), key=lambda file: file.stem)}


def find_suite(name: str) -> Path:
    """Return the sweep file of a suite. Raises UsageError if there is no suite with this name."""
    known = suites()
    if name not in known:
        raise UsageError(f"there is no sweep file {name}, and no suite with this name{did_you_mean(name, known)}")
    return known[name]


def about(name: str) -> str:
    """Return one line about a suite: its title, its source, and the hours that it takes, also on a GPU."""
    entry = tomllib.loads(find_suite(name).read_text(encoding="utf-8"))["about"]
    times = {scale: f"{x / 24:.0f} days" if x >= 72 else f"{x:.2g} h" for scale, x in entry["hours"].items()}
    hours = ", ".join(f"--scale {scale} {time}" for scale, time in times.items())
    on_gpu = f"; {entry['gpu']}" if "gpu" in entry else ""
    return f"{entry['title']} ({entry['source']}); {hours} on {entry['machine']}{on_gpu}"


def kinds_of(name: str) -> tuple[str, ...]:
    """Return the kinds of runs of a suite's studies, each once."""
    entries = tomllib.loads(find_suite(name).read_text(encoding="utf-8")).values()
    return tuple(dict.fromkeys(entry["kind"] for entry in entries if "kind" in entry))
