"""Settings that every agent shares; each agent's settings extend them. A field's string is its help line."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import tyro

from ..experiments.errors import UsageError
from ..experiments.settings import MOST_TASKS, RunSettings, not_positive, positive

MOST_ENVS = 65_536  # copies of an environment


@dataclass(kw_only=True)
class AgentSettings(RunSettings):
    env: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """One environment: a short name (halfcheetah, asterix), any Gymnasium id (HalfCheetah-v5), or my_module:Mine-v0."""
    sequence: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """A stream of environments instead: names joined by commas, or a named sequence (see `supple list`)."""
    cycles: int = 1
    """How often the sequence, or the environment, is gone through."""
    steps_per_task: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Environment steps on each environment, per cycle."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Environment steps in all, with --env and one task."""
    max_episode_steps: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Steps after which an episode is cut off (default: the environment's own limit)."""
    shift: Annotated[str | None, tyro.conf.arg(metavar="SHIFTS")] = None
    """What changes between tasks: "offset(scale=2)", "friction + negate_reward" (see `supple list shifts`)."""
    fresh: bool = False
    """Begin every task with a new agent: the reference for how well a task can be learned at all."""
    num_envs: int = 8
    """Parallel copies of the environment."""
    env_workers: int = 0
    """Processes in which the copies run, with the same results; 0: in this one. Pays on idle cores, for slow steps."""
    physics: Annotated[Literal["auto", "batched", "single"], tyro.conf.arg(metavar="auto|batched|single")] = "auto"
    """Step the copies of a MuJoCo task together, or one by one: the same results; auto: together where it fits."""
    threads: int = 1
    """Threads of PyTorch, of Atari's emulators and of batched physics. Small networks are fastest with one."""
    checkpoint_every: int = 250_000
    """Environment steps between checkpoints. A checkpoint ends the running episodes, in every run alike."""
    measure_every: int = 20_000
    """Environment steps between two lines of measurements in metrics.jsonl."""
    trainability_every: int = 0
    """Environment steps between two measurements of trainability, each as long as some 400 updates; 0: never."""
    eval_every: int = 0
    """Environment steps between evaluations; 0: at the end of each task only."""
    eval_episodes: int = 5
    """Episodes of an evaluation, on environments of its own; 0: none."""

    shrinks: ClassVar[tuple[str, ...]] = ("steps", "steps_per_task", *RunSettings.shrinks, "shift")

    def least(self, name: str) -> tuple[int, int]:
        return (2 * self.stride, self.stride) if name in ("steps", "steps_per_task") else super().least(name)

    @property
    def untrained_steps(self) -> int:
        """Return the environment steps of a new agent before its first update; 0 where an agent does not say."""
        return 0

    @property
    def life(self) -> int | None:
        """Return the environment steps that one agent lives, where --steps or, for fresh agents, --steps-per-task says
        it; None where it lives through several tasks."""
        return self.steps_per_task if self.fresh and self.steps is None else self.steps

    @property
    def stride(self) -> int:
        """Environment steps that pass between two decisions of the agent."""
        return self.num_envs

    @property
    def stepping(self) -> dict[str, Any]:
        """Return what `side_by_side` is told of how copies are stepped; workers are threads enough."""
        return {"batched": self.physics == "batched", "threads": 1 if self.env_workers else self.threads}

    def stream(self) -> tuple[str, int]:
        """Return (sequence text, steps per task), from --env and --steps or --sequence and --steps-per-task."""
        if (self.env is None) == (self.sequence is None):
            raise UsageError("give either --env NAME --steps N or --sequence NAMES --steps-per-task N")
        if self.steps is not None and self.steps_per_task is not None:
            raise UsageError("--steps is for one task, --steps-per-task for several: give one of them")
        if self.steps is not None and (self.sequence or self.cycles != 1):
            raise UsageError(
                f"--steps does not go with {'--sequence' if self.sequence else '--cycles'}: use --steps-per-task"
            )
        steps = self.steps if self.steps is not None else self.steps_per_task
        if steps is None:
            wanted = "--steps-per-task" if self.sequence or self.cycles != 1 else "--steps"
            raise UsageError(f"{wanted} is missing: how many environment steps?")
        positive(**{"--steps" if self.steps is not None else "--steps-per-task": steps, "--cycles": self.cycles})
        return self.env or self.sequence or "", steps

    def longer(self, steps: int) -> "AgentSettings":
        if self.steps is None:
            raise UsageError(
                "--steps: a run of several tasks ends with its last: only runs with --steps go on for longer"
            )
        if steps <= self.steps:
            raise UsageError(f"--steps {steps}: the run was planned for {self.steps} steps already: give more")
        return replace(self, steps=steps)

    def resolve(self) -> str | None:
        if self.physics != "single":
            from .stream import steps_batched  # Gymnasium, which help lines do without

            batched = steps_batched(self)
            asked, self.physics = self.physics, "batched" if batched else "single"
            if asked == "batched" and not batched:
                return (
                    "--physics batched: no environment of this run can be stepped so here: single, and the same results"
                )
        return super().resolve()

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for name, value, most in (("--num-envs", self.num_envs, MOST_ENVS), ("--cycles", self.cycles, MOST_TASKS)):
            if value > most:
                yield f"{name} must be {most:,} at most, got {value}"
        yield from not_positive(**{"--num-envs": self.num_envs, "--max-episode-steps": self.max_episode_steps})
        if not 0 <= self.env_workers <= self.num_envs:
            yield (
                f"--env-workers must be 0 or more, and no more than the {self.num_envs} of --num-envs, "
                f"got {self.env_workers}"
            )
        if self.fresh and set(self.hook) - {"none"}:
            yield "--fresh True begins every task with a new agent: hooks have no place in it"
        if self.eval_episodes < 0:
            yield f"--eval-episodes must be 0 or more, got {self.eval_episodes}"
