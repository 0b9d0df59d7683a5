"""Make the report of runs, of a comparison or of a sweep, and print its summary."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from supple.registry.errors import UsageError
from supple.scripts.cli.console import say, screen, warn


def show_report(
    *directories: Path, out: Path | None = None, video: bool = False, logs: Sequence[Path] = (), tag: str | None = None
) -> None:
    """Build the report of these directories, or of logs of other programs, and print its summary and its path."""
    from supple import reports  # matplotlib takes a moment

    if len(directories) == 1 and (directories[0] / "sweep.json").is_file():
        if video:
            raise UsageError(f"--video: {directories[0]} is a sweep: give the folder of one of its comparisons")
        show_sweep_report(directories[0])
        return
    place = reports.place_of(directories or logs, out)
    content = reports.compose_logs(logs, tag) if logs else reports.compose(*directories)
    if video:
        content = content.with_videos(warn)
    paths = reports.write(content, place)
    title = str(directories[0]) if len(directories) == 1 else None
    screen.print(reports.summary(content.tables, content.lines, title))
    say(*paths.lines)


def show_sweep_report(path: Path) -> None:
    """Build the reports of the studies of a sweep that have started, and the page over all of them."""
    from supple import reports
    from supple.experiments.sweeps.sweep import open_sweep, read_record
    from supple.experiments.sweeps.tuning import TUNING
    from supple.reports.sweep_report import count_runs, write_study_report, write_sweep

    jobs = Counter(job.path for job in open_sweep(path, warn=warn))
    # tuning runs are no results: a table of their study lists them
    studies = {str(folder.relative_to(path)): folder for folder in jobs if folder.name != TUNING}
    sweep, sections = read_record(path), []
    published = {study.name: study.published for study in sweep.studies}
    for folder in (path, *studies.values()):
        reports.place_of([folder], None)
    for name, folder in studies.items():
        try:
            section = write_study_report(name, folder, published.get(name) or published.get(name.split("/")[0]))
        except UsageError as error:  # none of its runs has started
            warn(str(error))
            continue
        screen.print(section.summary)
        say(*section.paths)
        sections.append(section)
    planned = {str(folder.relative_to(path)): count for folder, count in jobs.items()}
    counts = count_runs(path, planned)
    screen.print(reports.summary([counts], [], str(path)))
    say(*write_sweep(path, counts, sections, sweep.about.get("title", "")).lines)
