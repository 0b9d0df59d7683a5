"""The folders of comparisons: their comparison.json, with which they begin and are continued."""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from supple.engine.forks import Variant
from supple.engine.loop import Warn
from supple.engine.machine.denormals import flushing_denormals
from supple.engine.settings import RunSettings, Seeds
from supple.engine.spec import read_settings, settings_to_json
from supple.engine.storage.signed_json import read_json, require_outside, start_folder, write_json
from supple.engine.user_code import plugins
from supple.experiments.queue.queue import Queue
from supple.registry import schema
from supple.registry.errors import RunError, UsageError

from .checks import Networks
from .comparison import Comparison
from .grid import Point, sort_points

FILE = "comparison.json"


class Plan(TypedDict):
    """The contents of comparison.json. If not every arm is in every variant, `only` has the pairs that are."""

    algorithm: str
    settings: dict[str, Any]
    arms: tuple[str, ...]
    seeds: Seeds
    stacks: NotRequired[tuple[Seeds, ...]]
    fork_step: int
    command: str
    variants: tuple[dict[str, Any], ...]
    only: tuple[tuple[str, int], ...]
    stop_step: int
    leads: NotRequired[str]


def files_of_runs(path: Path, name: str) -> list[Path]:
    """Return all files with this name in the folders of a comparison's runs, sorted.

    Subfolders of the runs are not searched: checkpoints come and go there, and `Path.glob` fails if one vanishes.
    """
    return sorted([*path.glob(f"seed*/*/{name}"), *path.glob(f"seed*/*/*/{name}")])


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
    """Write comparison.json, replacing the present one."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / FILE, _to_json(comparison))


def _to_json(comparison: Comparison) -> dict[str, Any]:
    arms, variants = comparison.arms, comparison.variants
    pairs = [(point.arm, variants.index(point.variant)) for point in comparison.points]
    plan = Plan(
        algorithm=comparison.kind,
        settings=settings_to_json(comparison.settings),
        arms=arms,
        seeds=comparison.seeds,
        stacks=comparison.groups,
        fork_step=comparison.fork_step or 0,
        command=comparison.command,
        variants=tuple(map(dict, variants)),
        only=tuple(pairs) if len(pairs) < len(arms) * len(variants) else (),
        stop_step=comparison.stop_step,
        leads=comparison.leads,
    )
    return {**plan, **plugins.config_entry()}


def open_runs(path: Path, warn: Warn, study: str = "") -> Queue:
    """Return the runs of the comparison in a folder.

    Raises UsageError if there is none, or if the plug-ins are others.
    """
    comparison = read_comparison(path)
    if (queue := comparison.queue(path, study)).left:
        require_continuable(path, comparison, warn)
    return queue


def require_continuable(path: Path, comparison: Comparison, warn: Warn) -> None:
    """Raise RunError if the fork is impossible."""
    kind, settings = comparison.kind_row, comparison.settings
    with flushing_denormals(settings.torch_threads), Networks(kind, warn) as networks:
        total = networks.tasks(comparison.first)[-1].end
    if not 0 <= (comparison.fork_step or 0) < total:
        raise RunError(f"{path / FILE}: runs of {total} steps cannot fork at step {comparison.fork_step}")


def read_comparison(path: Path) -> Comparison:
    """Return the comparison in a folder. Raises UsageError if there is none, or the plug-ins are others."""
    file = path / FILE
    data = read_json(file, f"{path} is not a comparison")
    try:
        named = schema.convert(data.pop("plugins", {}), dict[str, str], "plugins")
        plan: Plan = schema.convert(data, Plan, "")
        _, settings = read_settings({**plan, "plugins": named}, file)
        variants: list[Variant] = []
        for i, variant in enumerate(plan["variants"]):
            values = vars(schema.convert(variant, type(settings), f"variants[{i}]"))
            variants.append({name: values[name] for name in variant})
        pairs = plan["only"] or [(arm, i) for i in range(len(variants)) for arm in plan["arms"]]
        points = sort_points([Point(arm, variants[i]) for arm, i in pairs])
    except UsageError:
        raise
    except (ValueError, IndexError) as error:
        raise RunError(f"{file} was edited or was written by another version of supple: {error}") from error
    # before agents could be stacked, each of their seeds was a run of its own
    group = RunSettings.group if "stack" in vars(settings) else type(settings).group
    stacks = plan.get("stacks") or group(settings, plan["seeds"])
    comparison = Comparison(
        plan["algorithm"], settings, points, plan["seeds"],
        fork_step=plan["fork_step"], stop_step=plan["stop_step"], leads=plan.get("leads", ""),
        command=plan["command"], stacks=stacks,
    )  # fmt: skip
    comparison.check()
    return comparison
