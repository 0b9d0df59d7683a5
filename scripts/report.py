"""Make tables and figures of runs, of a comparison or of a sweep.

  supple report runs/demo
  supple report runs/relu runs/leaky runs/tanh --out runs/table
  supple report runs/demo --video

This writes DIR/report/index.html, figures (PNG, SVG), tables (CSV, LaTeX) and scores.json, and prints a summary.
Several runs of one kind, other than agents, are shown side by side: one row for each activation and hook, one column
for each benchmark. Runs that differ only in their seeds are one arm.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from supple.registry.errors import UsageError
from supple.scripts.cli.console import explain, parse, run, say, screen, warn
from supple.scripts.cli.options import Plugins, load_plugins


@dataclass(kw_only=True)
class Options:
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="DIR [DIR …]")]
    """Folder of a run, a comparison or a sweep, or the folders of several runs of one kind."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder in which `report/` is made. None: the folder of the run. Required for several runs."""
    video: bool = False
    """Add a video of one evaluation episode per task to the page, by the last checkpoint of each arm's first seed."""
    plugin: Plugins = ()
    """Plug-in that registers the kind of these runs."""


def main(args: Sequence[str]) -> None:
    if not args:
        explain(__doc__, "supple report")
        return
    options = parse(Options, None, args, "supple report", __doc__, flags=True)
    if not options.directories:
        raise UsageError("DIR is missing: the folder of a run, a comparison or a sweep")
    load_plugins(args)
    show(*options.directories, out=options.out, video=options.video)


def show(*directories: Path, out: Path | None = None, video: bool = False) -> None:
    """Build the report of these directories, and print its summary and its path."""
    from supple import reports  # matplotlib takes a moment

    if len(directories) == 1 and (directories[0] / "sweep.json").is_file():
        if video:
            raise UsageError(f"--video: {directories[0]} is a sweep: give the folder of one of its comparisons")
        show_sweep(directories[0])
        return
    try:
        place = reports.place_of(directories, out)
        content = reports.compose(*directories)
        if video:
            if content.with_videos is None:
                raise UsageError(f"--video: {directories[0]} trains no agent, so there is no episode to show")
            content = content.with_videos(warn)
        paths = reports.write(content, place)
    except ValueError as error:
        raise UsageError(str(error)) from error
    screen.print(reports.summary(content, str(directories[0]) if len(directories) == 1 else None))
    say(*paths.lines)


def show_sweep(path: Path) -> None:
    """Build the reports of the studies of a sweep that have started, and the page over all of them."""
    from supple import reports
    from supple.experiments.sweeps.sweep import open_sweep
    from supple.experiments.sweeps.tuning import TUNING
    from supple.reports.sweep_report import compose_sweep, write_study_reports
    from supple.reports.tables.published import read_published, read_title

    jobs = Counter(job.path for job in open_sweep(path, warn=warn))
    # tuning runs are no results: a table of their study lists them
    names = {str(folder.relative_to(path)): folder for folder in jobs if folder.name != TUNING}
    sections = []
    try:
        for folder in (path, *names.values()):
            reports.place_of([folder], None)
        for written in write_study_reports(names, read_published(path)):
            if written.section is None:
                warn(written.problem)
                continue
            screen.print(written.summary)
            say(*written.paths)
            sections.append(written.section)
    except ValueError as error:
        raise UsageError(str(error)) from error
    planned = {str(folder.relative_to(path)): count for folder, count in jobs.items()}
    whole = compose_sweep(path, sections, planned, read_title(path))
    screen.print(reports.summary(whole, str(path)))
    say(*reports.write(whole, path).lines)


if __name__ == "__main__":
    run(main)
