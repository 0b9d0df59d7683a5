"""Hooks and metrics for Lightning, as a callback.

    callback = SuppleCallback(hooks=["fire@0.5", "l2_init(strength=1e-3)"])
    trainer = lightning.Trainer(max_epochs=10, callbacks=[callback])
    trainer.fit(module, data)                               # the callback's state is in Lightning's checkpoints

Lightning's loop does not change. Steps are its `global_step`, the number of optimizer steps.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
except ImportError as error:
    raise ImportError("SuppleCallback needs Lightning: pip install 'supple[lightning]'") from error

from supple.interventions import Learner, learner_for

from .updates import Build, Recent, Updates


class SuppleCallback(Updates, Callback):
    """A callback that intervenes in a LightningModule with one optimizer during training, and measures it."""

    def __init__(
        self,
        hooks: Sequence[str] = (),
        measure_every: int = 500,
        events: str | Path | None = None,
        verbose: int = 0,
        loss: Callable[[Any, Any], Tensor] | None = None,
        learner: Build | None = None,
    ) -> None:
        """Create the callback.

        Args:
            hooks: Texts such as "fire@0.5". Fractions are of all planned optimizer steps.
            measure_every: Steps between measurements, which the module logs. 0: no measurements.
            events: A file to which each event is appended as a line of JSON.
            verbose: 1 prints a line for each event.
            loss: Returns the training loss for (module, batch). With it, hooks and metrics use the units and gradients
                on the last batch, whose first part must be the input. By default, they only use the weights.
            learner: A function of the module, its optimizer and a function that returns the last batch, which returns
                the learner. By default, the learner is built from the module and `loss`.

        Raises:
            ValueError: The text of a hook is invalid. Hooks that do not suit the module raise when training starts.
        """
        super().__init__(hooks, measure_every, events, verbose, learner or _make_builder(loss))
        self._saved: dict[str, Any] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attach to module and optimizer, and restore the saved state if training is resumed."""
        if len(trainer.optimizers) != 1 or not pl_module.automatic_optimization:
            raise ValueError(
                f"SuppleCallback needs one optimizer and automatic optimization, but {type(pl_module).__name__} has "
                f"{len(trainer.optimizers)}, and automatic_optimization is {pl_module.automatic_optimization}"
            )
        sharded = isinstance(trainer.strategy, DeepSpeedStrategy | FSDPStrategy | ModelParallelStrategy)
        if trainer.world_size > 1 or sharded:
            raise ValueError(
                f"hooks need the whole model in one process, not {type(trainer.strategy).__name__} in "
                f"{trainer.world_size}: train with devices=1, strategy='auto'"
            )
        if trainer.precision == "16-mixed":
            raise ValueError("hooks cannot handle the scaled gradients of precision 16-mixed: use bf16-mixed or 32")
        total = trainer.estimated_stepping_batches
        if not isfinite(total):
            raise ValueError("hooks need the number of planned steps: set max_steps or max_epochs of the Trainer")
        self.begin(pl_module, trainer.optimizers[0], int(total), trainer.global_step, self._saved)
        self._saved = None
        self._reached = trainer.global_step

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._batch = batch

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        """Apply the hooks that act on the gradients, before these are clipped."""
        self.before_update()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Apply the hooks that follow an update or fire between two updates, and measure."""
        if trainer.global_step == self._reached:  # gradients are accumulated
            return
        self._reached = trainer.global_step
        self.after_update()
        pl_module.log_dict(self.reach(self._reached))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.end()

    def state_dict(self) -> dict[str, Any]:
        """Return the state of hooks and metrics, for Lightning's checkpoint."""
        return dict(self.state()) if hasattr(self, "learner") else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Store a state that `state_dict` returned, to be restored when training starts."""
        self._saved = state or None


def _make_builder(loss: Callable[[Any, Any], Tensor] | None) -> Build:
    def build(module: nn.Module, optimizer: torch.optim.Optimizer, recent: Recent) -> Learner:
        if loss is None:
            return learner_for(module, optimizer)

        def probe() -> tuple[Tensor, ...] | None:
            batch = recent()
            return None if batch is None else (batch[0] if isinstance(batch, (list, tuple)) else batch,)

        return learner_for(module, optimizer, probe=probe, loss=lambda: loss(module, recent()))

    return build
