"""Runs of one kind side by side: one column per benchmark, one row per arm, with the seeds of an arm together."""

from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from supple.engine.storage.versions import describe_mixed
from supple.experiments.history.collect import by_seed, count_from_start, load, load_runs, notes_of_seeds
from supple.experiments.history.data import ComparisonData, RunData
from supple.registry.errors import UsageError
from supple.reports.tables.differences import group_by

Entry = list[RunData]  # the runs of one directory, one per seed
Benchmark = Callable[[RunData], str]
# Settings that do not change results, or only how often they are measured.
INCIDENTAL = {
    "seed", "seeds", "stack", "threads", "env_threads", "device", "compile", "data", "checkpoint_every",
    "keep_checkpoints", "measure_every", "eval_every", "eval_epochs", "curvature", "trainability_every", "keep_best",
    "keep_at", "log_to",
}  # fmt: skip


def gather(
    paths: Sequence[Path], named: str | None, benchmark: Benchmark | None, since_fork: bool
) -> dict[str, ComparisonData]:
    """Return the arms of each benchmark, from directories of runs of one kind, or of one comparison.

    Arms with the same name in one benchmark are distinguished by the parameters and settings in which they differ. Runs
    that differ only in their seeds are one arm. The other arguments are the fields of the kind's `Report`.

    Raises:
        UsageError: The runs cannot be shown side by side, or a file is damaged.
    """
    benchmark = benchmark or (lambda run: run.spec.kind)
    if len(paths) == 1 and (named is None or (paths[0] / "comparison.json").is_file()):
        data = load(paths[0], since_fork)
        return {benchmark(data.first): data}
    entries = [_read_entry(path, since_fork) for path in dict.fromkeys(paths)]
    if len(kinds := dict.fromkeys(entry[0].spec.kind for entry in entries)) > 1:
        raise UsageError(f"runs of {' and '.join(kinds)} cannot be shown side by side: each kind has its own report")
    if named is None:
        raise UsageError(f"{paths[0]} is a run of {next(iter(kinds))}: these cannot be shown side by side")
    labels: dict[Path, str] = {}
    for group in group_by(entries, lambda entry: _arm_name(entry[0], named, bare=True)).values():
        labels |= _label_runs(group, named, benchmark)
    palette = tuple(dict.fromkeys(labels.values()))
    place = paths[0] if len(paths) == 1 else Path("side by side")
    studies = {}
    for name, own in group_by(list(chain(*entries)), benchmark).items():
        arms = group_by(own, lambda run: labels[run.path])
        in_order = {label: by_seed(arms[label]) for label in palette if label in arms}
        known = {run.path.name if len(paths) == 1 else str(run.path): run.spec.resolved.versions for run in own}
        notes = notes_of_seeds(in_order) + describe_mixed(known)
        studies[name] = ComparisonData(place, in_order, notes=notes, palette=palette)
    return studies


def differing_settings(runs: Sequence[RunData]) -> list[str]:
    """Return the names of the settings in which these runs differ, except incidental ones."""
    first, *others = [run.values for run in runs]
    names = dict.fromkeys(chain(first, *others))
    different = {name for settings in others for name in names if settings.get(name) != first.get(name)}
    return [name for name in names if name in different and name not in INCIDENTAL]


def _read_entry(path: Path, since_fork: bool) -> Entry:
    if (path / "comparison.json").is_file():
        raise UsageError(f"{path} is a comparison: report it alone, because only single runs can be side by side")
    if not (path / "config.json").is_file():
        raise UsageError(f"{path} is not a run directory: it has no config.json")
    runs = load_runs(path)
    return list(map(count_from_start, runs)) if since_fork else runs


def _arm_name(run: RunData, named: str, bare: bool = False) -> str:
    """Return the name of an arm: the one in config.json, or the setting that names it and its hooks.

    With `bare`, the parameters of that setting are left out.
    """
    if run.spec.labels.arm:
        return run.spec.labels.arm
    value = str(run.values.get(named, ""))
    return " + ".join(filter(None, [value.split("(")[0] if bare else value, *run.spec.resolved.hooks])) or "none"


def _label_runs(entries: Sequence[Entry], named: str, benchmark: Benchmark) -> dict[Path, str]:
    """Return labels of run directories, with as many details as tell apart those that are not one arm."""

    def full(run: RunData) -> str:
        column = [entry[0] for entry in entries if benchmark(entry[0]) == benchmark(run)]
        names = [name for name in differing_settings(column) if name not in ("hook", named)]
        return ", ".join([_arm_name(run, named), *(f"{name} {run.values.get(name)}" for name in names)])

    forms: list[Callable[[RunData], str]] = [
        lambda run: _arm_name(run, named, bare=True),
        full,
        lambda run: f"{full(run)} ({run.path.name})",
        lambda run: str(run.path),
    ]
    for form in forms:
        arms = group_by(entries, lambda entry: (benchmark(entry[0]), form(entry[0])))  # noqa: B023
        if all(map(_are_one_arm, arms.values())):
            break
    return {entry[0].path: form(entry[0]) for entry in entries}


def _are_one_arm(entries: Sequence[Entry]) -> bool:
    """Return whether these runs are one arm: they differ only in their seeds."""
    seeds = [run.seed for entry in entries for run in entry]
    return not differing_settings([entry[0] for entry in entries]) and len(set(seeds)) == len(seeds)
