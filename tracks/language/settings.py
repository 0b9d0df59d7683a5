"""What every run of the language track is told; each kind of run extends it. A field's string is its help line."""

from dataclasses import dataclass, fields
from math import isfinite
from typing import Annotated, Literal

import tyro

from ...experiments.errors import UsageError
from ...experiments.settings import Device, positive


@dataclass(kw_only=True)
class LanguageSettings:
    hook: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOK")] = ()
    """An intervention and its schedule, such as "fire(steps=5)@task" or sib@start. May be given several times."""
    seed: int = 0
    """The run's seed: every random draw comes from it."""
    learning_rate: float = 6e-4
    """AdamW's, at its highest."""
    weight_decay: float = 0.1
    """AdamW's, on matrices (and embeddings) only."""
    clip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = 1.0
    """Largest norm of a gradient; a longer one is shortened. None: any."""
    device: Device = "auto"
    """auto (a CUDA GPU where there is one), cpu, cuda."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of products: bfloat16 by autocast (auto: on a GPU that has it), or float32. Weights are float32 in both."""
    threads: int = 1
    """Threads of PyTorch."""
    checkpoint_every: int = 2_000
    """Updates between checkpoints."""
    keep_checkpoints: int = 1
    """How many checkpoints to keep."""
    measure_every: int = 1_000
    """Updates between two measurements of the network (srank, dormancy, norms, …)."""
    eval_every: int = 250
    """Updates between two evaluations; 0: where tasks begin and end only."""
    curvature: bool = False
    """Measure the largest eigenvalue of the loss's Hessian too; takes as long as some hundred updates."""

    def check_single(self) -> None:
        """Raise UsageError for what only runs of a comparison can be told."""

    def check(self) -> None:
        """Raise UsageError for values that cannot work."""
        positive(
            **{
                "--learning-rate": self.learning_rate,
                "--clip": self.clip,
                "--threads": self.threads,
                "--checkpoint-every": self.checkpoint_every,
                "--keep-checkpoints": self.keep_checkpoints,
                "--measure-every": self.measure_every,
            }
        )
        for field in fields(self):
            if isinstance(value := getattr(self, field.name), float) and not isfinite(value):
                raise UsageError(f"--{field.name.replace('_', '-')} must be a finite number, got {value}")
        for name, value in (
            ("--seed", self.seed), ("--eval-every", self.eval_every), ("--weight-decay", self.weight_decay)
        ):  # fmt: skip
            if value < 0:
                raise UsageError(f"{name} must be 0 or more, got {value}")
