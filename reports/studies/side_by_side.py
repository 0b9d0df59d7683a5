"""Runs of one kind side by side: one column per benchmark, one row per arm, with the seeds of an arm together."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from supple.engine.storage.versions import describe_mixed
from supple.experiments.history.collect import by_seed, load, load_runs, notes_of_seeds
from supple.experiments.history.data import ComparisonData, RunData
from supple.reports.tables.differences import group_by

from .content import SideBySide, report_of

Entry = list[RunData]  # the runs of one directory, one per seed
# Settings that do not change results, or only how often they are measured.
INCIDENTAL = {
    "seed", "seeds", "stack", "threads", "env_threads", "device", "compile", "data", "checkpoint_every",
    "keep_checkpoints", "measure_every", "eval_every", "eval_epochs", "curvature", "trainability_every", "keep_best",
    "keep_at", "log_to",
}  # fmt: skip


def gather(paths: Sequence[Path]) -> dict[str, ComparisonData]:
    """Return the arms of each benchmark, from directories of runs of one kind, or of one comparison.

    The kind defines its benchmarks, and the setting that names an arm together with its hooks (`SideBySide`). Arms with
    the same name in one benchmark are distinguished by the parameters and settings in which they differ. Runs that
    differ only in their seeds are one arm.

    Raises:
        ValueError: The runs cannot be shown side by side, or a file is damaged.
    """
    if len(paths) == 1 and (paths[0] / "comparison.json").is_file():
        data = load(paths[0])
        return {_benchmark([data.first]): data}
    entries = [_read_entry(path) for path in dict.fromkeys(paths)]
    if len(kinds := dict.fromkeys(entry[0].spec.kind for entry in entries)) > 1:
        raise ValueError(f"runs of {' and '.join(kinds)} cannot be shown side by side: each kind has its own report")
    labels: dict[Path, str] = {}
    for name, group in group_by(entries, lambda entry: _arm_name(entry[0], bare=True)).items():
        labels |= _label_runs(name, group)
    benchmarks: dict[str, dict[str, Entry]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        benchmarks[_benchmark(entry)][labels[entry[0].path]] += entry
    palette = tuple(dict.fromkeys(labels.values()))
    place = paths[0] if len(paths) == 1 else Path("side by side")
    studies = {}
    for name, arms in benchmarks.items():
        names = [(run, run.path.name if len(paths) == 1 else str(run.path)) for run in chain(*arms.values())]
        known = {name: run.spec.resolved.versions for run, name in names}
        in_order = {label: by_seed(arms[label]) for label in palette if label in arms}
        notes = notes_of_seeds(in_order) + describe_mixed(known)
        studies[name] = ComparisonData(place, in_order, notes=notes, palette=palette)
    return studies


def differing_settings(entries: Sequence[Entry]) -> list[str]:
    """Return the names of the settings in which these runs differ, except incidental ones."""
    first, *others = [entry[0].values for entry in entries]
    names = dict.fromkeys(chain(first, *others))
    different = {name for settings in others for name in names if settings.get(name) != first.get(name)}
    return [name for name in names if name in different and name not in INCIDENTAL]


def only_path(paths: Sequence[Path]) -> Path:
    """Return the only directory, for a kind whose runs cannot be shown side by side. Raises ValueError for several."""
    if len(paths) > 1:
        _read_entry(paths[0])
    return paths[0]


def _read_entry(path: Path) -> Entry:
    if (path / "comparison.json").is_file():
        raise ValueError(f"{path} is a comparison: report it alone, because only single runs can be side by side")
    if not (path / "config.json").is_file():
        raise ValueError(f"{path} is not a run directory: it has no config.json")
    runs = load_runs(path)
    _labelling(runs[0])
    return runs


def _labelling(run: RunData) -> SideBySide:
    """Return how runs of this kind are labelled. Raises ValueError if they cannot be shown side by side."""
    if (labelling := report_of(run.spec.kind_row).side_by_side) is None:
        raise ValueError(f"{run.path} is a run of {run.spec.kind}: these cannot be shown side by side")
    return labelling


def _benchmark(entry: Entry) -> str:
    return _labelling(entry[0]).benchmark(entry[0])


def _arm_name(run: RunData, bare: bool = False) -> str:
    """Return the name of an arm: the one in config.json, or the setting that names it and its hooks.

    With `bare`, the parameters of that setting are left out.
    """
    if run.spec.labels.arm:
        return run.spec.labels.arm
    value = str(run.values.get(_labelling(run).named, ""))
    return " + ".join(filter(None, [value.split("(")[0] if bare else value, *run.spec.resolved.hooks])) or "none"


def _label_runs(name: str, entries: Sequence[Entry], level: int = 0) -> dict[Path, str]:
    """Return a label for each run directory: `name`, with as many details as are needed within one benchmark."""
    columns = group_by(entries, _benchmark)
    if all(_are_one_arm(column) for column in columns.values()):
        return {entry[0].path: name for entry in entries}
    if level == 3:  # even the names of their folders are the same
        return {entry[0].path: str(entry[0].path) for entry in entries}
    detailed: dict[str, list[Entry]] = defaultdict(list)
    for column in columns.values():
        names = [n for n in differing_settings(column) if n not in ("hook", _labelling(column[0][0]).named)]
        for entry in column:
            words = [_arm_name(entry[0]), *(f"{n} {entry[0].values.get(n)}" for n in names)]
            label = (words[0], ", ".join(words), f"{', '.join(words)} ({entry[0].path.name})")[level]
            detailed[label].append(entry)
    labels: dict[Path, str] = {}
    for label, group in detailed.items():
        labels |= _label_runs(label, group, level + 1)
    return labels


def _are_one_arm(entries: Sequence[Entry]) -> bool:
    """Return whether these runs are one arm: they differ only in their seeds."""
    seeds = [run.seed for entry in entries for run in entry]
    return not differing_settings(entries) and len(set(seeds)) == len(seeds)
