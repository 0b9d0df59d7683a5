"""The settings that all tracks share, extended by each kind. The string under a field is its help line; one without
it has that of its base."""

from dataclasses import dataclass
from typing import ClassVar

from supple.engine.settings import Device, Groups, RunSettings, device_here
from supple.registry.schema import NotNegative, Positive


@dataclass(kw_only=True)
class TrackSettings(RunSettings):
    learning_rate: Positive[float] = 6e-4
    """Maximum learning rate of the optimizer."""
    max_grad_norm: Positive[float] | None = None
    """Clip the gradient norm to this value; None: no clipping."""
    device: Device = "auto"
    """auto (a CUDA GPU if there is one), cpu or cuda."""
    keep_checkpoints: Positive[int] = 1
    """Number of checkpoints to keep."""
    eval_every: NotNegative[int] = 250

    groups: ClassVar[Groups] = {"speed": ("device",)}
    same_network: ClassVar[tuple[str, ...]] = (*RunSettings.same_network, "learning_rate")

    def resolve(self) -> str | None:
        self.device = device_here(self.device)
        return super().resolve()
