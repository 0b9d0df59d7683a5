"""The settings that all tracks share, extended by each kind. The string under a field is its help line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from supple.engine.settings import Device, Groups, RunSettings, device_here, not_positive


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

    groups: ClassVar[Groups] = {"speed": ("device",)}
    same_network: ClassVar[tuple[str, ...]] = (*RunSettings.same_network, "learning_rate")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from self.not_positive("learning_rate", "clip")

    def not_positive(self, *names: str) -> Iterator[str]:
        """Yield one line for each of these settings that is not a finite number above 0. None is accepted."""
        yield from not_positive(**{_option(name): getattr(self, name) for name in names})

    def negative(self, *names: str) -> Iterator[str]:
        """Yield one line for each of these settings that is below 0."""
        for name in names:
            if getattr(self, name) < 0:
                yield f"{_option(name)} must be 0 or more, got {getattr(self, name)}"

    def resolve(self) -> str | None:
        self.device = device_here(self.device)
        return super().resolve()


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
