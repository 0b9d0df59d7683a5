"""The one interaction loop: act → step → remember → update → hooks → measure → log → checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass

import gymnasium as gym
import torch

from ..envs import Task, Vector, has_friction, make_env
from ..experiments import checkpoint
from ..experiments.errors import RunError
from ..experiments.hooks import HookDriver
from ..experiments.rundir import RunDirectory
from ..experiments.seeding import derive
from ..experiments.settings import RunSettings
from ..metrics import measure
from .agent import Agent
from .evaluate import evaluate

Progress = Callable[[int], None]


@dataclass
class Loop:
    """One run between its start and its end, at a step that only grows.

    A checkpoint ends all running episodes, in every run alike, and the environments start again from seeds
    derived from (run seed, number of the checkpoint). So nothing inside an environment has to be saved, and a
    run that is resumed goes on bit for bit like one that was never interrupted.
    """

    run: RunDirectory
    settings: RunSettings
    agent: Agent
    hooks: HookDriver
    tasks: tuple[Task, ...]
    start: int
    end: int
    warn: Callable[[str], None]
    step: int = 0
    number: int = 0  # of the next checkpoint

    def train(self, progress: Progress) -> None:
        """Go on from the newest intact checkpoint, or from the beginning, to the end."""
        self._restore()
        progress(self.step)
        if self.step == self.start and self.step < self.end:
            self.hooks.passed(self.start - 1, self.start)
        for task in self.tasks:
            if task.start <= self.step < min(task.end, self.end):
                self._live_in(task, progress)

    def _live_in(self, task: Task, progress: Progress) -> None:
        s = self.settings
        until = min(task.end, self.end)
        envs = Vector(lambda: make_env(task.env, clip_actions=s.clip_actions), s.num_envs)
        self.agent.begin_task(task.env)
        if self.step == task.start:
            self.run.event(event="task", step=self.step, task=task.index, env=task.env, cycle=task.cycle)
            if task.index:
                self.hooks.switched(self.step, task.index)
        self._begin_episodes(envs)
        previous = self.step
        while self.step < until:
            result = envs.step(self.agent.act())
            self.agent.remember(result)
            self.step += s.num_envs
            for episode in result.episodes:
                self._log_episode(task, episode.ret, episode.length, episode.explosion)
            numbers = self.agent.update(self.hooks, last=self.step >= until)
            if numbers is None:
                continue
            self.hooks.passed(previous, self.step)
            if self._crossed(previous, s.measure_every) or self.step >= until:
                numbers |= self._measurements()
                self.run.metrics(self.step, numbers)
                self.run.flush()
                self.hooks.measured(self.step, numbers)
            if self.step >= until:
                self._evaluate(task)
                self._save()
            elif self._crossed(previous, s.checkpoint_every):
                self._save()
                self._begin_episodes(envs)
            previous = self.step
            progress(self.step)
        envs.close()

    def _begin_episodes(self, envs: Vector) -> None:
        seeds = [derive(self.settings.seed, "episodes", self.number, i) for i in range(envs.num_envs)]
        self.agent.begin_episodes(envs.reset([seed % 2**31 for seed in seeds]))

    def _crossed(self, previous: int, period: int) -> bool:
        return self.step // period > previous // period

    def _log_episode(self, task: Task, ret: float, length: int, explosion: float | str | None) -> None:
        where = {"step": self.step, "env": task.env, "task": task.index, "cycle": task.cycle}
        exploded = {} if explosion is None else {"exploded": True}
        self.run.episode(**where, **{"return": ret}, length=length, **exploded)
        if explosion is not None:
            self.run.event(event="explosion", **where, reward=explosion)

    def _measurements(self) -> dict[str, float]:
        return {
            f"{learner.name}/{name}": value
            for learner in self.agent.learners.values()
            for name, value in measure(learner, per_layer=True).items()
        }

    def _evaluate(self, task: Task) -> None:
        """At the end of a task: the greedy policy on the environment itself and on its held-out friction."""
        s = self.settings
        if not s.eval_episodes or self.step < task.end:
            return
        seeds = [derive(s.seed, "evaluation", task.index, i) % 2**31 for i in range(s.eval_episodes)]
        values = {"eval/return": evaluate(self.agent, task.env, seeds, 1.0, s.clip_actions)}
        if has_friction(task.env):
            values["eval/return_friction"] = evaluate(self.agent, task.env, seeds, s.eval_friction, s.clip_actions)
        self.run.metrics(self.step, {"task": task.index, "cycle": task.cycle, **values})

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _save(self) -> None:
        self.number += 1
        tree = {
            "step": self.step,
            "number": self.number,
            "agent": self.agent.state_dict(),
            "hooks": self.hooks.state_dict(),
            "torch_generator": torch.get_rng_state(),  # random activations draw from it
            "logs": self.run.log_lengths(),
            "seconds": self.run.seconds(),
        }
        checkpoint.save(self.run.checkpoints, self.step, tree, self.run.identity)
        checkpoint.prune(self.run.checkpoints, self.settings.keep_checkpoints, self.step)

    def _restore(self) -> None:
        torch.manual_seed(derive(self.settings.seed, "torch"))
        tree = checkpoint.newest(self.run.checkpoints, self.run.identity, self.warn)
        if tree is None:
            if self.start:
                raise RunError(f"{self.run.checkpoints}: a fork without its checkpoint cannot begin")
            self.run.start_logs({}, 0.0)
            return
        self.step, self.number = tree["step"], tree["number"]
        self.agent.load_state_dict(tree["agent"])
        self.hooks.load_state_dict(tree["hooks"])
        torch.set_rng_state(tree["torch_generator"])
        checkpoint.prune(self.run.checkpoints, self.settings.keep_checkpoints, self.step)
        if self.step < self.end:  # a finished run is left untouched
            self.run.start_logs(tree["logs"], tree["seconds"])


def spaces_of(envs: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """Environment → (observation size, action size), in order, each once.

    Raises ValueError for spaces that a Gaussian policy over vectors cannot serve.
    """
    spaces: dict[str, tuple[int, int]] = {}
    for name in dict.fromkeys(envs):
        env = make_env(name)
        observation, action = env.observation_space, env.action_space
        env.close()
        for what, space in (("observations", observation), ("actions", action)):
            if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
                raise ValueError(f"{name}: this agent needs vectors of real numbers as {what}, not {space}")
        spaces[name] = (gym.spaces.flatdim(observation), gym.spaces.flatdim(action))
    return spaces
