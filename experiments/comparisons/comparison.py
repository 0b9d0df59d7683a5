"""Comparisons: one trunk per seed, then every arm from the trunk's identical state, for every kind of run."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from supple.engine.forks import FRESH, NONE, Variant, fork_step_of, stop_step_of
from supple.engine.kinds import Kind, find_kind
from supple.engine.loop import Warn
from supple.engine.machine.denormals import flushing_denormals
from supple.engine.machine.resources import sharing
from supple.engine.machine.torchrun import require_alone
from supple.engine.settings import RunSettings, Seeds
from supple.engine.spec import Labels, RunSpec, Start
from supple.experiments.queue.queue import Queue, QueuedRun
from supple.registry.errors import UsageError

from .arms import hooks_in, hooks_of, is_fresh, settings_in
from .checks import Networks
from .default_fork import find_default_fork, first_action
from .grid import FIXED, Point, name_seeds, remove_repeats, sort_points, trunk_folder


@dataclass(frozen=True)
class Comparison:
    """Arms to be trained with the same seeds. `resolve` checks it, and decides where to fork.

    Attributes:
        kind: Name of the kind of run.
        settings: The settings of all runs.
        points: The arms in their variants. An arm's text has hooks and settings joined by ` + `, or is `none`, or the
            reference `fresh`.
        seeds: The seeds.
        fork_at, fork_at_task: Where to fork: a fraction of the planned steps, or the task that begins there. By
            default, the hooks or the kind of run decide.
        stop_at: A share of the planned steps after which all runs stop, as if killed, while arms are tuned. At least
            one task must end within it.
        fork_step: The step of the fork; None before `resolve`. If it is 0, there is no trunk, and arms are trained from
            the beginning.
        stop_step: The step at which all runs stop; 0 for the end.
        leads: The measure that leads reports; "" for that of the kind.
        command: The command line as typed.
        stacks: The seeds that each run trains. () before `resolve`: as the settings group them.
        note: A line for the user about the fork, to be shown once everything has been checked. It is not saved.
        plugins: The SHA-256 sums, by name, of the plug-ins with which the runs were started or tried again.
    """

    kind: str
    settings: RunSettings
    points: tuple[Point, ...]
    seeds: Seeds
    fork_at: float | None = None
    fork_at_task: int | None = None
    stop_at: float | None = None
    fork_step: int | None = None
    stop_step: int = 0
    leads: str = ""
    command: str = ""
    stacks: tuple[Seeds, ...] = ()
    note: str = field(default="", compare=False)
    plugins: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def kind_row(self) -> Kind:
        return find_kind(self.kind)

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """The different arms."""
        return tuple(dict.fromkeys(point.arm for point in self.points))

    @cached_property
    def variants(self) -> list[Variant]:
        """The different variants of the settings."""
        return remove_repeats(point.variant for point in self.points)

    @cached_property
    def trunks(self) -> list[Variant]:
        """The variants that have their own trunk. If all share one, it has no values of a variant."""
        if not self.fork_step:
            return []
        return [{}] if self.kind_row.forks().shared_trunk(self.settings) else self.variants

    @property
    def first(self) -> RunSettings:
        """The settings of the first run, of one seed or of a stack. The other runs differ only in the seed."""
        return self.settings.of(self.groups[0]) if self.groups else self.settings

    @cached_property
    def groups(self) -> tuple[Seeds, ...]:
        """The seeds that each run trains: one, or those of a stack. Seeds that are added later form new stacks."""
        return self.stacks or (self._group(self.seeds) if self.seeds else ())

    def _group(self, seeds: Seeds, added: bool = False) -> tuple[Seeds, ...]:
        """Return the seeds of each run, in the largest stacks that are possible at every point."""
        own = remove_repeats({**point.variant, **settings_in(self.kind_row, point.arm)} for point in self.points)
        return max((replace(self.settings, **values).group(seeds, added) for values in own), key=len)

    def settings_at(self, point: Point, settings: RunSettings | None = None) -> RunSettings:
        """Return the settings of a point, with its hooks. `settings` are those of its seed, by default of the first."""
        own = settings_in(self.kind_row, point.arm)
        fresh = {FRESH: True} if is_fresh(point.arm) else {}
        return replace(settings or self.first, **{**point.variant, **own, "hook": hooks_of(point.arm), **fresh})

    def queue(self, path: Path, study: str = "") -> Queue:
        """Return all runs of the comparison in `path`, trunks first. `study` is its folder inside a sweep."""
        trunks, arms, stop = [], [], self.stop_step or None
        for seed, settings in [(name_seeds(members), self.settings.of(members)) for members in self.groups]:
            for variant in self.trunks:
                own, labels = replace(settings, **variant), Labels(study, None, variant, self.leads)
                spec = RunSpec(self.kind, own, labels, stop=self.fork_step, command=self.command)
                trunks.append(QueuedRun(path, f"{seed}/{trunk_folder(variant)}", spec))
            for point in self.points:
                trunk = trunk_folder(point.variant if point.variant in self.trunks else {})
                start = Start(self.fork_step, f"{seed}/{trunk}") if self.fork_step else Start()
                own, labels = self.settings_at(point, settings), Labels(study, point.arm, point.variant, self.leads)
                spec = RunSpec(self.kind, own, labels, start, stop, self.command)
                arms.append(QueuedRun(path, f"{seed}/{point.folder}", spec))
        return Queue([*trunks, *arms])

    # -- its checks -------------------------------------------------------------------------------------------------

    def resolve(self, jobs: int = 1, warn: Warn = print, begun: "Comparison | None" = None) -> "Comparison":
        """Return the comparison, checked, with its fork and with definite values in place of "auto".

        Each distinct network is built once. The points of `begun` have been checked before.

        Args:
            jobs: Number of simultaneous runs, which divide the processors.
            warn: Called with lines for the user.
            begun: The started comparison that this one extends. A fork by default stays where that one has it.

        Raises:
            UsageError: The comparison cannot be trained.
        """
        require_alone("a comparison")
        for point in self.points:
            if fixed := next(iter({**point.variant, **settings_in(self.kind_row, point.arm)}.keys() & FIXED), None):
                raise UsageError(f"--arm '{point.label}': {fixed} cannot differ between the runs of a comparison")
        known = begun.points if begun else ()
        with (
            flushing_denormals(self.settings.torch_threads),
            sharing(jobs),
            Networks(self.kind_row, warn) as networks,
        ):
            plan = replace(self, points=sort_points(self.points))
            if plan.fork_step is None:
                plan = plan._fork(networks, begun)
            new = [point for point in plan.points if point not in known]
            plan.check()
            work = networks.build(plan.first)
            # the work may be that of other values of these
            kept = {"seed", "seeds", "stack", *plan.settings.same_network}
            definite = {name: value for name, value in vars(work.settings).items() if name not in kept}
            for point in new:
                plan._check_point(networks, point)
            if any(networks.tasks(plan.settings_at(point)) != work.tasks for point in new):
                del definite["checkpoint_every"]  # "auto" is another interval for runs of another length
        return replace(plan, settings=replace(plan.settings, **definite))

    def _fork(self, networks: Networks, begun: "Comparison | None") -> "Comparison":
        """Return the comparison with its fork and its stop, and with what the kind of run asks of its settings."""
        fork, stop, line = 0, 0, ""
        kind, stride = self.kind_row, self.settings.stride
        forks, several = kind.forks(), len(self.variants) < len(self.points)  # several arms that can share a trunk
        placed = several or kind.fork_at is not None or kind.fork_at_task is not None
        by_default = self.stop_at is None and self.fork_at is None and self.fork_at_task is None
        if self.stop_at is not None:
            stop = stop_step_of(networks.tasks(self.first), stride, self.stop_at)
        elif self.fork_at or self.fork_at_task is not None:
            fork = fork_step_of(networks.tasks(self.first), stride, self.fork_at, self.fork_at_task)
        elif placed and by_default and forks.by_hooks(self.settings, self.variants):
            fork, line = self._default_fork(networks)
        started = begun.fork_step or 0 if by_default and begun else None
        note = f"{line} (--fork-at changes this)" if line and started is None else ""
        settings, variants, fork = forks.prepare(self.settings, self.variants, fork)
        points = tuple(Point(point.arm, variants[self.variants.index(point.variant)]) for point in self.points)
        if started is not None:  # another arm must not move the fork of those that were trained
            fork = started
        return replace(self, settings=settings, points=points, fork_step=fork, stop_step=stop, note=note)

    def _default_fork(self, networks: Networks) -> tuple[int, str]:
        """Return the fork where none is asked for, and the line that says why; "" if the kind of run has it there."""
        kind, tasks = self.kind_row, networks.tasks(self.first)
        hooks = dict.fromkeys(hook for arm in self.arms for hook in hooks_in(arm))
        own_settings = any(settings_in(kind, arm) for arm in self.arms)
        place = find_default_fork(kind, hooks, tasks, self.settings.stride, own_settings)
        if place.step and not kind.forks().shared_trunk(self.settings):
            varied = [replace(self.first, **variant) for variant in self.variants if variant]
            if any(networks.ends(settings) != networks.ends(self.first) for settings in varied):
                return 0, "there is no trunk, because variants have tasks of other lengths"
        return place.step, place.line

    def check(self) -> None:
        """Raise UsageError for everything that can be found to be wrong without building a network."""
        if self.settings.hook:
            raise UsageError("--hook is for single runs; in a comparison, give the hooks of each arm with --arm")
        self.kind_row.require_measure(self.leads)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds) or min(self.seeds) < 0:
            raise UsageError(f"--seeds must be different numbers of 0 or more, got {self.seeds}")
        for arm in self.arms:
            if NONE in (hooks := hooks_of(arm)) and len(hooks) > 1:
                raise UsageError(f"--arm '{arm}': none cannot be combined with other hooks")
            if self.fork_step and settings_in(self.kind_row, arm):
                raise UsageError(
                    f"--arm '{arm}': settings of one arm need a comparison without a trunk: add --fork-at 0"
                )
        if FRESH in self.arms and not hasattr(self.settings, FRESH):
            raise UsageError(f"--reference fresh is only for agents, not for {self.kind}")
        folders = {point.folder: point.label for point in self.points}
        for folder, label in folders.items():
            if (outer := folder.partition("/")[0]) in folders and outer != folder:
                raise UsageError(
                    f"the folder of {label} would lie inside the one of {folders[outer]}: rename one of them"
                )

    def _check_point(self, networks: Networks, point: Point) -> None:
        """Raise UsageError if a point cannot be trained, or its hooks cannot be used in its runs."""
        settings, forks = self.settings_at(point), self.kind_row.forks()
        own_trunk = self.fork_step and not forks.shared_trunk(self.settings)
        if own_trunk and networks.ends(settings) != networks.ends(self.first):
            words = " ".join(f"{name}={value}" for name, value in point.variant.items())
            raise UsageError(f"--vary {words} changes the tasks, so that not all runs would fork at the same task")
        for hook in hooks_in(point.arm) if self.stop_step else ():
            first = first_action(self.kind_row, hook, networks.tasks(settings))
            if first and (first.step or 0) >= self.stop_step:
                raise UsageError(f"search: {hook} acts first at step {first.step}, after the share ({self.stop_step})")
        try:
            networks.check_hooks(settings, forks.first_step(settings, self.fork_step or 0))
        except UsageError as error:
            problem = str(error).removeprefix("--hook: ").removeprefix("--arm: ")
            several = "; give --arm once for each arm" if "unexpected ','" in problem else ""
            raise UsageError(f"--arm: {problem}{several}") from None

    def extend(self, wanted: "Comparison", jobs: int, warn: Warn) -> "Comparison":
        """Return this comparison, which has been started, with the seeds and points of another one added.

        Its settings, its fork and its stop stay those with which it was started.

        Args:
            wanted: The other comparison, as asked for.
            jobs: Number of simultaneous runs, which divide the processors.
            warn: Called with lines for the user.

        Raises:
            UsageError: A point of the other comparison cannot be trained.
        """
        wanted = replace(wanted, stacks=self.groups).resolve(jobs, warn, self)
        later = tuple(seed for seed in wanted.seeds if seed not in self.seeds)
        points = sort_points([*self.points, *wanted.points])
        extended = replace(self, seeds=(*self.seeds, *later), points=points, note=wanted.note)
        extended.check()
        added = extended._group(later, added=True) if later else ()
        return replace(extended, stacks=(*self.groups, *added))
