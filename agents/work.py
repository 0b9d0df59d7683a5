"""An agent and its environments, as a `Work`: act → step → remember → update."""

import gc
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import torch

from ..envs import REWARD_FLOOR, EnvironmentFault, Envs, Episode, Workers
from ..experiments import plugins
from ..experiments.denormals import flushes
from ..experiments.errors import EnvironmentFailed, RunError
from ..experiments.hooks import HookDriver
from ..experiments.rundir import RunDirectory
from ..experiments.seeding import derive
from ..experiments.work import Numbers, Work, crossed
from ..interventions import Learner
from ..metrics import human_normalized
from .agent import Agent
from .evaluate import evaluate
from .settings import AgentSettings
from .stream import EnvTask, shifts_of, tasks_of


class AgentWork(Work):
    """One agent through a stream of environments. A step is a step of one copy of an environment.

    Environments are not saved: a checkpoint ends all running episodes, in every run alike, and they start again from
    seeds derived from (run seed, number of states saved so far).
    """

    settings: AgentSettings
    logs = ("metrics", "episodes", "events", "tensorboard")
    check_every = 1
    saves_where_tasks_end = True
    best_by, more_is_better = "eval/return", True

    def __init__(self, settings: AgentSettings) -> None:
        """Raises UsageError or ValueError for environments in which this agent cannot live, RunError for one that
        cannot be made."""
        self.settings = settings
        try:
            self.tasks: tuple[EnvTask, ...] = tasks_of(settings)
            self.shifts = shifts_of(settings)
            self.spaces = {name: self.space(name) for name in dict.fromkeys(task.env for task in self.tasks)}
        except EnvironmentFault as fault:
            raise RunError(str(fault)) from fault
        self.agent = self.new_agent(settings, self.spaces)
        self.task = self.tasks[0]
        self.now = 0  # the step of the run
        self.explosions = 0  # in training, since this process began
        self.untrained: list[float] | None = None  # returns of a fresh agent in its task, until it has learned
        self._envs: Envs | None = None  # those of the task at hand
        self._workers: Workers | None = None  # in which they run, for all tasks
        if not settings.eval_episodes:
            self.no_best = "there are no evaluations to choose it by: --eval-episodes 5"
        elif len({task.env for task in self.tasks}) > 1:
            self.no_best = "returns in different environments do not compare: train on one"

    @property
    def learners(self) -> dict[str, Learner]:
        return self.agent.learners

    # -- what differs between agents --------------------------------------------------------------------------------

    @abstractmethod
    def space(self, env: str) -> Any:
        """Return what the agent must know of an environment.
        Raises ValueError, by name, for one that it cannot serve."""

    @abstractmethod
    def new_agent(self, settings: Any, spaces: Mapping[str, Any]) -> Agent:
        """Return the agent for these environments: name → what `space` says of it."""

    @staticmethod
    @abstractmethod
    def envs(settings: Any, env: str, copies: int, **world: Any) -> Envs:
        """Return copies of an environment, of which a worker process makes its own.

        world: further arguments of the function that makes it."""

    def held_out(self, env: str, copies: int, **world: Any) -> Envs | None:
        """Return copies of its perturbed variant for evaluations, or None if it has none."""
        return None

    def world(self, task: EnvTask) -> dict[str, Any]:
        """Return what the settings ask of a task's environment."""
        s = self.settings
        shifted = {} if self.shifts is None else {"shifts": self.shifts, "seed": s.seed, "task": task.index}
        return shifted | ({} if s.max_episode_steps is None else {"max_episode_steps": s.max_episode_steps})

    # -- learning ---------------------------------------------------------------------------------------------------

    def enter(self, task: EnvTask) -> None:
        self._leave()
        self.task = task
        if self.settings.fresh:
            self.untrained = []
            if task.index:
                self._begin_anew(derive(self.settings.seed, "fresh agent", task.index))
        self.agent.begin_task(task.env)

    def _begin_anew(self, seed: int) -> None:
        # Before the next one is there, the agent at hand goes with its memory, which may be most of the machine's:
        # whoever has its learners lets go of them, and its own references to itself are found.
        self.learners.clear()
        del self.agent
        gc.collect()
        self.agent = self.new_agent(replace(self.settings, seed=seed), self.spaces)

    def begin_segment(self, number: int, step: int) -> None:
        self.now = step
        with self._blaming():
            if self._envs is None:
                self._envs = self._new_envs()
            self._envs.progress(self._passed)
            seeds = [derive(self.settings.seed, "episodes", number, i) for i in range(self._envs.num_envs)]
            self.agent.begin_episodes(self._envs.reset([seed % 2**31 for seed in seeds]))

    def _new_envs(self) -> Envs:
        s, env = self.settings, self.task.env
        make: Callable[[int], Envs] = partial(self.envs, s, env, **self.world(self.task))
        if not s.env_workers:
            return make(s.num_envs)
        if self._workers is None:
            self._workers = Workers(s.env_workers, partial(_begin, flushes(), plugins.sources()))
        return self._workers.envs(env, make, s.num_envs)

    @property
    def _passed(self) -> int:
        """Return the steps that the task has had."""
        return self.now - self.task.start

    @contextmanager
    def _blaming(self) -> Iterator[None]:
        """Say how far the run had come when an environment misbehaved. Raises EnvironmentFailed where one does."""
        try:
            yield
        except EnvironmentFault as fault:
            raise EnvironmentFailed(f"{fault.environment} after {self.now} steps of the run: {fault.what}") from fault

    def advance(self, task: EnvTask, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Let the agent decide up to the next place at which it can be stopped: one, or a rollout."""
        assert self._envs is not None
        agent, stride = self.agent, self.settings.stride
        gradual = self.shifts is not None and self.shifts.is_gradual
        with self._blaming():
            while True:
                result = self._envs.step(agent.act())
                agent.remember(result)
                self.now += stride
                if gradual:
                    self._envs.progress(self._passed)
                for episode in result.episodes:
                    self._log(run, task, self.now, episode)
                if agent.update(hooks, last=self.now >= until):
                    self.learned(run, task, self.now)
                    if self.untrained and self._passed >= self.settings.untrained_steps:
                        self._log_untrained(run, task, self.now)
                    return self.now - step

    def learned(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Do what the agent's environments need after it learned; nothing, unless it says otherwise."""

    def _log_untrained(self, run: RunDirectory, task: EnvTask, step: int) -> None:
        """Log the mean return of the episodes before a fresh agent's first update; of the first ones to end, where
        none did by then."""
        assert self.untrained
        mean, n = fmean(self.untrained), len(self.untrained)
        run.event(event="untrained", step=step, task=task.index, **{"return": mean}, episodes=n)
        self.untrained = None

    def _log(self, run: RunDirectory, task: EnvTask, step: int, episode: Episode) -> None:
        where = {"step": step, "env": task.env, "task": task.index, "cycle": task.cycle}
        marks = {"exploded": episode.explosion is not None, "broken_off": episode.broken_off}
        marked = {name: True for name, holds in marks.items() if holds}
        run.episode(**where, **{"return": episode.ret}, length=episode.length, **marked)
        if self.untrained is not None:
            self.untrained.append(episode.ret)
        if episode.explosion is not None:
            run.event(event="explosion", **where, reward=episode.explosion)
            self._say_explosion(episode.explosion)

    def _say_explosion(self, reward: float | str) -> None:
        """Warn of the first explosion, the tenth, the hundredth and so on."""
        self.explosions += 1
        if str(self.explosions).strip("0") == "1":
            warnings.warn(
                f"{self.task.env} after {self.now} steps of the run: the physics exploded (reward {reward}; it, the "
                f"observation or the simulation was not finite, or the reward below {REWARD_FLOOR:g}), which ends the "
                f"episode; {self.explosions} so far, each in events.jsonl",
                stacklevel=2,
            )

    def check(self, closely: bool = False) -> None:
        """Check nothing: agents look at their losses where these are logged."""

    # -- how well it does ---------------------------------------------------------------------------------------------

    def numbers(self) -> Numbers:
        return self.agent.numbers()

    def evaluation_due(self, task: EnvTask, previous: int, step: int) -> bool:
        s = self.settings
        return previous < step and bool(s.eval_episodes) and (step >= task.end or crossed(previous, step, s.eval_every))

    def evaluate(self, task: EnvTask) -> Numbers:
        """Return the mean returns of the policy of evaluations,
        in new copies of the environment and of its held-out variant."""
        s = self.settings
        seeds = [derive(s.seed, "evaluation", task.index, i) % 2**31 for i in range(s.eval_episodes)]
        world = self.world(task)
        with self._blaming():
            values = {"eval/return": self._return(task, self.envs(s, task.env, len(seeds), **world), seeds)}
            if (score := human_normalized(task.env, values["eval/return"])) is not None:
                values["eval/human_normalized"] = score
            if (held_out := self.held_out(task.env, len(seeds), **world)) is not None:
                values["eval/return_friction"] = self._return(task, held_out, seeds)
        return values

    def _return(self, task: EnvTask, envs: Envs, seeds: list[int]) -> float:
        envs.progress(self._passed)
        return evaluate(self.agent, task.env, envs, seeds)

    # -- states and resources -----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        state = self.agent.state_dict()
        # Under its task's own key: a checkpoint takes over rows of the one before, which are another memory's.
        return {"untrained": self.untrained, self._of_task: state} if self.settings.fresh else state

    def load_state(self, state: dict[str, Any]) -> None:
        self.agent.load_state_dict(state.get(self._of_task, state))
        self.untrained = state.get("untrained")  # a trunk's agent, with which an arm goes on, has learned already

    @property
    def _of_task(self) -> str:
        return f"task {self.task.index}"

    def check_memory(self, runs: int) -> None:
        super().check_memory(runs)
        self.agent.check_memory(runs)

    def _leave(self) -> None:
        """Close the environments of the task."""
        if self._envs is not None:
            envs, self._envs = self._envs, None
            with self._blaming():
                envs.close()

    def close(self) -> None:
        try:
            self._leave()
        finally:
            if self._workers is not None:
                self._workers.close()
                self._workers = None


def _begin(flush: bool, sources: dict[str, str]) -> None:
    """Make a worker process like the one that began it: it rounds as that does, and knows its plug-ins."""
    torch.set_flush_denormal(flush)
    plugins.load_all(sources)
