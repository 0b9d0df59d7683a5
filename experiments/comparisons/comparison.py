"""Comparisons: one trunk per seed, then every arm from the trunk's identical state, for every kind of run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from ...engine.forks import FRESH, NONE, Variant, fork_step_of, stop_step_of
from ...engine.kinds import Kind, Preset, find_kind, value_in_text
from ...engine.loop import Warn
from ...engine.machine.denormals import flushing_denormals
from ...engine.machine.resources import sharing
from ...engine.machine.torchrun import require_alone
from ...engine.runs import build, drive, plain, settings_of, staying
from ...engine.settings import RunSettings, Seeds
from ...engine.storage import names
from ...engine.storage.signed_json import read_json, require_outside, start_folder, write_json
from ...engine.user_code import plugins
from ...engine.work import Task
from ...registry import schema, tell
from ...registry.errors import RunError, UsageError
from .default_fork import Place, default_fork

Vary = Mapping[str, Sequence[Any]]  # name of a setting → its values; every arm is trained with each
Point = tuple[str, Variant]  # an arm, in one variant of the settings
T = TypeVar("T")
FILE = "comparison.json"
AUTO = "auto"
SETTING = re.compile(r"(\w+)=(.+)")  # a part of an arm that is not a hook: a setting for this arm only


@dataclass(frozen=True)
class Comparison:
    """The plan of a comparison.

    Attributes:
        algorithm: Name of the kind of run.
        settings: The settings of all runs.
        arms: Hook texts and settings joined by ` + `, or `none`, or the reference `fresh`.
        seeds: The seeds.
        fork_step: The step of the fork. If it is 0, there is no trunk and arms are trained from the beginning.
        command: The command line as typed.
        variants: The variants of the settings. Every arm is trained in each of them.
        only: Pairs of an arm and the index of a variant. If not empty, only these are trained.
        stop_step: The step at which all runs stop, as if killed, while arms are tuned; 0 for the end.
        note: A line for the user about the fork, to be shown once everything has been checked. It is not saved.
    """

    algorithm: str
    settings: RunSettings
    arms: tuple[str, ...]
    seeds: Seeds
    fork_step: int
    command: str
    variants: tuple[Variant, ...] = ({},)
    only: tuple[tuple[str, int], ...] = ()
    stop_step: int = 0
    note: str = field(default="", compare=False)

    @property
    def points(self) -> list[Point]:
        """The runs of each seed, or of each stack of seeds, without trunks."""
        places, chosen = enumerate(self.variants), set(self.only)
        return [(arm, v) for i, v in places for arm in self.arms if not chosen or (arm, i) in chosen]

    @property
    def kind(self) -> Kind:
        return find_kind(self.algorithm)

    @property
    def trunks(self) -> tuple[Variant, ...]:
        """The variants that have their own trunk."""
        return ({},) if self.kind.forks().shared_trunk(self.settings) else self.variants

    @property
    def first(self) -> RunSettings:
        """The settings of the first run, of one seed or of a stack."""
        return first_of(self.settings, self.seeds)

    def hooks_of(self, arm: str) -> tuple[str, ...]:
        """Return the hooks in an arm's text, or ("none",) if it has none."""
        return tuple(part for part in _hooks_in(arm) if part != FRESH) or (NONE,)

    def settings_of(self, arm: str) -> Variant:
        """Return the settings in an arm's text, such as `none + learning_rate=0.001`. Raises UsageError."""
        found = [match for part in _parts(arm) if (match := SETTING.fullmatch(part))]
        return {match[1]: value_in_text(self.kind, match[1], match[2]) for match in found}

    def own(self, arm: str) -> Variant:
        """Return the fields of the settings that this arm changes."""
        fresh = {"fresh": True} if FRESH in _parts(arm) else {}
        return {**self.settings_of(arm), "hook": self.hooks_of(arm), **fresh}


def _parts(arm: str) -> list[str]:
    return re.split(r"\s+\+\s+", arm.strip())


def _hooks_in(arm: str) -> list[str]:
    """Return the parts of an arm that are not settings: its hooks, `none` and `fresh`."""
    return [part for part in _parts(arm) if not SETTING.fullmatch(part)]


