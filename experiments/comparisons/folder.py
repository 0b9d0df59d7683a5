"""The folders of comparisons: their comparison.json, with which they begin and are continued."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from supple.engine.kinds import value_of
from supple.engine.loop import Warn
from supple.engine.machine.denormals import flushing_denormals
from supple.engine.spec import FILE as RUN
from supple.engine.spec import from_json, to_json
from supple.engine.storage.signed_json import read_json, require_outside, start_folder, write_json
from supple.engine.user_code import plugins
from supple.experiments.queue.queue import Queue

from .checks import Networks
from .comparison import Comparison
from .grid import Point

FILE = "comparison.json"


def files_of_runs(path: Path, name: str) -> list[Path]:
    """Return all files with this name in the folders of a comparison's runs, sorted.

    Subfolders of the runs are not searched: checkpoints come and go there, and `Path.glob` fails if one vanishes. The
    folder `model/` of a run, which may have a config.json of its own, is none of them.
    """
    in_variants = (file for file in path.glob(f"seed*/*/*/{name}") if not (file.parents[1] / RUN).is_file())
    return sorted([*path.glob(f"seed*/*/{name}"), *in_variants])


def create(path: Path, comparison: Comparison, jobs: int, warn: Warn = print) -> Comparison:
    """Check a comparison, write its comparison.json, and return it.

    Args:
        path: Its folder, which must be new or empty.
        comparison: The comparison.
        jobs: Number of simultaneous runs, for which the memory is checked.
        warn: Called with lines for the user.

    Raises:
        UsageError: It cannot be trained; nothing was written.
    """
    require_outside(path)
    notes: dict[str, None] = {}
    comparison = comparison.resolve(jobs, notes.setdefault)
    start_folder(path, FILE, _to_json(comparison))
    for line in filter(None, [*notes, comparison.note]):  # not before, so that a refusal is one line
        warn(line)
    return comparison


def rewrite(path: Path, comparison: Comparison) -> None:
    """Write comparison.json with the plug-ins here, replacing the present one."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / FILE, _to_json(comparison))


def _to_json(comparison: Comparison) -> Any:
    return to_json(replace(comparison, stacks=comparison.groups, note="", plugins=plugins.sums()))


def open_runs(path: Path, warn: Warn, study: str = "") -> Queue:
    """Return the runs of the comparison in a folder.

    Raises UsageError if there is none, or if the plug-ins are others.
    """
    comparison = open_comparison(path)
    if (queue := comparison.queue(path, study)).left:  # what they lack here is said once, before any of them fails
        kind, threads = comparison.kind_row, comparison.settings.torch_threads
        with flushing_denormals(threads), Networks(kind, warn) as networks:
            networks.tasks(comparison.first)
    return queue


def read_comparison(path: Path) -> Comparison:
    """Return the comparison in a folder, for reports: values that vary are as in JSON, and nothing is checked.

    Raises UsageError if there is none, and RunError if it is damaged.
    """
    return from_json(Comparison, read_json(path / FILE, f"{path} is not a comparison"), path / FILE)


def open_comparison(path: Path, mended: bool = False) -> Comparison:
    """Return the comparison in a folder, to be trained.

    Raises UsageError if there is none, or the plug-ins are others. With `mended`, their sums may differ.
    """
    found = read_comparison(path)
    plugins.require(found.plugins, path, mended=mended)
    kind = found.kind_row
    points = [Point(arm, {name: value_of(kind, name, x) for name, x in of.items()}) for arm, of in found.points]
    return replace(found, points=tuple(points))
