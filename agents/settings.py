"""The settings that all agents share, extended by each agent. The string under a field is its help line."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import tyro

from supple.engine.settings import (
    MOST_TASKS,
    Device,
    Groups,
    Interval,
    RunSettings,
    Seeds,
    SeedsOption,
    Threads,
    device_here,
    require_range,
    seed_problems,
)
from supple.registry.errors import RunError, UsageError, refusing
from supple.registry.schema import NotNegative, Positive, Share, most

from .limits import SET_ELSEWHERE

if TYPE_CHECKING:
    from supple.envs import Shifts

    from .tasks import EnvTask

Answer = TypeVar("Answer")
MOST_ENVS = 65_536  # copies of an environment
MEMBERS = 5  # most seeds of a stack whose number is "auto"
EPISODES, UNLIMITED = 10, 1_000  # episodes between checkpoints; the steps of one that no limit is known for
MOST_ADDED = 0.02  # of the run's steps, that evaluations on past tasks add if "auto" chooses them
Copies = Annotated[Positive[int], most(MOST_ENVS)]
Stack = int | Literal["auto", "off"]


@dataclass(kw_only=True)
class AgentSettings(RunSettings):
    seeds: SeedsOption = ()
    """Seeds, 0 1 2 or 0-4, each with its own agent and environments, trained at once as a stack. Every arm of a
    comparison runs with every seed (default: those of a comparison's preset, else --seed alone)."""
    stack: Stack = "auto"
    """Seeds that one run trains at once, off for one each. auto: at most five, if the networks are small, and on a CPU
    two stacks of five seeds, for two cores. A stack gives other rounding errors than runs alone."""
    env: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Environment to train on: a short name (halfcheetah, asterix, minatar:breakout), a Gymnasium id or
    my_module:Mine-v0."""
    sequence: Annotated[str | None, tyro.conf.arg(metavar="NAMES", aliases=("--tasks",))] = None
    """Train on several environments in turn: names separated by commas, or a named sequence (see `supple list`)."""
    cycles: Annotated[Positive[int], most(MOST_TASKS)] = 1
    """Number of passes through the sequence. With --env, the number of tasks in that environment."""
    steps_per_task: Positive[int] | None = None
    """Environment steps per task, counted over all copies of the environment."""
    steps: Positive[int] | None = None
    """Environment steps of a run with one task (--env), counted over all copies of the environment."""
    max_episode_steps: Positive[int] | None = None
    """Steps after which an episode is truncated (default: the environment's own limit)."""
    env_kwargs: Annotated[str | None, tyro.conf.arg(metavar="JSON")] = None
    """Keyword arguments of the environment, a JSON object such as '{"map_name": "8x8"}', for all tasks alike."""
    shift: Annotated[str | None, tyro.conf.arg(metavar="SHIFTS")] = None
    """Shifts between tasks, such as "offset(scale=2)" or "friction + negate_reward" (see `supple list shifts`)."""
    own_tasks: bool = False
    """The environment says itself when its task changes, by its attribute `task`: hooks with @task then fire, and the
    change is logged. It needs a method progress(steps) by which it continues after a checkpoint."""
    fresh: bool = False
    """Begin every task with a fresh agent, to measure how well it can be learned without earlier training."""
    num_envs: Copies = 8
    """Number of parallel copies of the environment."""
    env_workers: NotNegative[int] = 0
    """Worker processes that step the copies, with the same results; 0: none. Use idle cores for slow environments."""
    physics: Literal["auto", "batched", "single"] = "auto"
    """Step the copies in one batch or one by one, with the same results. auto: in one batch if it can be and is faster
    (most MuJoCo tasks, CartPole, Acrobot, Pendulum, ninerooms)."""
    env_threads: Threads = "auto"
    """Threads that step the copies of a MuJoCo task or Atari game, with the same results. auto: as many as pay off."""
    checkpoint_every: Interval = "auto"
    """Environment steps between checkpoints. Each checkpoint ends all running episodes, so this affects the results.
    auto: a quarter of the run, but at least ten of the longest episodes in each copy, and 250,000 at most."""
    measure_every: Positive[int] = 20_000
    """Environment steps between measurements of the metrics."""
    trainability_every: NotNegative[int] = 0
    """Environment steps between measurements of trainability; 0: never. Each takes as long as about 400 updates."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """Learning rate: constant, or falling linearly or as a cosine from --learning-rate to --min-rate times it."""
    schedule_over: Literal["task", "run"] = "task"
    """Let the learning rate fall over each task anew, or once over the run, which slows learning in later tasks."""
    min_rate: Share = 0.0
    """Share of the learning rate that is left at the end of the schedule."""
    eval_every: NotNegative[int] = 0
    """Environment steps between evaluations; 0: only at the end of each task."""
    eval_episodes: NotNegative[int] = 5
    """Episodes per evaluation, on separate copies of the environment; 0: no evaluations."""
    eval_tasks: Literal["auto", "past", "all", "current"] = "auto"
    """Tasks on which the agent is evaluated at the end of each task: past (and this one), all, or only the current one.
    auto: past if tasks differ and the limits of their episodes let it add at most 2 % of the run's steps, else current.
    A fresh agent knows no other task, so for it this is current."""

    groups: ClassVar[Groups] = {
        "run": ("seeds",),
        "environment": (
            "env", "sequence", "cycles", "steps_per_task", "steps", "max_episode_steps", "env_kwargs", "shift",
            "own_tasks", "fresh", "num_envs",
        ),
        "measuring": ("eval_episodes", "eval_tasks"),
        "speed": ("stack", "env_workers", "physics", "env_threads"),
    }  # fmt: skip
    most_unsaved: ClassVar[int] = 250_000
    stackable: ClassVar[bool] = False  # whether the agent can train several seeds as one stack

    @property
    def members(self) -> Seeds:
        return self.seeds or (self.seed,)

    @property
    def stacked(self) -> bool:
        """Whether the agents of several seeds are trained as one stack."""
        return len(self.seeds) > 1

    @property
    def on_cpu(self) -> bool:
        """Whether the networks are trained on a CPU, of this machine as long as the device is "auto"."""
        device: Device = getattr(self, "device", "cpu")
        return device != "cuda" and device_here(device) == "cpu"

    def unstackable(self) -> str:
        """Return why the agents of several seeds cannot be trained as one stack, in words, or ""."""
        if not self.stackable:
            return "agents of this kind are trained one seed at a time"
        if self.keep_best:
            return "--keep-best keeps the state of one seed"
        if self.own_tasks:
            return "with --own-tasks the environments of each seed change by themselves"
        from supple.envs.make import copies_interfere  # imports Gymnasium, which help lines do without

        if shared := self.ask(lambda env, _: env if copies_interfere(env, self.env_kwargs or "{}") else ""):
            return f"copies of {shared} have state in common, or their seeds do not determine their episodes"
        return ""

    def ask(self, question: Callable[[str, Mapping[str, Any]], Answer]) -> Answer | None:
        """Return the first answer to `question(env, kwargs)` on the run's environments that is true, or None."""
        from supple.envs import EnvironmentFault

        for env in self.environments():
            with suppress(EnvironmentFault, ImportError, ValueError):  # said where the environment is needed
                if answer := question(env, self.kwargs):
                    return answer
        return None

    def unshifted(self) -> "tuple[EnvTask, ...]":
        """Return the run's tasks without shifts, or () if they cannot be planned: other checks say why."""
        try:
            return self.plan_tasks()
        except (UsageError, RunError, ZeroDivisionError):  # of a stride of 0
            return ()

    def environments(self) -> tuple[str, ...]:
        """Return the Gymnasium ids of the run's environments, or () if there are none: other checks say why."""
        return tuple(dict.fromkeys(task.env for task in self.unshifted()))

    def worth_stacking(self) -> bool:
        """Return whether a stack saves time, by the sizes of the networks and never by a measurement."""
        return True

    def group(self, seeds: Seeds, added: bool = False) -> tuple[Seeds, ...]:
        """Return the seeds of each stack: as equal in number as possible, and at most as many as `stack` says."""
        if self.stack == "off" or (self.stack == "auto" and len(seeds) == 1):
            return super().group(seeds)
        reason = self.unstackable()
        if self.stack == "auto" and (reason or not self.worth_stacking()):
            return super().group(seeds)
        if reason:
            raise UsageError(f"--stack {self.stack}: {reason}")
        most = MEMBERS if self.stack == "auto" else self.stack
        if most < 2:
            raise UsageError(f"--stack must be auto, off or a number of 2 or more, got {most}")
        if self.stack != "auto" and most > len(seeds) and not added:
            raise UsageError(f"--stack {most} needs {most} seeds or more, got {len(seeds)}")
        stacks = -(-len(seeds) // most)
        if self.stack == "auto" and len(seeds) >= MEMBERS and self.on_cpu:
            stacks = max(stacks, 2)  # for two cores
        ends = [-(-len(seeds) * number // stacks) for number in range(stacks + 1)]
        return tuple(seeds[start:end] for start, end in pairwise(ends))

    def of(self, members: Seeds) -> RunSettings:
        several = len(members) > 1
        return replace(
            self, seed=members[0], seeds=members if several else (), stack=len(members) if several else "off"
        )

    @property
    def life(self) -> int:
        """The environment steps of one agent: of one task if it is fresh, else of all tasks. 0 if there are none."""
        tasks = self.unshifted()
        return tasks[0 if self.fresh else -1].end if tasks else 0

    @property
    def kwargs(self) -> dict[str, Any]:
        """The keyword arguments of the environment. Raises UsageError if --env-kwargs is not a JSON object."""
        try:
            kwargs = json.loads(self.env_kwargs or "{}")
        except ValueError as error:
            raise UsageError(f"--env-kwargs is not JSON ({error}): {self.env_kwargs!r}") from None
        if not isinstance(kwargs, dict):
            raise UsageError(f"""--env-kwargs must be a JSON object such as '{{"size": 8}}', got {self.env_kwargs!r}""")
        return kwargs

    @property
    def world(self) -> dict[str, Any]:
        """The arguments of `make_env` that are the same for all tasks."""
        arguments = {"max_episode_steps": self.max_episode_steps, "kwargs": self.kwargs}
        return {name: value for name, value in arguments.items() if value}

    @property
    def stride(self) -> int:
        """The environment steps between two decisions of the agent, over all copies."""
        return self.num_envs

    @property
    def stepping(self) -> dict[str, Any]:
        """The arguments of `vectorize` that say how copies are stepped. Worker processes use one thread each."""
        from supple.engine.machine.resources import own_cpus  # PyTorch, which help lines do without

        threads = own_cpus() if self.env_threads == "auto" else self.env_threads
        return {
            "batched": self.physics == "batched",
            "threads": 1 if self.env_workers else threads,
            "fewer": self.env_threads == "auto",
        }

    def episode_limit(self, env: str) -> int | None:
        """Return the steps after which an episode of the environment with this Gymnasium id is truncated, if known."""
        import gymnasium  # which help lines do without

        return self.max_episode_steps or gymnasium.spec(env).max_episode_steps

    def least_unsaved(self) -> int:
        envs = {task.env for task in self.plan_tasks()}
        return EPISODES * self.num_envs * max(self.episode_limit(env) or UNLIMITED for env in envs)

    def stream(self) -> tuple[str, int]:
        """Return (names of environments, steps per task). Raises UsageError if the options contradict each other."""
        if (self.env is None) == (self.sequence is None):
            raise UsageError("give either --env NAME with --steps N, or --sequence NAMES with --steps-per-task N")
        if self.steps is not None and self.steps_per_task is not None:
            raise UsageError("give either --steps (for one task) or --steps-per-task (for several), not both")
        if self.steps is not None and (self.sequence or self.cycles != 1):
            raise UsageError(
                f"--steps cannot be combined with {'--sequence' if self.sequence else '--cycles'}: use --steps-per-task"
            )
        steps = self.steps if self.steps is not None else self.steps_per_task
        if steps is None:
            wanted = "--steps-per-task" if self.sequence or self.cycles != 1 else "--steps"
            raise UsageError(f"{wanted} is missing: give the number of environment steps")
        if min(steps, self.cycles) < 1:
            require_range(self)
        return self.env or self.sequence or "", steps

    # The next three import Gymnasium, which help lines do without.

    def plan_tasks(self) -> "tuple[EnvTask, ...]":
        """Return the tasks that these settings describe, without the values of shifts.

        Raises:
            UsageError: The settings contradict each other or do not fit the environments.
            RunError: A simulator is not installed.
        """
        from supple.envs import parse_sequence

        from .tasks import EnvTask, OwnTask, make_tasks

        text, steps = self.stream()
        if spare := steps % (stride := self.stride):
            near = " or ".join(str(n) for n in (steps - spare, steps - spare + stride) if n)
            together = f"--num-envs {self.num_envs}"
            if stride != self.num_envs:
                together = f"{stride}, the steps of one decision (--num-envs × --action-repeat)"
            name = "--steps-per-task" if self.steps is None else "--steps"
            raise UsageError(f"{name} is {steps}, which is not a multiple of {together}: use {near}")
        try:
            return make_tasks(parse_sequence(text), self.cycles, steps, OwnTask if self.own_tasks else EnvTask)
        except ValueError as error:
            raise UsageError(str(error)) from error
        except ImportError as error:
            raise RunError(str(error)) from error

    def parse_shifts(self) -> "Shifts | None":
        """Return the shifts between the tasks. Raises UsageError if --shift cannot be parsed."""
        from supple.envs import parse_shifts

        with refusing("--shift"):
            return None if self.shift is None else parse_shifts(self.shift)

    def can_batch(self) -> bool:
        """Return whether the copies of at least one of the environments can be stepped in one batch.

        Raises:
            UsageError, RunError: As `plan_tasks` does.
        """
        from supple.envs import is_batched

        if self.stride != self.num_envs:  # a decision of several steps is not batched
            return False
        copies = self.num_envs * len(self.members)
        shifts = self.parse_shifts()
        names = dict.fromkeys(task.env for task in self.plan_tasks())
        try:
            return any(is_batched(name, copies, shifts, self.kwargs) for name in names)
        except ImportError as error:
            raise RunError(str(error)) from error

    def past_is_cheap(self) -> bool:
        """Return whether tasks differ, and `eval_tasks` "past" adds at most 2 % to the run's steps by these settings.

        It adds evaluations on past tasks and, once, random actions on all tasks. These count as one more evaluation:
        they take more steps, but no network. Each episode counts with its limit, without which they are not cheap.
        Without shifts, all tasks in an environment are the same."""
        tasks = self.plan_tasks()
        limits = {env: self.episode_limit(env) for env in {task.env for task in tasks}}
        known: dict[object, Any] = {}  # the limits of tasks that differ
        steps = 0  # of one episode in each past task
        for task in tasks:
            known[task.env if self.shift is None else task.index] = limit = limits[task.env] or math.inf
            steps += sum(known.values()) - limit
        added = self.eval_episodes * (steps + sum(known.values()))
        return len(known) > 1 and 0 < added <= MOST_ADDED * tasks[-1].end

    def lengthen(self, steps: int) -> "AgentSettings":
        if self.steps is None:
            raise UsageError(
                "--steps cannot extend a run of several tasks: only runs started with --steps can be extended"
            )
        if self.schedule != "constant":
            raise UsageError(
                f"--steps cannot extend this run: with --schedule {self.schedule} its learning rate depends on the "
                "planned end"
            )
        if steps <= self.steps:
            raise UsageError(f"--steps is {steps}, but the run is already planned for {self.steps} steps: give more")
        return replace(self, steps=steps)

    def resolve(self) -> str | None:
        if len(self.seeds) == 1:
            self.seed, self.seeds = self.seeds[0], ()
        self.stack = len(self.seeds) if self.stacked else "off"
        if self.fresh:
            self.eval_tasks = "current"
        elif self.eval_tasks == "auto":
            self.eval_tasks = "past" if self.past_is_cheap() else "current"
        if self.physics != "single":
            batched = self.can_batch()
            asked, self.physics = self.physics, "batched" if batched else "single"
            if asked == "batched" and not batched:
                return (
                    "--physics batched is not available for the environments of this run: they are stepped one by one, "
                    "with the same results"
                )
        return super().resolve()

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from seed_problems(self.seeds, self.seed)
        if isinstance(self.stack, int) and self.stack < 2:
            yield f"--stack must be auto, off or a number of 2 or more, got {self.stack}"
        elif isinstance(self.stack, int) and not self.stacked:
            yield f"--stack {self.stack} needs {self.stack} seeds or more, got 1"
        if self.stacked:
            if self.stack == "off":
                yield "--stack off trains one seed per run: use `supple compare` for several"
            elif self.stack != "auto" and 2 <= self.stack != len(self.seeds):
                yield f"--stack {self.stack} with {len(self.seeds)} seeds is several runs: use `supple compare`"
            if reason := self.unstackable():
                yield f"several --seeds need a stack, but {reason}: use `supple compare`"
        try:
            for name in self.kwargs.keys() & SET_ELSEWHERE.keys():
                yield f"--env-kwargs cannot set {name}: {SET_ELSEWHERE[name]}"
        except UsageError as error:
            yield str(error)
        if self.env_workers > self.num_envs:
            yield f"--env-workers must be --num-envs ({self.num_envs}) at most, got {self.env_workers}"
        if self.fresh and set(self.hook) - {"none"}:
            yield "--fresh True cannot be combined with --hook: it begins every task with a new agent"
        if self.own_tasks and (self.cycles > 1 or self.sequence or self.shift or self.fresh):
            yield "--own-tasks cannot be combined with --cycles, --sequence, --shift and --fresh, which plan tasks"
        if self.schedule == "constant" and (self.schedule_over != "task" or self.min_rate):
            given = "--min-rate" if self.min_rate else f"--schedule-over {self.schedule_over}"
            yield f"{given} has no effect on a constant learning rate: add --schedule linear or cosine"
        if self.schedule_over == "run" and self.fresh:
            yield (
                "--schedule-over run cannot be combined with --fresh True, as later agents would begin with a smaller "
                "learning rate: use --schedule-over task"
            )
        if self.eval_tasks in ("past", "all") and not self.eval_episodes:
            yield f"--eval-tasks {self.eval_tasks} needs evaluations: use --eval-episodes 5"

    def without_effect(self, names: Iterable[str], chosen: str) -> Iterator[str]:
        """Yield a problem if settings with these names are not at their defaults."""
        if given := [f"--{name}" for name in names if getattr(self, name) != getattr(type(self), name)]:
            have = "has" if len(given) == 1 else "have"
            yield f"{', '.join(given).replace('_', '-')} {have} no effect with {chosen}"
