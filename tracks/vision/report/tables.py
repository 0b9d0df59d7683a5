"""Tables on classifiers: the summary of each benchmark, arms × benchmarks, and shocks by factor."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from supple.experiments.history.data import ComparisonData
from supple.reports.tables.cells import PERCENT, Form, Heading, Interval, Number, Value, is_missing, percent
from supple.reports.tables.differences import difference_tables
from supple.reports.tables.metrics import before_and_after, intervention_columns, intervention_words
from supple.reports.tables.old_tasks import old_tasks_tables
from supple.reports.tables.table import Table, over_seeds

from .scores import ClassifierArm, ClassifierScores, measure_name

Studies = Mapping[str, ComparisonData]
Results = Mapping[str, ClassifierScores]

# name of a measure → heading, what it means
COLUMNS = {
    "online": (
        "online accuracy",
        "Online accuracy: mean over all batches, each before its update (total average online accuracy).",
    ),
    "test": ("test accuracy", "Test accuracy: after each task on its test images, mean over tasks."),
    "last_test": ("last task", "Last task: test accuracy after the last finished one."),
    "gap": (
        "test − online",
        "Test − online: mean over tasks; positive where a network ends better than it was while learning.",
    ),
    "acc": ("ACC", "ACC: test accuracy in the end, mean over all tasks so far."),
    "bwt": ("BWT", "BWT: what later tasks changed of it; negative means forgotten."),
    "fwt": ("FWT", "FWT: accuracy on tasks not yet learned, above chance among all classes."),
    "best_after": ("best test after the fork", "Best test accuracy: of all tests after the fork."),
    "final_after": ("final test", "Final test accuracy: the last test after the fork."),
}
RATE, UNITS = Form(decimals=1, scale=100.0), Form(digits=6)


def tables(studies: Studies, scores: Results) -> list[Table]:
    """Return a table of arms × benchmarks if there are several, and the tables of each benchmark.

    These are its summary, its shocks, the differences between its arms, and its old tasks."""
    several = len(studies) > 1
    shown = [benchmark_grid(studies, scores)] if several else []
    for name, data in studies.items():
        shown.append(summary_table(data, scores[name], name.capitalize() if several else "Summary"))
        if shocks := shock_table(scores[name]):
            shown.append(shocks)
        apart = [*difference_tables(scores[name].differences), *old_tasks_tables(scores[name].old_tasks)]
        shown += [replace(table, title=f"{table.title}, {name}") for table in apart] if several else apart
    return shown


def sentences(scores: Results) -> list[str]:
    """Return the verdict on each benchmark."""
    return name_benchmarks({name: of_benchmark.verdict for name, of_benchmark in scores.items()})


def notes_of(scores: Results) -> list[str]:
    """Return the notes on each benchmark."""
    return name_benchmarks({name: of_benchmark.notes for name, of_benchmark in scores.items()})


def name_benchmarks(lines: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines on all benchmarks. If there are several, each line begins with its benchmark."""
    return [f"{name}: {line}" if len(lines) > 1 else line for name, of_name in lines.items() for line in of_name]


def summary_table(data: ComparisonData, scores: ClassifierScores, title: str = "Summary") -> Table:
    """Return a table with one row per arm. Measures that no arm has are left out."""
    arms = scores.arms
    columns: dict[Heading, list[Value]] = {
        "seeds": [len(arm.seeds) for arm in arms.values()],
        "tasks": [arm.tasks for arm in arms.values()],
    }
    notes = []
    hidden = {"last_test"} if data.fork_step else set()  # the final test says it
    leads = measure_name(data.first.leads, data.fork_step)
    for name in sorted(COLUMNS, key=lambda name: name != leads):
        heading, meaning = COLUMNS[name]
        cells: list[Value] = [Interval.of(arm.measures[name], PERCENT) for arm in arms.values()]
        if name not in hidden and not all(map(is_missing, cells)):
            columns[percent(heading)] = cells
            notes.append(meaning)
    columns |= _intervention_columns(arms)
    table = Table.from_columns(title, {"arm": list(arms), **columns})
    if "SFE" in table.header or "λ_max" in table.header:
        about = intervention_words("squared change of the weights of one network", "λ_max")
        notes.append(f"{about}: means over interventions; λ_max, where they do not measure it, around the fork.")
    notes.append(over_seeds(data.seeds))
    if data.fork_step:
        notes.insert(0, "All of the tasks that ended after the fork.")
    return replace(table, words=" ".join(filter(None, notes)))


def benchmark_grid(studies: Studies, scores: Results) -> Table:
    """Return total average online accuracy, with arms as rows and benchmarks as columns (Lillo & Cheney, Table 2)."""
    labels = list(dict.fromkeys(label for data in studies.values() for label in data.labels))
    rows: list[list[Value]] = []
    for label in labels:
        arms = [scores[name].arms.get(label) for name in studies]
        rows.append([label, *(Interval.of(arm.measures["online"], PERCENT) if arm else None for arm in arms)])
    tasks = "; ".join(f"{name}: {_task_range(scores[name])} tasks" for name in studies)
    most = max(data.seeds for data in studies.values())
    note = f"Total average online accuracy (%), mean over seeds. {tasks}. {over_seeds(most)}"
    return Table("Online accuracy on each benchmark (%)", ["arm", *studies], rows, note)


def shock_table(scores: ClassifierScores) -> Table | None:
    """Return a table with one row per arm and factor, or None without shocks."""
    rows: list[list[Value]] = [
        [
            label,
            gamma,
            shock.windows,
            Interval.of(shock.peak, PERCENT),
            Interval.of(shock.area, Form(decimals=2)),
            shock.recovery_time,
            Number(shock.non_recovery_rate, RATE),
            shock.tau_95,
            Number(shock.tau_95_non_recovery_rate, RATE),
        ]
        for label, arm in scores.arms.items()
        for gamma, shock in arm.shocks.items()
    ]
    header: list[Heading] = ["arm", "γ", "shocks", percent("peak SF"), "AUSC", "SF halved", percent("not halved")]
    header += ["τ₉₅", percent("not regained")]
    note = (
        "Of the epochs from a shock to the next. Peak SF: largest saturated fraction. AUSC: area under its curve, in "
        "epochs. SF halved: epochs until it is at most half of its peak; τ₉₅: epochs until 95 % of the test accuracy "
        "before the shock is regained, 0 where it was not lost; both over the shocks after which it happened, the rest "
        "are the two rates of non-recovery."
    )
    return Table("Shocks", header, rows, note) if rows else None


def _intervention_columns(arms: Mapping[str, ClassifierArm]) -> dict[Heading, list[Value]]:
    columns: dict[Heading, list[Value]] = {**intervention_columns([arm.at_events for arm in arms.values()])}
    columns["λ_max"] = [before_and_after(arm.at_events, "lambda_max") for arm in arms.values()]
    for name in sorted(set().union(*(arm.replaced for arm in arms.values()))):
        columns[f"units replaced by {name}"] = [Number(arm.replaced.get(name), UNITS) for arm in arms.values()]
    return columns


def _task_range(scores: ClassifierScores) -> str:
    counts = {arm.tasks for arm in scores.arms.values()}
    return str(*counts) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
