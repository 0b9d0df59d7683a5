"""Tables on classifiers: the summary of each benchmark, arms × benchmarks, and shocks by factor."""

from collections.abc import Mapping

from supple.experiments.history.data import ComparisonData
from supple.reports.studies.content import Description
from supple.reports.tables.cells import PERCENT, Form, Heading, Number, Value, percent
from supple.reports.tables.metrics import before_and_after, intervention_columns, intervention_words
from supple.reports.tables.statistics import NAN, Spread
from supple.reports.tables.table import Columns, Table, TableRows, over_seeds

from .scores import ClassifierArm, measure_name

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


def summary_table(data: ComparisonData, arms: Mapping[str, ClassifierArm]) -> Table:
    """Return a table with one row per arm. Measures that no arm has are left out."""
    columns: Columns = {
        "seeds": [len(arm.seeds) for arm in arms.values()],
        "tasks": [int(arm.tasks.min()) for arm in arms.values()],
    }
    about: dict[Heading, str] = {"arm": "All of the tasks that ended after the fork." if data.fork_step else ""}
    hidden = {"last_test"} if data.fork_step else set()  # the final test says it
    leads = measure_name(data.first.leads, data.fork_step)
    for name in sorted(COLUMNS.keys() - hidden, key=lambda name: (name != leads, list(COLUMNS).index(name))):
        heading = percent(COLUMNS[name][0])
        columns[heading] = [Number.of(arm.measures[name], PERCENT) for arm in arms.values()]
        about[heading] = COLUMNS[name][1]
    columns |= _intervention_columns(arms)
    change = intervention_words("squared change of the weights of one network", "λ_max")
    about["SFE"] = f"{change}: means over interventions; λ_max, where they do not measure it, around the fork."
    return Table.from_columns("Summary", {"arm": list(arms), **columns}, over_seeds(data.seeds), about=about)


def benchmark_grid(parts: Mapping[str, Description]) -> Table:
    """Return total average online accuracy, with arms as rows and benchmarks as columns (Lillo & Cheney, Table 2)."""
    labels = list(dict.fromkeys(label for part in parts.values() for label in part.data.labels))
    found = {name: part.scores["arms"] for name, part in parts.items()}
    rows: TableRows = []
    for label in labels:
        row: list[Value] = [label]
        for arms in found.values():
            arm = arms.get(label)
            row.append(arm and Number.of(Spread(arm["online"]["per_seed"], arm["seeds"]), PERCENT))
        rows.append(row)
    note = "Total average online accuracy (%), mean over seeds. "
    note += over_seeds(max(part.data.seeds for part in parts.values()))
    return Table("Online accuracy on each benchmark (%)", ["arm", *parts], rows, note)


def shock_table(arms: Mapping[str, ClassifierArm]) -> Table:
    """Return a table with one row per arm and factor."""
    rows: TableRows = [
        [
            label,
            gamma,
            shock.windows,
            Number.of(shock.peak, PERCENT),
            Number.of(shock.area, Form(decimals=2)),
            shock.recovery_time,
            Number(shock.non_recovery_rate, form=RATE),
            shock.tau_95,
            Number(shock.tau_95_non_recovery_rate, form=RATE),
        ]
        for label, arm in arms.items()
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
    return Table("Shocks", header, rows, note)


def _intervention_columns(arms: Mapping[str, ClassifierArm]) -> Columns:
    columns: Columns = {**intervention_columns([arm.at_events for arm in arms.values()])}
    columns["λ_max"] = [before_and_after(arm.at_events, "lambda_max") for arm in arms.values()]
    for name in sorted(set().union(*(arm.replaced for arm in arms.values()))):
        columns[f"units replaced by {name}"] = [
            Number(arm.replaced.get(name, NAN), form=UNITS) for arm in arms.values()
        ]
    return columns