@staying()
def plan(
    kind: Kind,
    preset: Preset | None,
    settings: RunSettings,
    seeds: Seeds,
    points: Sequence[Point],
    *,
    reference: str | None,
    fork_at: float | None,
    fork_at_task: int | None,
    command: str,
    stop_at: float | None = None,
    begun: int | None = None,
    warn: Warn = tell,
) -> Comparison:
    """Return the comparison of these points. By default, the preset or the hooks decide where to fork.

    `reference` is an additional arm with which the others are compared: `fresh`, or None. With `stop_at`, all runs stop
    after this share of the planned steps, in which at least one task must end. `begun` is the fork step of the started
    comparison that this one extends: a fork by default stays there. Raises UsageError if this cannot work.
    """
    require_alone("a comparison")
    if any(FRESH in _parts(arm) for arm, _ in points):
        raise UsageError("fresh is not an arm but the reference for the arms: use --reference fresh")
    if fork_at is None and fork_at_task is None and preset:
        fork_at = preset.fork_at
    if reference == FRESH:
        points = [*points, *((FRESH, variant) for variant in _different([variant for _, variant in points]))]
    arms, variants, only = _table(points)
    fork = stop = 0
    note = ""
    by_default = fork_at is None and fork_at_task is None and stop_at is None
    if stop_at is not None:
        stop = stop_step_of(_tasks(kind, first_of(settings, seeds), warn), settings.stride, stop_at)
    elif fork_at or fork_at_task is not None:
        fork = fork_step_of(_tasks(kind, first_of(settings, seeds), warn), settings.stride, fork_at, fork_at_task)
    elif by_default and kind.forks().by_hooks(settings, variants):
        together = max(sum(variant == other for _, other in points) for variant in variants)
        if together > 1 or kind.fork_at is not None or kind.fork_at_task is not None:  # else nothing shares a trunk
            place = _default_fork(kind, first_of(settings, seeds), arms, variants, warn)
            fork = place.step
            if begun is None and place.line:
                note = f"{place.line} (--fork-at changes this)"
            elif begun is not None and fork < begun:
                otherwise = f"; otherwise {place.line}" if place.line else ""
                note = f"the fork stays at step {begun:,}, with which the runs were started{otherwise}"
    settings, prepared, fork = kind.forks().prepare(settings, variants, fork)
    if by_default and begun is not None:  # another arm must not move the fork of those that were trained
        fork = begun
    return Comparison(kind.name, settings, arms, seeds, fork, command, tuple(prepared), only, stop, note)


def _tasks(kind: Kind, settings: RunSettings, warn: Warn) -> tuple[Task, ...]:
    work = build(kind, settings, warn)
    work.close()
    return work.tasks


def _default_fork(
    kind: Kind, settings: RunSettings, arms: Sequence[str], variants: Sequence[Variant], warn: Warn
) -> Place:
    """Return the fork point where none is given."""
    tasks = _tasks(kind, settings, warn)
    own_settings = any(SETTING.fullmatch(part) for arm in arms for part in _parts(arm))
    hooks = dict.fromkeys(part for arm in arms for part in _hooks_in(arm))
    place = default_fork(kind, hooks, tasks, settings.stride, own_settings)
    if place.hooks_decide and not kind.forks().shared_trunk(settings):
        varied = (replace(settings, **variant) for variant in variants if variant)
        if any(_tasks(kind, made, warn) != tasks for made in varied):
            return Place(0, "there is no trunk, because variants have other tasks")
    return place


def _table(points: Sequence[Point]) -> tuple[tuple[str, ...], tuple[Variant, ...], tuple[tuple[str, int], ...]]:
    """Return the arms, the variants and, if not every arm is in every variant, the pairs to train."""
    arms, variants = _different([arm for arm, _ in points]), _different([variant for _, variant in points])
    pairs = _different([(arm, variants.index(variant)) for arm, variant in points])
    return tuple(arms), tuple(variants), tuple(pairs) if len(pairs) < len(arms) * len(variants) else ()


def vary_of(preset: Preset | None, settings: RunSettings) -> Vary:
    """Return the settings that a preset varies, except those whose values the user changed."""
    if preset is None:
        return {}
    own = type(settings)(**preset.settings)
    return {name: values for name, values in preset.vary.items() if getattr(settings, name) == getattr(own, name)}


def points_of(arms: Sequence[str], vary: Vary) -> list[Point]:
    """Return every arm with every combination of values. Raises UsageError if an arm or a value is given twice."""
    if len(set(arms)) < len(arms):
        raise UsageError(f"two arms would share a folder: {', '.join(arms)}")
    for name, values in vary.items():
        if len(_different(values)) < len(values):
            raise UsageError(f"--vary {name}={','.join(map(str, values))}: a value is given twice")
    return [(arm, dict(zip(vary, values, strict=True))) for values in product(*vary.values()) for arm in arms]


def _different(values: Sequence[T]) -> list[T]:
    """Return the values without repetitions, in order. They need not be hashable."""
    return [value for i, value in enumerate(values) if value not in values[:i]]


def first_of(settings: RunSettings, seeds: Seeds) -> RunSettings:
    """Return the settings of the first run that trains these seeds. The other runs differ only in the seed."""
    return next(iter(settings.of_seeds(seeds).values()), settings)


