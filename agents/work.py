"""An agent with its environments as a `Work`: act → step → remember → update."""

import gc
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from supple.engine.divergence import find_not_finite, members_not_finite
from supple.engine.hooks.driver import HookDriver
from supple.engine.machine.denormals import flushes
from supple.engine.seeding import derive
from supple.engine.storage.run_directory import RunDirectory
from supple.engine.user_code import plugins
from supple.engine.work import Numbers, Work, crossed
from supple.envs import EnvironmentFault, Envs, EnvWorkers, Vector, WorkerVector, flatten, make_env, vectorize
from supple.interventions import Learner
from supple.metrics import human_normalized
from supple.registry.errors import Diverged, RunError, UsageError

from .agent import Agent
from .episode_log import EpisodeLog
from .games import is_game, make_games
from .rates import rate_at, scale_rates
from .returns_by_task import mean_returns, returns_on
from .settings import AgentSettings
from .spaces import unite_environments
from .tasks import EnvTask, shift_tasks

World = Mapping[str, Any]  # arguments of the function that makes one copy of an environment


class AgentWork(Work[EnvTask]):
    """An agent, or the agents of several seeds as a stack, that is trained on a stream of environments.

    A step is a step of one copy of an environment; the members of a stack make the same steps. Their copies are one
    vector, those of the first member first.

    Checkpoints do not contain the environments. Each checkpoint ends all running episodes, whether or not the run is
    interrupted there, and the environments are reset with seeds derived from (run seed, number of checkpoints so far).
    """

    settings: AgentSettings
    logs = ("metrics", "episodes", "events")
    check_every = 1
    saves_where_tasks_end = True
    best_by, more_is_better = "eval/return", True

    def __init__(self, settings: AgentSettings) -> None:
        """Inspect the environments and make the agent.

        Raises:
            UsageError, ValueError: The agent cannot act in an environment.
            RunError: An environment cannot be made.
        """
        self.settings = settings
        self.seeds = settings.members if settings.stacked else ()
        try:
            self.shifts = settings.parse_shifts()
            self.tasks = shift_tasks(settings.plan_tasks(), self.shifts, settings.members, settings.kwargs)
            names = tuple(dict.fromkeys(task.env for task in self.tasks))
            self.united = unite_environments(names, settings.kwargs, getattr(settings, "observations", "auto"))
            self.spaces = {name: self.space(name) for name in names}
            if settings.own_tasks:
                _require_own_tasks(names[0], settings.kwargs)
        except EnvironmentFault as fault:
            raise RunError(str(fault)) from fault
        self.agent = self.new_agent(settings, self.spaces)
        self.task = self.tasks[0]
        self.now = 0  # the step of the run
        self.episodes = EpisodeLog(settings)
        self._envs: Envs | None = None  # those of the current task
        self._workers: EnvWorkers | None = None  # the processes in which they run, for all tasks
        if not settings.eval_episodes:
            self.no_best = "there are no evaluations to choose the best state by: use --eval-episodes 5"
        elif len({task.env for task in self.tasks}) > 1:
            self.no_best = "returns in different environments cannot be compared: train on one environment"

    @property
    def learners(self) -> dict[str, Learner]:
        return self.agent.learners

    # -- implemented by each agent ----------------------------------------------------------------------------------

    @abstractmethod
    def space(self, env: str) -> Any:
        """Return the sizes and action space of an environment that the agent needs.

        Raises ValueError, which names the environment, if the agent cannot act in it."""

    @abstractmethod
    def new_agent(self, settings: Any, spaces: Mapping[str, Any]) -> Agent:
        """Return the agent for these environments. spaces: name → result of `space`."""

    # -- environments -----------------------------------------------------------------------------------------------

    @classmethod
    def envs(cls, settings: Any, env: str, worlds: Sequence[World]) -> Envs:
        """Return copies of an environment. Each worker process calls this for its own copies.

        worlds: for each copy, further arguments of the function that makes the environment."""
        if is_game(env):
            return make_games(settings, env, worlds)
        copies = vectorize([partial(cls.make, settings, env, world) for world in worlds], **settings.stepping)
        copies.sharing = settings.num_envs * settings.own_tasks
        return copies

    @classmethod
    def make(cls, settings: Any, env: str, world: World) -> gym.Env:
        """Return one copy of an environment that is no game, whose observations are rows of numbers."""
        return flatten(make_env(env, **world), getattr(settings, "observations", "auto"))

    def held_out(self, env: str, worlds: Sequence[World]) -> Envs | None:
        """Return copies of the held-out variation of an environment for evaluations, or None if it has none."""
        return None

    def worlds(self, task: EnvTask, copies: int) -> list[World]:
        """Return the arguments of a task's environments that follow from the settings: those of each member's copies.

        Only the seeds of the shifts differ between members. Without shifts they have no effect, but they tell apart the
        copies of members that cannot share one vector, such as games."""
        s = self.settings
        world = s.world if self.united is None else {**s.world, "united": self.united}
        if self.shifts is None and not s.stacked:
            return [world] * copies
        shifted = {} if self.shifts is None else {"shifts": self.shifts, "task": task.index}
        return [{**shifted, **world, "seed": seed} for seed in s.members for _ in range(copies)]

    # -- learning ---------------------------------------------------------------------------------------------------

    def enter(self, task: EnvTask) -> None:
        self._close_envs()
        self.task = task
        if self.settings.fresh:
            self.episodes.begin_agents()
            if task.index:
                self._begin_anew([derive(seed, "fresh agent", task.index) for seed in self.settings.members])
        self.agent.begin_task(task.env)

    def look_at(self, task: EnvTask, step: int) -> None:
        self.now = step

    def _begin_anew(self, seeds: Sequence[int]) -> None:
        # Free the old agent before making the new one: its replay memory may be most of the machine's memory. Others
        # hold the dictionary of learners, so it is emptied, and the agent's reference cycles need a collection.
        self.learners.clear()
        del self.agent
        gc.collect()
        self.agent = self.new_agent(self.settings.of(tuple(seeds)), self.spaces)

    def begin_segment(self, number: int, step: int) -> None:
        self.now = step
        if self._envs is None:
            self._envs = self._new_envs()
        self._envs.progress(self._steps_of_task)
        s = self.settings
        seeds = [derive(seed, "episodes", number, i) for seed in s.members for i in range(s.num_envs)]
        self.agent.begin_episodes(self._envs.reset([seed % 2**31 for seed in seeds]))
        self._freeze_envs()

    def _new_envs(self) -> Envs:
        s, env = self.settings, self.task.env
        worlds = self.worlds(self.task, s.num_envs)
        if not s.env_workers:
            return self.envs(s, env, worlds)
        if self._workers is None:
            self._workers = EnvWorkers(s.env_workers, partial(_begin_worker, flushes(), plugins.sources()))
        return WorkerVector(self._workers, env, partial(_make_share, self.envs, s, env, worlds), len(worlds))

    def own_task(self) -> str:
        return (
            self._envs.own_task() if isinstance(self._envs, Vector | WorkerVector) and self.settings.own_tasks else ""
        )

    @property
    def _steps_of_task(self) -> int:
        """The steps of the current task so far."""
        return self.now - self.task.start

    def advance(self, task: EnvTask, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Let the agent act and learn for one decision or, with PPO, for one rollout and its update.

        The learning rate is that of the first step.

        Args:
            task: The current task.
            step: The step of the run.
            until: The step to which to train at most.
            hooks: Act on the agent's networks at its updates.
            run: Receives the finished episodes.

        Raises:
            RunError: The agent breaks its protocol: actions have a wrong shape, or the last update is not complete.
        """
        assert self._envs is not None
        if not step and self.settings.eval_tasks != "current":
            self._log_random(run)
        agent, stride = self.agent, self.settings.stride
        if self.settings.schedule != "constant":
            scale_rates(self.learners.values(), rate_at(self.settings, task, self.tasks[-1].end, step))
        gradual = self.shifts is not None and self.shifts.is_gradual
        wanted = (self._envs.num_envs, *self._envs.single_action_space.shape)
        while True:
            if not gradual:
                self.now += stride * self.take_uneventful_steps((until - self.now) // stride - 1)
            actions = agent.act()
            if np.shape(actions) != wanted:
                raise RunError(f"act of {type(agent).__name__} returned shape {np.shape(actions)}, not {wanted}")
            result = self._envs.step(actions)
            agent.remember(result)
            self.now += stride
            if gradual:
                self._envs.progress(self._steps_of_task)
            for episode in result.episodes:
                self.episodes.add(run, task, self.now, episode)
            with self.products:
                complete = agent.update(hooks, last=self.now >= until)
            if complete:
                self.after_update(run, task, self.now)
                if self._steps_of_task >= self.settings.untrained_steps:
                    self.episodes.end_untrained(run, task, self.now)
                return self.now - step
            if self.now >= until:
                raise RunError(
                    f"update of {type(agent).__name__} returned {complete!r} at the last step of a task: it must "
                    "complete its updates there and return True"
                )

    def updates(self, step: int) -> int:
        try:
            return self.agent.updates
        except AttributeError:
            raise UsageError(f"{type(self.agent).__name__} has no attribute 'updates', which @updates needs") from None

    def take_uneventful_steps(self, most: int) -> int:
        """Take some steps at once in which no episode ends, at most so many, and return their number.

        By default, take none."""
        return 0

    def after_update(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Prepare the environments after an update. By default, do nothing."""

    def _log_random(self, run: RunDirectory) -> None:
        """Log the mean return of random actions on each task, in copies as those of the evaluations."""
        returns = returns_on(self, self.tasks, random=True)
        for task in self.tasks:
            for seed, value in zip(self.settings.members, returns[task.index], strict=True):
                run.event(event="random", step=0, task=task.index, **self.episodes.label(seed), **{"return": value})

    def check(self, closely: bool = False) -> None:
        """Raise Diverged if, with `closely`, a parameter or a slot of an optimizer is not finite.

        Agents check their losses when they log them, and those of a stack are checked here. Without `closely`, that is
        not done on a GPU, for which it would wait."""
        if not self.seeds:
            if closely and find_not_finite(self.learners, buffers=False):
                raise Diverged("a network of the agent is not finite")
            return
        losses = networks = {*self.frozen}
        if closely or getattr(self.settings, "device", "cpu") == "cpu":
            sound = self.agent.sound()
            if not bool(sound.all()):
                losses = losses.union(torch.nonzero(~sound).flatten().tolist())
        if closely:
            networks = networks.union(members_not_finite(self.learners))
        if bad := sorted(losses.union(networks) - self.frozen):
            raise Diverged(
                "the loss is not finite" if losses.issuperset(bad) else "a network of the agent is not finite", bad
            )

    def freeze(self, members: Iterable[int]) -> None:
        super().freeze(members)
        self.agent.freeze(sorted(self.frozen))
        self._freeze_envs()

    def _freeze_envs(self) -> None:
        """Stop the environments of the members that have diverged."""
        if self.frozen and self._envs is not None:
            copies = self.settings.num_envs
            rows = [member * copies + i for member in sorted(self.frozen) for i in range(copies)]
            self._envs.freeze(rows)

    # -- logging and evaluation ---------------------------------------------------------------------------------------

    def numbers(self) -> Numbers:
        return self.agent.numbers()

    def evaluation_due(self, task: EnvTask, previous: int, step: int) -> bool:
        s = self.settings
        return previous < step and bool(s.eval_episodes) and (step >= task.end or crossed(previous, step, s.eval_every))

    def evaluate(self, task: EnvTask) -> Numbers:
        """Return the mean returns of the evaluation policy, in new copies of the environment, by member for a stack.

        They are also measured in its held-out variation, if it has one, and at the end of a task on the tasks that the
        settings name (`eval_tasks`)."""
        s = self.settings
        worlds = self.worlds(task, s.eval_episodes)
        envs, progress = self.envs(s, task.env, worlds), min(self.now, task.end) - task.start
        values: Numbers = {"eval/return": mean_returns(self, [task], envs, progress)[task.index]}
        scores = [human_normalized(task.env, value) for value in values["eval/return"]]
        if None not in scores:
            values["eval/human_normalized"] = scores
        if (held_out := self.held_out(task.env, worlds)) is not None:
            returns = mean_returns(self, [task], held_out, progress)
            values["eval/return_friction"] = returns[task.index]
        if self.now >= task.end and s.eval_tasks != "current":
            wanted = self.tasks if s.eval_tasks == "all" else self.tasks[: task.index + 1]
            returns = returns_on(self, wanted, {task.index: values["eval/return"]})
            values |= {_return_on(each): returns[each.index] for each in wanted}
        return values if self.seeds else {name: value for name, (value,) in values.items()}

    def performance(self, numbers: Numbers) -> dict[int, Any]:
        names = {task.index: _return_on(task) for task in self.tasks}
        return {index: numbers[name] for index, name in names.items() if name in numbers}

    def evaluation_seeds(self, seed: int, task: EnvTask, episodes: int) -> list[int]:
        """Return the seeds of a member's evaluation episodes of a task."""
        return [derive(seed, "evaluation", task.index, i) % 2**31 for i in range(episodes)]

    # -- states and resources -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        state = self.agent.state_dict()
        # One key per task: a checkpoint reuses rows of the one before, and those belong to another agent's memory.
        return {"untrained": self.episodes.untrained, self._task_key: state} if self.settings.fresh else state

    def load_state(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state.get(self._task_key, state))
        # not in the state of a trunk: an agent that continues from it has learned already
        self.episodes.untrained = state.get("untrained", {})

    @property
    def _task_key(self) -> str:
        return f"task {self.task.index}"

    def _close_envs(self) -> None:
        """Close the environments of the current task."""
        if self._envs is not None:
            envs, self._envs = self._envs, None
            envs.close()

    def close(self) -> None:
        try:
            self._close_envs()
        finally:
            if self._workers is not None:
                self._workers.close()
                self._workers = None


def _require_own_tasks(env: str, kwargs: Mapping[str, Any]) -> None:
    """Raise UsageError if an environment does not say its task, or cannot continue in it."""
    with closing(make_env(env, kwargs=kwargs)) as made:
        if missing := [name for name in ("task", "progress") if not made.has_wrapper_attr(name)]:
            raise UsageError(
                f"--own-tasks: {env} has no {missing[0]!r}: it needs an attribute task, and a method progress(steps) "
                "by which it continues after a checkpoint"
            )


def _return_on(task: EnvTask) -> str:
    """Return the name of the mean return on a task, evaluated at the end of another or its own."""
    return f"eval/return/{task.index}-{task.name}"


def _make_share(make: Callable[..., Envs], settings: Any, env: str, worlds: Sequence[World], rows: range) -> Envs:
    """Return those copies of an environment that one worker process steps."""
    return make(settings, env, worlds[rows.start : rows.stop])


def _begin_worker(flush: bool, sources: dict[str, str]) -> None:
    """Give a worker process the floating-point mode and the plug-ins of its parent process."""
    torch.set_flush_denormal(flush)
    plugins.load_all(sources)
