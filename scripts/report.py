"""Make tables and figures of runs, of a comparison or of a sweep.

  supple report runs/demo
  supple report runs/relu runs/leaky runs/tanh --out runs/table
  supple report runs/demo --video
  supple report --logs results.csv --out runs/table

This writes DIR/report/index.html, figures (PNG, SVG), tables (CSV, LaTeX) and scores.json, and prints a summary.
Several runs of one kind, other than agents, are shown side by side: one row for each activation and hook, one column
for each benchmark. Runs that differ only in their seeds are one arm. --logs takes the logs of other programs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple.registry.errors import UsageError
from supple.scripts.cli import reporting
from supple.scripts.cli.options import FolderOrNone, Plugins, parse_or_explain


@dataclass(kw_only=True)
class Options:
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR [DIR …]")] = ()
    """Folder of a run, a comparison or a sweep, or the folders of several runs of one kind."""
    logs: Annotated[tuple[Path, ...], tyro.conf.arg(metavar="FILE [FILE …]")] = ()
    """Logs of other programs: CSV files with the columns arm, seed, step, value and perhaps task, monitor.csv files of
    Stable-Baselines3, TensorBoard files, or folders of these two, whose paths say the arms and seeds."""
    tag: str | None = None
    """Name of the scalar in the TensorBoard files of --logs (default: rollout/ep_rew_mean)."""
    out: FolderOrNone = None
    """Folder in which `report/` is made. Required for several runs and --logs (default: the folder of the run)."""
    video: bool = False
    """Add a video of one evaluation episode per task to the page, by the last checkpoint of each arm's first seed."""
    plugin: Plugins = ()
    """Plug-in that registers the kind of these runs."""


def main(args: Sequence[str]) -> None:
    options = parse_or_explain(Options, args, "supple report", __doc__)
    if not options.directories and not options.logs:
        raise UsageError("DIR is missing: the folder of a run, a comparison or a sweep, or --logs of other programs")
    if options.logs and (options.directories or options.out is None):
        raise UsageError("--logs is reported alone and needs a folder: add --out DIR, and no other DIR")
    if options.tag and not options.logs:
        raise UsageError(f"--tag {options.tag} is for TensorBoard files of --logs")
    reporting.show_report(
        *options.directories, out=options.out, video=options.video, logs=options.logs, tag=options.tag
    )
