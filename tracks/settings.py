"""What every run of these tracks is told; each kind of run extends it. A field's string is its help line."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from ..experiments.errors import UsageError
from ..experiments.settings import Device, device_here, finite, positive


@dataclass(kw_only=True)
class TrackSettings:
    hook: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOK")] = ()
    """An intervention and its schedule, such as "fire(steps=5)@task" or snp@0.5. May be given several times."""
    seed: int = 0
    """The run's seed: every random draw comes from it."""
    learning_rate: float = 6e-4
    """The optimizer's, at its highest."""
    clip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Largest norm of a gradient; a longer one is shortened. None: any."""
    device: Device = "auto"
    """auto (a CUDA GPU where there is one), cpu, cuda."""
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
        finite(**vars(self))
        for name, value in (("--seed", self.seed), ("--eval-every", self.eval_every)):
            if value < 0:
                raise UsageError(f"{name} must be 0 or more, got {value}")

    def resolve(self) -> None:
        """Decide what was left to be decided here, so that config.json says it and a resumed run does the same."""
        self.device = device_here(self.device)
