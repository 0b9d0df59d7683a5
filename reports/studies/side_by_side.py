"""Runs of one kind side by side: one column per benchmark, one row per arm, with the seeds of an arm together."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

from supple.engine.storage.versions import describe_mixed
from supple.experiments.history.collect import by_seed, load, load_runs, notes_of_seeds
from supple.experiments.history.data import ComparisonData, RunData
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
        ValueError: The runs cannot be shown side by side, or a file is damaged.
    """
    benchmark = benchmark or (lambda run: run.spec.kind)
    if len(paths) == 1 and (named is None or (paths[0] / "comparison.json").is_file()):
        data = load(paths[0], since_fork)
        return {benchmark(data.first): data}
    entries = [_read_entry(path) for path in dict.fromkeys(paths)]
    if len(kinds := dict.fromkeys(entry[0].spec.kind for entry in entries)) > 1:
        raise ValueError(f"runs of {' and '.join(kinds)} cannot be shown side by side: each kind has its own report")
    if named is None:
        raise ValueError(f"{paths[0]} is a run of {next(iter(kinds))}: these cannot be shown side by side")
    labels: dict[Path, str] = {}
    for name, group in group_by(entries, lambda entry: _arm_name(entry[0], named, bare=True)).items():
        labels |= _label_runs(name, group, named, benchmark)
    benchmarks: dict[str, dict[str, Entry]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        benchmarks[benchmark(entry[0])][labels[entry[0].path]] += entry
    palette = tuple(dict.fromkeys(labels.values()))
    place = paths[0] if len(paths) == 1 else Path("side by side")
    studies = {}
    for name, arms in benchmarks.items():
        known = {
            run.path.name if len(paths) == 1 else str(run.path): run.spec.resolved.versions
            for run in chain(*arms.values())
        }
        in_order = {label: by_seed(arms[label]) for label in palette if label in arms}
        notes = notes_of_seeds(in_order) + describe_mixed(known)
        studies[name] = ComparisonData(place, in_order, notes=notes, palette=palette)
    return studies


def differing_settings(runs: Sequence[RunData]) -> list[str]:
    """Return the names of the settings in which these runs differ, except incidental ones."""
    first, *others = [run.values for run in runs]
    names = dict.fromkeys(chain(first, *others))
    different = {name for settings in others for name in names if settings.get(name) != first.get(name)}
    return [name for name in names if name in different and name not in INCIDENTAL]


def _read_entry(path: Path) -> Entry:
    if (path / "comparison.json").is_file():
        raise ValueError(f"{path} is a comparison: report it alone, because only single runs can be side by side")
    if not (path / "config.json").is_file():
        raise ValueError(f"{path} is not a run directory: it has no config.json")
    return load_runs(path)


def _arm_name(run: RunData, named: str, bare: bool = False) -> str:
    """Return the name of an arm: the one in config.json, or the setting that names it and its hooks.

    With `bare`, the parameters of that setting are left out.
    """
    if run.spec.labels.arm:
        return run.spec.labels.arm
    value = str(run.values.get(named, ""))
    return " + ".join(filter(None, [value.split("(")[0] if bare else value, *run.spec.resolved.hooks])) or "none"


def _label_runs(
    name: str, entries: Sequence[Entry], named: str, benchmark: Benchmark, level: int = 0
) -> dict[Path, str]:
    """Return a label for each run directory: `name`, with as many details as are needed within one benchmark."""
    columns = group_by(entries, lambda entry: benchmark(entry[0]))
    if all(_are_one_arm(column) for column in columns.values()):
        return {entry[0].path: name for entry in entries}
    if level == 3:  # even the names of their folders are the same
        return {entry[0].path: str(entry[0].path) for entry in entries}
    detailed: dict[str, list[Entry]] = defaultdict(list)
    for column in columns.values():
        different = differing_settings([entry[0] for entry in column])
        names = [name for name in different if name not in ("hook", named)]
        for entry in column:
            words = [_arm_name(entry[0], named), *(f"{n} {entry[0].values.get(n)}" for n in names)]
            label = (words[0], ", ".join(words), f"{', '.join(words)} ({entry[0].path.name})")[level]
            detailed[label].append(entry)
    labels: dict[Path, str] = {}
    for label, group in detailed.items():
        labels |= _label_runs(label, group, named, benchmark, level + 1)
    return labels


def _are_one_arm(entries: Sequence[Entry]) -> bool:
    """Return whether these runs are one arm: they differ only in their seeds."""
    seeds = [run.seed for entry in entries for run in entry]
    return not differing_settings([entry[0] for entry in entries]) and len(set(seeds)) == len(seeds)