def folder_of_variant(variant: Variant) -> str:
    """Return a folder name for a variant of the settings, such as `start=best`, or "" if nothing varies."""
    return names.slug(",".join(f"{name}={value}" for name, value in variant.items())) if variant else ""


def folder_of_arm(arm: str, variant: Variant) -> str:
    """Return a folder name for an arm, inside a folder for its variant if settings vary: `start=best/fire`."""
    return "/".join(filter(None, (folder_of_variant(variant), names.slug(arm))))


def label_of(arm: str, variant: Variant) -> str:
    """Return the label of an arm in its variant, such as `learning_rate=0.001 · fire`, or `fire` if nothing varies."""
    return " · ".join(filter(None, (", ".join(f"{name}={value}" for name, value in variant.items()), arm)))


def folder_of(seeds: Seeds) -> str:
    """Return a folder name for the runs of one seed, or of a stack."""
    name = "-".join(["seed" if len(seeds) == 1 else "seeds", *map(str, seeds)])
    return names.shorten(name, name)


def files_of_runs(path: Path, name: str) -> list[Path]:
    """Return all files with this name in the folders of a comparison's runs, sorted.

    Subfolders of the runs are not searched: checkpoints come and go there, and `Path.glob` fails if one vanishes.
    """
    return sorted([*path.glob(f"seed*/*/{name}"), *path.glob(f"seed*/*/*/{name}")])


def create(path: Path, comparison: Comparison, jobs: int, warn: Warn = tell) -> Comparison:
    """Check a comparison with `jobs` simultaneous runs, write its comparison.json, and return it.

    Settings such as "auto" are replaced by definite values in the returned comparison. Raises UsageError if it cannot
    be trained.
    """
    require_outside(path)
    comparison = checked(comparison, jobs, warn)
    start_folder(path, FILE, _plan(comparison))
    if comparison.note:
        warn(comparison.note)
    return comparison


@staying()
def checked(comparison: Comparison, jobs: int, warn: Warn, known: Sequence[Point] = ()) -> Comparison:
    """Check a comparison, and return it with settings such as "auto" replaced by definite values.

    The points in `known` have been checked before. Raises UsageError if the comparison cannot be trained.
    """
    _check(comparison, [point for point in comparison.points if point not in known])
    with flushing_denormals(comparison.settings.torch_threads), sharing(jobs):
        first = comparison.first
        tasks = _require_memory(comparison, first, jobs, warn)
        own = {name: value for name, value in vars(comparison.settings).items() if name in ("seed", "seeds")}
        comparison = replace(comparison, settings=replace(first, **own))
        for arm, variant in comparison.points:
            if (arm, variant) not in known:
                _check_arm(comparison, arm, variant, tasks, warn)
    return comparison


def widened(begun: Comparison, wanted: Comparison, jobs: int, warn: Warn) -> Comparison:
    """Return a comparison that has been started, with the seeds and points of `wanted` added.

    Raises UsageError if `wanted` has other settings, another fork step or another stop step.
    """
    asked = plain(wanted.settings)
    resolved = plain((wanted := checked(wanted, jobs, warn, begun.points)).settings)
    for name, before in plain(begun.settings).items():
        # "auto" may become another value on another machine or in another version: the one of the start stays
        if name not in ("seed", "seeds") and asked[name] != AUTO and before not in (asked[name], resolved[name]):
            raise UsageError(f"{name} is {resolved[name]}, but runs were started with {before}: restore that value")
    if wanted.stop_step != begun.stop_step:
        raise UsageError(f"runs stop at step {wanted.stop_step}, but were started to stop at {begun.stop_step}")
    if wanted.fork_step != begun.fork_step:
        raise UsageError(f"the fork is at step {wanted.fork_step}, but runs were started with {begun.fork_step}")
    seeds = (*begun.seeds, *(seed for seed in wanted.seeds if seed not in begun.seeds))
    if hasattr(begun.settings, "seeds") and len(seeds) > len(begun.seeds):
        raise UsageError("the seeds of a stack are trained together, so none can be added after the start")
    more = [point for point in wanted.points if point not in begun.points]
    arms, variants, only = _table([*begun.points, *more])
    _check(found := replace(begun, seeds=seeds, arms=arms, variants=variants, only=only), more)
    return found


def rewrite(path: Path, comparison: Comparison) -> None:
    """Write comparison.json, replacing the present one."""
    path.mkdir(parents=True, exist_ok=True)
    write_json(path / FILE, _plan(comparison))


def _plan(comparison: Comparison) -> dict[str, Any]:
    found = {**asdict(comparison), "settings": plain(comparison.settings), **plugins.config_entry()}
    del found["note"]
    return found


