"""Make tables and figures of runs, of a comparison or of a sweep.

  supple report runs/demo
  supple report runs/relu runs/leaky runs/tanh --out runs/table
  supple report runs/demo --video

This writes DIR/report/index.html, figures (PNG, SVG), tables (CSV, LaTeX) and scores.json, and prints a summary.
Several runs of one kind, other than agents, are shown side by side: one row for each activation and hook, one column
for each benchmark. Runs that differ only in their seeds are one arm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple.registry.errors import UsageError
from supple.scripts.cli import reporting
from supple.scripts.cli.options import Plugins, parse_or_explain


@dataclass(kw_only=True)
class Options:
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR [DIR …]")]
    """Folder of a run, a comparison or a sweep, or the folders of several runs of one kind."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder in which `report/` is made. Required for several runs (default: the folder of the run)."""
    video: bool = False
    """Add a video of one evaluation episode per task to the page, by the last checkpoint of each arm's first seed."""
    plugin: Plugins = ()
    """Plug-in that registers the kind of these runs."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple report", __doc__)
    if not options.directories:
        raise UsageError("DIR is missing: the folder of a run, a comparison or a sweep")
    reporting.show_report(*options.directories, out=options.out, video=options.video)
