"""supple report: tables and figures of a run or a comparison.

  supple report runs/demo

Writes DIR/report/index.html, PNG figures and scores.json, and prints the summary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tyro

from supple.experiments.errors import UsageError
from supple.scripts.console import parse, run, screen


@dataclass(kw_only=True)
class Options:
    directory: tyro.conf.Positional[Path]
    """Folder of a run or of a comparison."""


def main(args: Sequence[str]) -> None:
    show(parse(Options, None, args, "supple report", "Tables and figures of a run or a comparison.").directory)


def show(directory: Path) -> None:
    """Build the report of a directory, print its summary and say where it lies."""
    from supple.experiments.report import build_report, summary_table  # matplotlib takes a moment

    try:
        paths = build_report(directory)
    except ValueError as error:
        raise UsageError(str(error)) from error
    screen.print(summary_table(directory))
    screen.print(f"report: {paths.html}\nscores: {paths.scores}")


if __name__ == "__main__":
    run(main)
