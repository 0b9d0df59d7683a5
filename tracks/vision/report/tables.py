"""Tables on classifiers: the summary of each benchmark, arms × benchmarks, and shocks by factor."""

from collections.abc import Mapping

from ....experiments.history.collect import ComparisonData
from ....reports.studies.evaluation_tables import spread_text
from ....reports.tables.metrics import before_and_after_text, intervention_columns, intervention_words
from ....reports.tables.statistics import Spread
from ....reports.tables.table import MISSING, Table, number, over_seeds
from .scores import ClassifierArm, ClassifierScores

# name of a measure → heading, what it means
COLUMNS = {
    "online": (
        "online accuracy (%)",
        "Online accuracy: mean over all batches, each before its update (total average online accuracy).",
    ),
    "test": ("test accuracy (%)", "Test accuracy: after each task on its test images, mean over tasks."),
    "last_test": ("last task (%)", "Last task: test accuracy after the last finished one."),
    "gap": (
        "test − online (%)",
        "Test − online: mean over tasks; positive where a network ends better than it was while learning.",
    ),
    "acc": ("ACC (%)", "ACC: test accuracy in the end, mean over all tasks so far."),
    "bwt": ("BWT (%)", "BWT: what later tasks changed of it; negative means forgotten."),
    "fwt": ("FWT (%)", "FWT: accuracy on tasks not yet learned, above chance among all classes."),
    "best_after": ("best test after the fork (%)", "Best and final test accuracy: of all tests after the fork."),
    "final_after": ("final test (%)", ""),
}


def summary_table(data: ComparisonData, scores: ClassifierScores, title: str = "Summary") -> Table:
    """Return a table with one row per arm. Measures that no arm has are left out."""
    arms = scores.arms
    columns: dict[str, list[str]] = {
        "seeds": [str(len(arm.seeds)) for arm in arms.values()],
        "tasks": [str(arm.tasks) for arm in arms.values()],
    }
    notes = []
    hidden = {"last_test"} if data.fork_step else set()  # the final test says it
    for name, (heading, meaning) in COLUMNS.items():
        cells = [percent(arm.measures[name]) for arm in arms.values()]
        if name in hidden or set(cells) == {MISSING}:
            continue
        columns[heading] = cells
        notes.append(meaning)
    for heading, cells in _intervention_columns(arms).items():
        if set(cells) != {MISSING}:
            columns[heading] = cells
    if "SFE" in columns or "λ_max" in columns:
        about = intervention_words("squared change of the weights of one network", "λ_max")
        notes.append(f"{about}: means over interventions; λ_max, where they do not measure it, around the fork.")
    notes.append(over_seeds(data.seeds))
    if data.fork_step:
        notes.insert(0, "All of the tasks that ended after the fork.")
    rows = [[label, *cells] for label, *cells in zip(arms, *columns.values(), strict=True)]
    return Table(title, ["arm", *columns], rows, " ".join(filter(None, notes)))


def benchmark_grid(studies: Mapping[str, ComparisonData], scores: Mapping[str, ClassifierScores]) -> Table:
    """Return total average online accuracy, with arms as rows and benchmarks as columns (Lillo & Cheney, Table 2)."""
    labels = list(dict.fromkeys(label for data in studies.values() for label in data.labels))
    rows = []
    for label in labels:
        arms = [scores[name].arms.get(label) for name in studies]
        rows.append([label, *(percent(arm.measures["online"]) if arm else MISSING for arm in arms)])
    tasks = "; ".join(f"{name}: {_task_range(scores[name])} tasks" for name in studies)
    most = max(data.seeds for data in studies.values())
    note = f"Total average online accuracy (%), mean over seeds. {tasks}. {over_seeds(most)}"
    return Table("Online accuracy on each benchmark (%)", ["arm", *studies], rows, note)


def shock_table(scores: ClassifierScores) -> Table | None:
    """Return a table with one row per arm and factor, or None without shocks."""
    rows = [
        [
            label,
            f"{gamma:g}",
            str(shock.windows),
            percent(Spread(shock.peak)),
            spread_text(Spread(shock.area), digits=2),
            number(shock.recovery_time),
            f"{100 * shock.non_recovery_rate:.1f}",
            number(shock.tau_95),
            f"{100 * shock.tau_95_non_recovery_rate:.1f}",
        ]
        for label, arm in scores.arms.items()
        for gamma, shock in arm.shocks.items()
    ]
    header = ["arm", "γ", "shocks", "peak SF (%)", "AUSC", "SF halved", "not halved (%)", "τ₉₅", "not regained (%)"]
    note = (
        "Of the epochs from a shock to the next. Peak SF: largest saturated fraction. AUSC: area under its curve, in "
        "epochs. SF halved: epochs until it is at most half of its peak; τ₉₅: epochs until 95 % of the test accuracy "
        "before the shock is regained, 0 where it was not lost; both over the shocks after which it happened, the rest "
        "are the two rates of non-recovery."
    )
    return Table("Shocks", header, rows, note) if rows else None


def percent(spread: Spread) -> str:
    """Return shares as percentages: `84.26 [84.20, 84.32]`."""
    return spread_text(spread, percent=True)


def _intervention_columns(arms: Mapping[str, ClassifierArm]) -> dict[str, list[str]]:
    return {
        **intervention_columns([arm.at_events for arm in arms.values()]),
        "λ_max": [before_and_after_text(arm.at_events, "lambda_max") for arm in arms.values()],
        "units replaced": [
            ", ".join(f"{name} {number(count, 6)}" for name, count in arm.replaced.items()) or MISSING
            for arm in arms.values()
        ],
    }


def _task_range(scores: ClassifierScores) -> str:
    counts = {arm.tasks for arm in scores.arms.values()}
    return str(*counts) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
