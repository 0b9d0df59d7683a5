"""Settings that every training run shares; each algorithm's settings extend them.

A field's string is its help line on the command line.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Literal

import torch
import tyro

from .errors import UsageError

Device = Literal["auto", "cpu", "cuda"]


@dataclass(kw_only=True)
class RunSettings:
    env: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """One environment: a short name (halfcheetah, asterix) or any Gymnasium id (HalfCheetah-v5)."""
    sequence: Annotated[str | None, tyro.conf.arg(metavar="NAMES")] = None
    """A stream of environments instead: names joined by commas, or a named sequence (see `supple list`)."""
    cycles: int = 1
    """How often the sequence is gone through."""
    steps_per_task: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Environment steps on each environment of a sequence, per cycle."""
    steps: Annotated[int | None, tyro.conf.arg(metavar="INT")] = None
    """Environment steps in all, with --env."""
    hook: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOK")] = ()
    """An intervention and its schedule, such as fire@0.5 or snp(lam=0.5)@task. May be given several times."""
    num_envs: int = 8
    """Parallel copies of the environment."""
    seed: int = 0
    """The run's seed: every random draw comes from it."""
    threads: int = 1
    """Threads of PyTorch, and of Atari's emulators. Small networks are fastest with one."""
    checkpoint_every: int = 250_000
    """Environment steps between checkpoints. A checkpoint ends the running episodes, in every run alike."""
    keep_checkpoints: int = 2
    """How many checkpoints to keep."""
    measure_every: int = 20_000
    """Environment steps between two lines of metrics.jsonl."""
    eval_every: int = 0
    """Environment steps between evaluations; 0: at the end of each task only."""
    eval_episodes: int = 5
    """Episodes of an evaluation, on environments of its own; 0: none."""

    @property
    def stride(self) -> int:
        """Environment steps that pass between two decisions of the agent."""
        return self.num_envs

    def stream(self) -> tuple[str, int]:
        """(sequence text, steps per task) from either --env and --steps or --sequence and --steps-per-task."""
        if (self.env is None) == (self.sequence is None):
            raise UsageError("give either --env NAME --steps N or --sequence NAMES --steps-per-task N")
        pairs: dict[str, int | None] = {"--steps": self.steps, "--steps-per-task": self.steps_per_task}
        wanted, other = ("--steps", "--steps-per-task") if self.env else ("--steps-per-task", "--steps")
        if pairs[other] is not None:
            raise UsageError(f"{other} does not go with {'--env' if self.env else '--sequence'}: use {wanted}")
        steps = pairs[wanted]
        if steps is None:
            raise UsageError(f"{wanted} is missing: how many environment steps?")
        if self.env and self.cycles != 1:
            raise UsageError("--cycles goes with --sequence, not with --env")
        positive(**{wanted: steps, "--cycles": self.cycles})
        return self.env or self.sequence or "", steps

    def resolve(self) -> str | None:
        """Decide what was left to be decided here, so that config.json says it and a resumed run does the same.
        Returns a line for the user, if there is anything to say."""
        return None

    def check(self) -> None:
        """Raise UsageError for values that cannot work."""
        positive(
            **{
                "--num-envs": self.num_envs,
                "--threads": self.threads,
                "--checkpoint-every": self.checkpoint_every,
                "--keep-checkpoints": self.keep_checkpoints,
                "--measure-every": self.measure_every,
            }
        )
        finite(**vars(self))
        if self.seed < 0:
            raise UsageError(f"--seed must be 0 or more, got {self.seed}")
        for name, value in (("--eval-episodes", self.eval_episodes), ("--eval-every", self.eval_every)):
            if value < 0:
                raise UsageError(f"{name} must be 0 or more, got {value}")


def positive(**values: float | None) -> None:
    """Raise UsageError for the first named value that is not above zero."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{name} must be a positive number, got {value}")


def finite(**values: object) -> None:
    """Raise UsageError for the first setting, by the name of its field, that is infinite or no number."""
    for name, value in values.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"--{name.replace('_', '-')} must be a finite number, got {value}")


def device_here(device: Device) -> Device:
    """`auto` as "cuda" or "cpu", whichever there is. Raises UsageError for a GPU that is not there."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "--device cuda: PyTorch finds no CUDA GPU here; use --device cpu, or go on where this run was begun"
        )
    return device
