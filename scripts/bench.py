"""supple bench: score methods on the board's suite, and see where they stand.

  supple bench                                     the board as it is
  supple bench "l2_init(strength=1e-3)"            a hook, or several joined by " + "
  supple bench my_method.py                        an intervention of your own
  supple bench my_method.py "my_method(rate=3)@task"
  supple bench "redo(tau=0.1)@every:8000" --save rows/redo
  supple bench --check rows/redo                   train it again, and compare

Two small worlds, random labels and a warm start, five seeds each, beside none: about twenty minutes on two cores for a
method. A share of 0 is a network that goes on as it is, of 1 one that is new with every task. Choose a method's
numbers on other runs (search in a sweep file): the board's seeds are for results.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.experiments import plugins
from supple.experiments.errors import RunError, UsageError
from supple.scripts import resume
from supple.scripts.asked import Plugins, load_plugins
from supple.scripts.console import parse, run, screen, typed, warn

if TYPE_CHECKING:
    from rich.table import Table

    from supple.experiments.board import Row, Standing
    from supple.experiments.jobs import Job


@dataclass(kw_only=True)
class Options:
    methods: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")] = ()
    """Hooks, or a Python file with an intervention; nothing: show the board."""
    out: Path = Path("runs/bench")
    """Folder of the runs; what has begun there goes on."""
    studies: tuple[str, ...] = ()
    """Those of the suite to train (default: all); a row needs all of them."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""
    save: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Write the row to a folder, as it is submitted (CONTRIBUTING.md)."""
    check: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Train the method of a row again, and compare its scores."""
    plugin: Plugins = ()
    """A plug-in with a method of your own; a METHOD that ends in .py is one too."""


def main(args: Sequence[str]) -> None:
    options = parse(Options, None, args, "supple bench", "Score methods on the board's suite.")
    load_plugins(args)
    own = [word for word in options.methods if word.endswith(".py")]
    hooks = tuple(word for word in options.methods if word not in own)
    made = [hook_of(plugins.load(file, "supple bench")) for file in own]
    methods = hooks or tuple(made)

    from supple.experiments.board import read_row, rows, suite

    known = [study.name for study in suite()]
    if unknown := [name for name in options.studies if name not in known]:
        raise UsageError(f"--studies {unknown[0]}: the suite has {', '.join(known)}")
    if options.check:
        if methods:
            raise UsageError("--check takes the method from the row; leave METHOD out")
        before = read_row(options.check)
        compare(before, trained(options, (before.method,), args)[0])
        return
    if options.save and len(methods) != 1:
        raise UsageError("--save is for the row of one METHOD")
    found = trained(options, methods, args) if methods else []
    if options.save:
        save(options.save, found[0], known)
    show([*(row for row in rows() if row.method not in methods), *found])


def hook_of(plugin: plugins.Plugin) -> str:
    """Return the hook of a plug-in's intervention: at every switch, if it acts at moments. Raises UsageError."""
    names = plugin.registered["intervention"]
    if len(names) != 1:
        raise UsageError(f"{plugin.name} has {len(names)} interventions: name the METHOD too, a hook as of --hook")

    from supple.interventions import interventions

    made = interventions.get(names[0])()
    return f"{names[0]}@task" if made.has("apply") else names[0]


def trained(options: Options, methods: Sequence[str], args: Sequence[str]) -> "list[Row]":
    """Train the suite with these methods, and return their rows. Raises RunError."""
    from supple.experiments.board import bench, row_of
    from supple.experiments.machine import description

    jobs = resume.workers(options.jobs)
    sweep = bench(methods, options.studies)
    every: list[Job] = sweep.begin(options.out, jobs, typed("supple bench", args), warn)
    asked = {(study.name, arm) for study in sweep.studies for arm in study.arms}
    every = [job for job in every if (job.study, job.arm) in asked]
    if any(job.open for job in every):
        resume.go_on(options.out, every, jobs)
    for job in every:
        if job.failed:
            warn(f"failed: {job.label}: {(job.outcome or {}).get('reason')}")
    return [row_of(method, every, description()) for method in methods]


def show(rows: "Sequence[Row]") -> None:
    """Print the board."""
    from supple.experiments.board import CONTROLS, standings, suite

    studies = [study.name for study in suite()]
    screen.print(table(standings(rows, [name for name in studies if name not in CONTROLS]), studies))
    screen.print(
        "Share of what is lost that a method gives back: 0 none, 1 fresh; [ ]: 95 % bootstrap over seeds. Cost: "
        "seconds of training in parts of none's on the same machine."
    )


def table(found: "Sequence[Standing]", studies: Sequence[str]) -> "Table":
    """Return the board as a table for the terminal."""
    from rich.table import Table

    from supple.experiments.board.page import cells, header

    made = Table(title="the board", title_justify="left")
    for column in header(studies):
        made.add_column(column, overflow="fold")
    for standing in found:
        made.add_row(*cells(standing, studies))
    return made


def save(path: Path, row: "Row", studies: Sequence[str]) -> None:
    """Write a row that can be submitted. Raises UsageError for one that lacks a study."""
    from supple.experiments.board import write_row

    if missing := [name for name in studies if name not in row.results]:
        raise UsageError(f"--save: a row has all studies, and {missing[0]} was not trained")
    write_row(path, row)
    screen.print(f"row: {path / 'row.json'}; say in {path / 'about.md'} what it is and how its numbers were chosen")


def compare(before: "Row", now: "Row") -> None:
    """Print how far the scores of a row lie from those of runs now. Raises RunError where they do not agree."""
    from supple.experiments.board.checking import disagreements

    wrong = disagreements(before, now)
    for study, words in wrong.items():
        warn(f"{study}: {words}")
    if wrong:
        raise RunError(f"the row of {before.method} does not agree with {len(wrong)} of {len(now.results)} studies")
    screen.print(f"the row of {before.method} agrees with what was trained: {', '.join(now.results)}")


if __name__ == "__main__":
    run(main)
