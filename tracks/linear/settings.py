"""What training a deep linear network on a sequence of tasks is told."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from ...experiments.settings import Device, not_positive
from ..settings import TrackSettings
from .stream import names_of

MOST = 1e9  # of the initial weights' scale, far above which their product is no number


@dataclass(kw_only=True)
class LinearSettings(TrackSettings):
    tasks: str = "semantic"
    """Tasks in their order, joined by commas: random (a new regression each time), semantic (the hierarchy of eight
    items), or the one before changed: reversal (of its largest singular vector), scaled (doubled), feature (an item
    gets a feature that it lacks)."""
    n_in: int = 8
    """Inputs."""
    n_hidden: int = 8
    """Hidden units."""
    n_out: int = 8
    """Outputs."""
    samples: int = 32
    """Examples of a random task."""
    lam: float = 0.0
    """λ of the initial weights, W₂ᵀW₂ − W₁W₁ᵀ = λI: above 0 the second layer is the larger one. At 0 a square network
    is held up, near a saddle, where the sign of det W₂W₁ has to change: from some starts, and by reversal."""
    init_scale: float = 0.1
    """Standard deviation σ of the Gaussian matrices whose product the initial network computes (Algorithm 1)."""
    updates_per_task: int = 1_000
    """Steps of gradient descent on each task."""
    learning_rate: float = 0.05
    """Of plain gradient descent on all examples: an update is that much of the gradient flow's time, in τ."""
    device: Device = "cpu"
    """auto (a CUDA GPU where there is one), cpu, cuda. These networks are small: a CPU is faster."""
    measure_every: int = 250
    """Updates between two measurements of the network (srank, dormancy, norms, …)."""
    eval_every: int = 10
    """Updates between two evaluations; 0: where tasks begin and end only."""

    shrinks: ClassVar[tuple[str, ...]] = ("updates_per_task", *TrackSettings.shrinks)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        names = names_of(self.tasks)
        yield from not_positive(
            **{
                "--n-in": self.n_in,
                "--n-hidden": self.n_hidden,
                "--n-out": self.n_out,
                "--samples": self.samples,
                "--init-scale": self.init_scale,
                "--updates-per-task": self.updates_per_task,
            }
        )
        if self.init_scale > MOST:
            yield f"--init-scale must be {MOST:g} at most, got {self.init_scale}"
        if "semantic" in names and (self.n_in, self.n_out) != (8, 8):
            yield (
                f"--tasks {self.tasks}: the hierarchy has 8 items and 8 features, the network {self.n_in} inputs and "
                f"{self.n_out} outputs: give --n-in 8 --n-out 8"
            )
        if "random" in names and self.samples < self.n_in:
            yield (f"--samples {self.samples} are too few for --n-in {self.n_in}: whitened inputs need as many")
