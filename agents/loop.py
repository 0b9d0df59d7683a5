"""The one interaction loop: act → step → remember → update → hooks → measure → log → checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from ..envs import Envs, Task
from ..experiments import checkpoint
from ..experiments.errors import RunError
from ..experiments.hooks import HookDriver
from ..experiments.rundir import RunDirectory
from ..experiments.seeding import derive
from ..experiments.settings import RunSettings
from ..metrics import human_normalized, measure
from .agent import Agent
from .algorithms import Algorithm
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
    algorithm: Algorithm
    settings: RunSettings
    agent: Agent
    hooks: HookDriver
    tasks: tuple[Task, ...]
    start: int
    end: int
    warn: Callable[[str], None]
    step: int = 0
    number: int = 0  # of the next checkpoint
    saved: Path | None = None  # the last checkpoint, which the next one need not repeat

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
        envs = self.algorithm.envs(s, task.env, s.num_envs)
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
            self.step += s.stride
            for episode in result.episodes:
                self._log_episode(task, episode.ret, episode.length, episode.explosion)
            if not self.agent.update(self.hooks, last=self.step >= until):
                continue
            self.hooks.passed(previous, self.step)
            if self._crossed(previous, s.measure_every) or self.step >= until:
                numbers = self.agent.numbers() | self._measurements()
                self.run.metrics(self.step, numbers)
                self.run.flush()
                self.hooks.measured(self.step, numbers)
            if s.eval_episodes and (self.step >= task.end or self._crossed(previous, s.eval_every)):
                self._evaluate(task)
            if self.step >= until:
                if self.step >= task.end:
                    self.hooks.finished()
                self._save()
            elif self._crossed(previous, s.checkpoint_every):
                self._save()
                self._begin_episodes(envs)
            previous = self.step
            progress(self.step)
        envs.close()

    def _begin_episodes(self, envs: Envs) -> None:
        seeds = [derive(self.settings.seed, "episodes", self.number, i) for i in range(envs.num_envs)]
        self.agent.begin_episodes(envs.reset([seed % 2**31 for seed in seeds]))

    def _crossed(self, previous: int, period: int) -> bool:
        return period > 0 and self.step // period > previous // period

    def _log_episode(self, task: Task, ret: float, length: int, explosion: float | str | None) -> None:
        where = {"step": self.step, "env": task.env, "task": task.index, "cycle": task.cycle}
        exploded = {} if explosion is None else {"exploded": True}
        self.run.episode(**where, **{"return": ret}, length=length, **exploded)
        if explosion is not None:
            self.run.event(event="explosion", **where, reward=explosion)

    def _measurements(self) -> dict[str, float]:
        measured = {
            f"{learner.name}/{name}": value
            for learner in self.agent.learners.values()
            for name, value in measure(learner, per_layer=True).items()
        }
        counted = {name: float(value.double().mean()) for name, value in self.hooks.numbers().items()}  # of a stack
        return measured | counted

    def _evaluate(self, task: Task) -> None:
        """The policy of evaluations on new copies of the environment, and of its held-out variant if it has one."""
        s = self.settings
        seeds = [derive(s.seed, "evaluation", task.index, i) % 2**31 for i in range(s.eval_episodes)]
        values = {"eval/return": evaluate(self.agent, task.env, self.algorithm.envs(s, task.env, len(seeds)), seeds)}
        if (score := human_normalized(task.env, values["eval/return"])) is not None:
            values["eval/human_normalized"] = score
        if (held_out := self.algorithm.held_out(s, task.env, len(seeds))) is not None:
            values["eval/return_friction"] = evaluate(self.agent, task.env, held_out, seeds)
        self.run.metrics(self.step, {"task": task.index, "cycle": task.cycle, **values})

    # -- checkpoints ---------------------------------------------------------------------------------------

    def _save(self) -> None:
        self.number += 1
        tree = {
            "step": self.step,
            "number": self.number,
            "agent": self.agent.state_dict(),
            "hooks": self.hooks.state_dict(),
            "torch_generators": _global_generators(),
            "logs": self.run.log_lengths(),
            "seconds": self.run.seconds(),
        }
        self.saved = checkpoint.save(self.run.checkpoints, self.step, tree, self.run.identity, self.saved)
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
        self.saved = checkpoint.folder_of(self.run.checkpoints, self.step)
        self.agent.load_state_dict(tree["agent"])
        self.hooks.load_state_dict(tree["hooks"])
        torch.set_rng_state(tree["torch_generators"][0])
        for gpu in tree["torch_generators"][1:]:
            torch.cuda.set_rng_state(gpu)
        checkpoint.prune(self.run.checkpoints, self.settings.keep_checkpoints, self.step)
        if self.step < self.end:  # a finished run is left untouched
            self.run.start_logs(tree["logs"], tree["seconds"])


def _global_generators() -> list[torch.Tensor]:
    """PyTorch's own generators, of the CPU and of the GPU if one is in use: random activations draw from them."""
    return [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else [])]