def _check(comparison: Comparison, new: Sequence[Point] = ()) -> None:
    """Raise UsageError for everything that can be found to be wrong without building a network.

    `new` are the points whose runs have no folder yet.
    """
    if comparison.settings.hook:
        raise UsageError("--hook is for single runs; in a comparison, give the hooks of each arm with --arm")
    if not comparison.seeds or len(set(comparison.seeds)) < len(comparison.seeds) or min(comparison.seeds) < 0:
        raise UsageError(f"--seeds must be different numbers of 0 or more, got {comparison.seeds}")
    for arm in comparison.arms:
        if NONE in (parts := comparison.hooks_of(arm)) and len(parts) > 1:
            raise UsageError(f"--arm '{arm}': none cannot be combined with other hooks")
        if comparison.settings_of(arm) and comparison.fork_step:
            raise UsageError(f"--arm '{arm}': settings of one arm need a comparison without a trunk: add --fork-at 0")
    if FRESH in comparison.arms and not hasattr(comparison.settings, FRESH):
        raise UsageError(f"--reference fresh is only for agents, not for {comparison.algorithm}")
    trunks = [(names.TRUNK, variant) for variant in comparison.trunks] if comparison.fork_step else []
    runs = [(label_of(arm, variant), folder_of_arm(arm, variant)) for arm, variant in (*trunks, *comparison.points)]
    names.require_apart(runs, [folder_of_arm(arm, variant) for arm, variant in new])


def _check_arm(c: Comparison, arm: str, variant: Variant, tasks: Sequence[Task], warn: Warn) -> None:
    """Raise UsageError for hooks that cannot be used in this run. Hooks can change networks: one is built per arm."""
    settings = replace(c.first, **{**variant, **c.own(arm)})
    work = build(c.kind, settings, warn)
    if c.fork_step and not c.kind.forks().shared_trunk(c.settings) and work.tasks != tasks:
        work.close()
        words = " ".join(f"{name}={value}" for name, value in variant.items())
        raise UsageError(f"--vary {words} changes the tasks, so that not all runs would fork at the same task")
    try:
        drive(work, settings.hook, c.kind.forks().planned(settings, c.fork_step))
    except UsageError as error:
        problem = str(error).removeprefix("--hook: ").removeprefix("--arm: ")
        several = "; give --arm once for each arm" if "unexpected ','" in problem else ""
        raise UsageError(f"--arm: {problem}{several}") from None
    finally:
        work.close()


def _require_memory(c: Comparison, first: RunSettings, jobs: int, warn: Warn) -> Sequence[Task]:
    """Raise UsageError if `jobs` simultaneous runs need more memory than is free; otherwise return the tasks.

    In `first`, the settings of the first run, values such as "auto" are replaced by definite ones.
    """
    work = build(c.kind, first, warn)
    runs = len(c.settings.of_seeds(c.seeds)) * len(c.points)
    try:
        work.check_memory(min(jobs, runs))
        return work.tasks
    except ValueError as error:
        raise UsageError(str(error)) from error
    finally:
        work.close()


def open_comparison(path: Path, jobs: int, warn: Warn = tell) -> Comparison:
    """Return the comparison in a folder, to be continued with `jobs` simultaneous runs.

    Raises UsageError if there is none, if the plug-ins are others, or if the memory does not suffice for so many runs.
    """
    comparison = read_comparison(path)
    require_memory(path, comparison, jobs, warn)
    return comparison


def read_comparison(path: Path) -> Comparison:
    """Return the comparison in a folder. Raises UsageError if there is none, or the plug-ins are others."""
    file = path / FILE
    data = read_json(file, f"{path} is not a comparison")
    types = get_type_hints(Comparison) | {"settings": dict[str, Any]}
    try:
        named = schema.convert(data.pop("plugins", {}), dict[str, str], "plugins")
        plan = schema.convert_entries(data, types, "", types.keys() - {"only", "stop_step", "note"})
        _, settings = settings_of({**plan, "plugins": named}, file)
        for i, variant in enumerate(plan["variants"]):
            values = vars(schema.convert(variant, type(settings), f"variants[{i}]"))
            variant |= {name: values[name] for name in variant}
    except UsageError:
        raise
    except ValueError as error:
        raise RunError(f"{file} was edited or was written by another version of supple: {error}") from error
    _check(comparison := Comparison(**{**plan, "settings": settings}))
    return comparison


@staying()
def require_memory(path: Path, comparison: Comparison, jobs: int, warn: Warn) -> None:
    """Raise UsageError if memory does not suffice for `jobs` simultaneous runs, RunError if the fork is impossible."""
    with flushing_denormals(comparison.settings.torch_threads):
        tasks = _require_memory(comparison, comparison.first, jobs, warn)
    if not 0 <= comparison.fork_step < (total := tasks[-1].end):
        raise RunError(f"{path / FILE}: runs of {total} steps cannot fork at step {comparison.fork_step}")
