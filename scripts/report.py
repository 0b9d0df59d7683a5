"""supple report: tables and figures of runs or of a comparison.

  supple report runs/demo
  supple report runs/relu runs/leaky runs/tanh --out runs/table

Writes DIR/report/index.html, PNG figures and scores.json, and prints the summary. Several runs of `supple vision` go
side by side: activations and hooks down, benchmarks across; so do runs of `supple language` of one kind, and runs of
`supple linear`. Runs that differ only in their seeds are joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple.experiments.errors import UsageError
from supple.scripts.asked import Plugins, load_plugins
from supple.scripts.console import parse, run, screen


@dataclass(kw_only=True)
class Options:
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR [DIR …]")]
    """Folder of a run or of a comparison, or several of runs of one kind."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder in which `report` is made (default: the run's own; several runs need one)."""
    plugin: Plugins = ()
    """A plug-in that brings the kind of these runs."""


def main(args: Sequence[str]) -> None:
    options = parse(Options, None, args, "supple report", "Tables and figures of runs or of a comparison.")
    if not options.directories:
        raise UsageError("missing DIR: Folder of a run or of a comparison (`supple report DIR`)")
    load_plugins(args)
    show(*options.directories, out=options.out)


def show(*directories: Path, out: Path | None = None) -> None:
    """Build the report of these directories, print its summary and say where it lies; of a sweep, those of its
    studies."""
    if len(directories) == 1 and (directories[0] / "sweep.json").is_file():
        from supple.experiments.sweep import folders_of

        for folder in folders_of(directories[0]):
            show(folder)
        return
    from supple.experiments.report import build_report, summary_table  # matplotlib takes a moment

    try:
        paths = build_report(*directories, out=out)
    except ValueError as error:
        raise UsageError(str(error)) from error
    screen.print(summary_table(*directories))
    screen.print(f"report: {paths.html}\nscores: {paths.scores}")


if __name__ == "__main__":
    run(main)
