"""Runs side by side: of classifiers, benchmarks across, arms down, the seeds of one arm joined; of one kind of runs of
language models or linear networks likewise."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from .collect import LOOPED, ComparisonData, Row, RunData, load, load_runs

Entry = list[RunData]  # the runs of one directory, one a seed
# Settings that change no result, or only how often one looks.
INCIDENTAL = {
    "seed", "seeds", "threads", "device", "compile", "data", "checkpoint_every", "keep_checkpoints", "measure_every",
    "eval_every", "curvature",
}  # fmt: skip


def gather(paths: Sequence[Path]) -> dict[str, ComparisonData]:
    """Benchmark → its arms, from the directories of runs of classifiers, or of one comparison of them; or from the
    directories of runs of one other kind, of language models or linear networks.

    A benchmark is a stream of tasks over a data set, or such a kind of runs. An arm is named after its hooks (of
    classifiers its activation and hooks), and where one benchmark has several such, after the parameters and settings
    in which they differ as well. Runs that differ only in their seeds are one arm.
    Raises ValueError, in one line, for what cannot go side by side, and for damaged files.
    """
    if len(paths) == 1 and (paths[0] / "comparison.json").is_file():
        data = load(paths[0])
        return {benchmark(data.first): data}
    entries = [_entry(path) for path in dict.fromkeys(paths)]
    if len(kinds := dict.fromkeys(entry[0].kind for entry in entries)) > 1:
        raise ValueError(f"runs of {' and '.join(kinds)} do not go side by side: each kind has a report of its own")
    by_arm: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        by_arm[_arm(entry[0].config, bare=True)].append(entry)
    labels: dict[Path, str] = {}
    for name, group in by_arm.items():
        labels |= _labels(name, group)
    found: dict[str, dict[str, Entry]] = defaultdict(lambda: defaultdict(list))
    for entry in entries:
        found[benchmark(entry[0])][labels[entry[0].path]] += entry
    palette = tuple(dict.fromkeys(labels.values()))
    place = paths[0] if len(paths) == 1 else Path("side by side")
    return {
        name: ComparisonData(
            place,
            {label: sorted(arms[label], key=lambda run: run.seed) for label in palette if label in arms},
            palette=palette,
        )
        for name, arms in found.items()
    }


def benchmark(run: RunData) -> str:
    """What a run was trained on: `permuted mnist`, `split cifar-100, shocks`; of other runs their kind."""
    if not run.classifies:
        return run.kind
    settings = run.config.get("settings", {})
    shocks = ", shocks" if settings.get("shock_every") else ""
    return f"{settings.get('stream', 'tasks')} {settings.get('dataset', '')}".strip() + shocks


def differing(entries: Sequence[Entry]) -> list[str]:
    """The settings, beyond incidental ones, in which these runs are not all the same."""
    settings = [entry[0].config.get("settings", {}) for entry in entries]
    names = dict.fromkeys(chain.from_iterable(settings))
    return [n for n in names if n not in INCIDENTAL and any(s.get(n) != settings[0].get(n) for s in settings)]


def _entry(path: Path) -> Entry:
    if (path / "comparison.json").is_file():
        raise ValueError(f"{path} is a comparison: report it by itself, only single runs go side by side")
    if not (path / "config.json").is_file():
        raise ValueError(f"{path} is no run directory: it has no config.json")
    runs = load_runs(path)
    if not runs[0].classifies and runs[0].kind not in LOOPED:
        kind = runs[0].kind or "another algorithm"
        raise ValueError(
            f"{path} is a run of {kind}: only runs of `supple vision`, `supple language` or `supple linear` go side by "
            "side"
        )
    return runs


def _arm(config: Row, bare: bool = False) -> str:
    """Activation and hooks, or the arm's own name where a run has one. bare: without the activation's parameters. Of
    runs that are not of classifiers the hooks, and the method of continual learning."""
    if config.get("arm"):
        return str(config["arm"])
    settings = config.get("settings", {})
    if config.get("algorithm") in LOOPED:
        return " + ".join(filter(None, [settings.get("method"), *config.get("hooks", [])])) or "none"
    activation = str(settings.get("activation", "?"))
    return " + ".join([activation.split("(")[0] if bare else activation, *config.get("hooks", [])])


def _labels(name: str, entries: Sequence[Entry], level: int = 0) -> dict[Path, str]:
    """Run directory → label: `name`, or as much more as tells apart what one benchmark has of it."""
    columns: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        columns[benchmark(entry[0])].append(entry)
    if all(_same_arm(column) for column in columns.values()):
        return {entry[0].path: name for entry in entries}
    if level == 3:  # even their folders have one name
        return {entry[0].path: str(entry[0].path) for entry in entries}
    apart: dict[str, list[Entry]] = defaultdict(list)
    for column in columns.values():
        named = {"hook", "activation"} if column[0][0].classifies else {"hook", "method"}
        names = [n for n in differing(column) if n not in named]
        for entry in column:
            settings = entry[0].config.get("settings", {})
            words = [_arm(entry[0].config), *(f"{n} {settings.get(n)}" for n in names)]
            label = (words[0], ", ".join(words), f"{', '.join(words)} ({entry[0].path.name})")[level]
            apart[label].append(entry)
    labels: dict[Path, str] = {}
    for label, group in apart.items():
        labels |= _labels(label, group, level + 1)
    return labels


def _same_arm(entries: Sequence[Entry]) -> bool:
    """Whether these runs are one arm: they differ in nothing but their seeds."""
    seeds = [run.seed for entry in entries for run in entry]
    return not differing(entries) and len(set(seeds)) == len(seeds)
