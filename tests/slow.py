"""Which tests `make quick` leaves out: those that took long, by what pytest said of their durations.

    pytest -n 2 --durations=0 > durations.txt; python tests/slow.py durations.txt > tests/slow.txt

A test that took over `CALL` seconds is one of them; of a file with a fixture that took so long, all tests are.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

CALL = 0.06  # seconds
ALWAYS = (
    "tests/integrations",  # whose libraries take many seconds to import
    "tests/scripts/test_plugins.py",  # which imports for its child processes
    "tests/tracks/language",
    "tests/zoo",
    "tests/tracks/linear/test_figures_11_to_14.py",  # whose first test computes for all
)


def slow(durations: Iterable[str]) -> list[str]:
    """Return files and tests, such as `tests/a/test_b.py::test_c`, of pytest's lines of durations."""
    found = set(ALWAYS)
    for line in durations:
        if match := re.match(r"\s*([\d.]+)s (call|setup)\s+(tests/\S+?\.py)::(\w+)", line):
            seconds, phase, file, test = match.groups()
            if float(seconds) > CALL:
                found.add(file if phase == "setup" else f"{file}::{test}")
    return sorted(name for name in found if name.split("::")[0] == name or name.split("::")[0] not in found)


if __name__ == "__main__":
    print("\n".join(slow(Path(sys.argv[1]).read_text().splitlines())))
