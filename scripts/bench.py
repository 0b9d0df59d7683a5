"""Score methods on the board's suite, and compare them with the methods that are on the board.

  supple bench                                     show the board
  supple bench "l2_init(strength=1e-3)"            train and score a hook, or several joined by " + "
  supple bench my_method.py                        train and score an intervention of your own
  supple bench my_method.py "my_method(rate=3)@task"
  supple bench "redo(tau=0.1)@every:8000" --save rows/redo
  supple bench --check rows/redo                   train a row's method again, and compare the scores

The suite has two small environments whose task changes, random labels and a warm start, with five seeds each. A method
and the arm none take about 20 minutes on two cores. A share of 0 is the performance of none, and 1 that of a new
network in every task. Do not tune a method with the board's seeds; use `search` in a sweep file.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from supple.engine.user_code import plugins
from supple.registry import did_you_mean
from supple.registry.errors import RunError, UsageError
from supple.scripts.cli import training
from supple.scripts.cli.console import join_command, parse, run, say, screen, warn
from supple.scripts.cli.options import Plugins, load_plugins

if TYPE_CHECKING:
    from supple.experiments.board import Row


@dataclass(kw_only=True)
class Options:
    methods: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="METHOD")] = ()
    """Hook, or Python file with one intervention. Without it, the board is shown."""
    out: Path = Path("runs/bench")
    """Folder of the runs. Runs that were started there are resumed."""
    studies: tuple[str, ...] = ()
    """Studies of the suite to train; none means all. A row needs all of them."""
    jobs: int = 0
    """Number of runs at a time. 0 means one per core."""
    save: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder for the row of METHOD, ready to be submitted (CONTRIBUTING.md)."""
    check: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder of a row. Its method is trained again, in a new folder beside --out, and the scores are compared."""
    plugin: Plugins = ()
    """Python file or package with a method of your own. A METHOD that ends in .py is loaded without it."""


def main(args: Sequence[str]) -> None:
    options = parse(Options, args, "supple bench", __doc__)
    load_plugins(args)
    files = [word for word in options.methods if word.endswith(".py")]
    hooks_of_files = tuple(hook_of(plugins.load(file, "supple bench")) for file in files)
    methods = tuple(word for word in options.methods if word not in files) or hooks_of_files

    from supple.experiments.board import conditions, read_row, rows, suite

    studies = [study.name for study in suite()]
    if unknown := [name for name in options.studies if name not in studies]:
        raise UsageError(
            f"--studies {unknown[0]}: unknown study{did_you_mean(unknown[0], studies)} (known: {', '.join(studies)})"
        )
    if options.check:
        if methods:
            raise UsageError("--check takes the method from the row: leave METHOD out")
        row = read_row(options.check)
        # a folder of their own, since runs of other code, or those that the row was made from, would prove nothing
        out = options.out.absolute()
        options.out = out.parent / f"{out.name or 'bench'}-check-{conditions()}"
        compare(row, train_methods(options, (row.method,), args)[0])
        return
    if options.save and len(methods) != 1:
        raise UsageError("--save writes the row of one METHOD: name exactly one")
    trained = train_methods(options, methods, args) if methods else []
    if options.save:
        save(options.save, trained[0], studies)
    show([*(row for row in rows() if row.method not in methods), *trained])


def hook_of(plugin: plugins.Plugin) -> str:
    """Return a hook with a plug-in's intervention. It fires at every task switch if the intervention has `apply`.

    Raises:
        UsageError: The plug-in does not have exactly one intervention.
    """
    names = plugin.registered["intervention"]
    if len(names) != 1:
        raise UsageError(f"{plugin.name} has {len(names)} interventions: add a METHOD, a hook as for --hook")

    from supple.interventions import interventions

    return f"{names[0]}@task" if interventions.get(names[0])().has("apply") else names[0]


def train_methods(options: Options, methods: Sequence[str], args: Sequence[str]) -> "list[Row]":
    """Train the suite with these methods, and return their rows."""
    from supple.engine.machine.resources import describe_machine
    from supple.experiments.board import bench, row_of
    from supple.experiments.queue.queue import Queue

    processes = training.count_processes(options.jobs)
    sweep = bench(methods, options.studies)
    requested = {(study.name, arm) for study in sweep.studies for arm in study.arms}
    begun = sweep.begin(options.out, processes, join_command("supple bench", args), warn)
    queue = Queue(run for run in begun if (run.spec.labels.study, run.spec.labels.arm) in requested)
    if queue.left:
        training.train_queue(options.out, queue, processes)
    for failed in queue.failed:
        warn(f"failed: {failed.label}: {(failed.outcome or {}).get('reason')}")
    return [row_of(method, queue, describe_machine()) for method in methods]


def show(rows: "Sequence[Row]") -> None:
    """Print the board."""
    from supple.experiments.board import CONTROLS, standings, suite
    from supple.experiments.board.page import cells, header
    from supple.reports.tables.table import Table

    studies = [study.name for study in suite()]
    ranking = standings(rows, [name for name in studies if name not in CONTROLS])
    screen.print(Table("the board", header(studies), [cells(standing, studies) for standing in ranking]))
    say(
        "Share: (method − none)/(fresh − none), so none has 0 and fresh 1, with a 95 % bootstrap interval over seeds. "
        "Cost: training time divided by that of none on the same machine."
    )


def save(path: Path, row: "Row", studies: Sequence[str]) -> None:
    """Write a row that can be submitted.

    Raises:
        UsageError: The row lacks a study.
    """
    from supple.experiments.board import write_row

    if missing := [name for name in studies if name not in row.results]:
        raise UsageError(f"--save {path}: a row needs all studies, and {missing[0]} was not trained")
    write_row(path, row)
    say(f"row: {path / 'row.json'}; describe the method and how it was tuned in {path / 'about.md'}")


def compare(before: "Row", now: "Row") -> None:
    """Print whether the scores of a row agree with those of new runs, and what differs in how they were trained.

    Raises:
        RunError: They do not agree.
    """
    from supple.experiments.board.checking import differences, disagreements

    wrong, others = disagreements(before, now), differences(before, now)
    if others:
        warn(f"the row of {before.method} was not trained like the new runs: {'; '.join(others)} (row → new)")
    for study, disagreement in wrong.items():
        warn(f"{study}: {disagreement}")
    if wrong:
        raise RunError(
            f"the row of {before.method} does not agree with the new runs in {len(wrong)} of "
            f"{len({**before.results, **now.results})} studies"
        )
    studies = ", ".join(now.results)
    if others:
        say(f"the row of {before.method} lies within the bounds of the new runs, not equal to them: {studies}")
    else:
        say(f"the row of {before.method} agrees with the new runs, number by number: {studies}")


if __name__ == "__main__":
    run(main)
