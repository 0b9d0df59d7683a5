"""Records of runs and comparisons, written by hand for the tests of what reads them."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from supple.engine.kinds import find_kind, settings_with
from supple.engine.spec import Labels, Resolved, RunSpec, Start, read_spec, to_json, write_spec
from supple.engine.storage.signed_json import write_json
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.grid import Point


def write_run(
    folder: Path,
    kind: str,
    tasks: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any] | None = None,
    start: int = 0,
    stop: int | None = None,
    command: str = "",
    labels: Mapping[str, Any] | None = None,
    **resolved: Any,
) -> RunSpec:
    """Write config.json of a run in a new folder, and return what it holds."""
    folder.mkdir(parents=True, exist_ok=True)
    made = settings_with(find_kind(kind), None, settings or {})
    found = Resolved(tasks=tuple(tasks), planned=tasks[-1]["end"] if tasks else 0, **resolved)
    spec = RunSpec(kind, made, Labels(**(labels or {})), Start(start), stop, command, found)
    write_spec(folder, spec)
    return spec


def write_logs(folder: Path, **logs: Iterable[Mapping[str, Any]]) -> None:
    """Write the rows of each log of a run, by name."""
    for name, rows in logs.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def relabel(folder: Path, **labels: Any) -> None:
    """Change labels of a run."""
    spec = read_spec(folder)
    write_spec(folder, replace(spec, labels=replace(spec.labels, **labels)))


def write_plan(
    path: Path,
    kind: str,
    arms: Iterable[str],
    seeds: Iterable[int],
    fork: int = 0,
    variants: Sequence[Mapping[str, Any]] = ({},),
) -> None:
    """Write comparison.json of every arm in every variant."""
    path.mkdir(parents=True, exist_ok=True)
    points = tuple(Point(arm, variant) for variant in variants for arm in arms)
    made = settings_with(find_kind(kind), None, {})
    write_json(path / "comparison.json", to_json(Comparison(kind, made, points, tuple(seeds), fork_step=fork)))


def results(path: Path) -> dict[str, Any]:
    """Return what the runs in a folder left, by file: tensors as bytes, logs without times."""
    found: dict[str, Any] = {}
    for file in path.rglob("*"):
        name = str(file.relative_to(path))
        if file.suffix == ".safetensors":
            found[name] = file.read_bytes()
        elif file.suffix == ".jsonl":
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            found[name] = [{key: x for key, x in row.items() if key not in ("time", "seconds")} for row in rows]
    return found


def program(file: Path) -> Any:
    """Return the module that a file outside of packages defines."""
    sys.modules[file.stem] = module = ModuleType(file.stem)  # where dataclasses look it up
    module.__file__ = str(file)
    exec(compile(file.read_text(), file, "exec"), vars(module))
    return module
