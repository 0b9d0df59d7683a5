"""What every run of these tracks is told; each kind of run extends it. A field's string is its help line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import tyro

from ..experiments.settings import Device, RunSettings, device_here, not_positive


@dataclass(kw_only=True)
class TrackSettings(RunSettings):
    learning_rate: float = 6e-4
    """The optimizer's, at its highest."""
    clip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Largest norm of a gradient; a longer one is shortened. None: any."""
    device: Device = "auto"
    """auto (a CUDA GPU where there is one), cpu, cuda."""
    keep_checkpoints: int = 1
    """How many checkpoints to keep."""
    eval_every: int = 250
    """Updates between two evaluations; 0: where tasks begin and end only."""

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from not_positive(**{"--learning-rate": self.learning_rate, "--clip": self.clip})

    def resolve(self) -> str | None:
        self.device = device_here(self.device)
        return super().resolve()
