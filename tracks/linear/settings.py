"""The settings for training a deep linear network on a sequence of tasks."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from supple.engine.settings import Device, Groups
from supple.registry.schema import NotNegative, Positive, most
from supple.tracks.settings import TrackSettings

from .sequence import names_of

MOST = 10**9  # of the initial weights' scale, far above which their product is no number


@dataclass(kw_only=True)
class LinearSettings(TrackSettings):
    tasks: str = "semantic"
    """Tasks in order, separated by commas: random (a new regression each time), semantic (the hierarchy of eight
    items), or a change of the task before: reversal (of its largest singular vector), scaled (doubled), feature (an
    item gets a feature that it lacks)."""
    n_in: Positive[int] = 8
    """Number of inputs."""
    n_hidden: Positive[int] = 8
    """Number of hidden units."""
    n_out: Positive[int] = 8
    """Number of outputs."""
    samples: Positive[int] = 32
    """Examples of a random task."""
    lam: float = 0.0
    """λ of the initial weights, W₂ᵀW₂ − W₁W₁ᵀ = λI: above 0 the second layer is the larger one. At λ = 0 a square
    network slows down near a saddle if the sign of det W₂W₁ has to change, as after reversal."""
    init_scale: Annotated[Positive[float], most(MOST)] = 0.1
    """Standard deviation σ of the Gaussian matrices whose product the initial network computes (Algorithm 1)."""
    updates_per_task: Positive[int] = 1_000
    """Updates (full-batch gradient descent) per task."""
    learning_rate: Positive[float] = 0.05
    """Learning rate of full-batch gradient descent. One update is this much time of the gradient flow, in τ."""
    device: Device = "cpu"
    """auto (a CUDA GPU if there is one), cpu or cuda. These networks are small: a CPU is faster."""
    measure_every: Positive[int] = 250
    """Updates between measurements of the network (srank, dormancy, norms, …)."""
    eval_every: NotNegative[int] = 10
    """Updates between evaluations; 0: only at the start and end of each task."""

    groups: ClassVar[Groups] = {
        "task": ("tasks", "samples", "updates_per_task"),
        "network": ("n_in", "n_hidden", "n_out", "lam", "init_scale"),
    }

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        names = names_of(self.tasks)
        if "semantic" in names and (self.n_in, self.n_out) != (8, 8):
            yield (
                f"--tasks {self.tasks}: the hierarchy has 8 items and 8 features, the network {self.n_in} inputs and "
                f"{self.n_out} outputs: give --n-in 8 --n-out 8"
            )
        if "random" in names and self.samples < self.n_in:
            yield f"--samples {self.samples} are too few for --n-in {self.n_in}: whitened inputs need as many"
