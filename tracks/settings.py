"""The settings that all tracks share, extended by each kind. The string under a field is its help line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from ..engine.settings import Device, RunSettings, device_here, not_positive


@dataclass(kw_only=True)
class TrackSettings(RunSettings):
    learning_rate: float = 6e-4
    """Maximum learning rate of the optimizer."""
    clip: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """Clip the gradient norm to this value; None: no clipping."""
    device: Device = "auto"
    """auto (a CUDA GPU if there is one), cpu or cuda."""
    keep_checkpoints: int = 1
    """Number of checkpoints to keep."""
    eval_every: int = 250
    """Updates between evaluations; 0: only at the start and end of each task."""

    same_network: ClassVar[tuple[str, ...]] = (*RunSettings.same_network, "learning_rate")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from not_positive(**{"--learning-rate": self.learning_rate, "--clip": self.clip})

    def resolve(self) -> str | None:
        self.device = device_here(self.device)
        return super().resolve()
