"""Hooks and metrics for Lightning, as a callback.

    callback = SuppleCallback(hooks=["fire@0.5", "l2_init(strength=1e-3)"])
    trainer = lightning.Trainer(max_epochs=10, callbacks=[callback])
    trainer.fit(module, data)                               # the callback's state is in Lightning's checkpoints

Lightning's loop stays as it is. Steps are its `global_step`: optimizer steps.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as error:
    raise ImportError("SuppleCallback needs Lightning: pip install 'supple[lightning]'") from error

from ..interventions import Learner, learner_for
from .updates import Build, Recent, Updates


class SuppleCallback(Updates, Callback):
    """Intervenes in a LightningModule with one optimizer while it is fitted, and measures it."""

    def __init__(
        self,
        hooks: Sequence[str] = (),
        measure_every: int = 500,
        events: str | Path | None = None,
        verbose: int = 0,
        loss: Callable[[Any, Any], Tensor] | None = None,
        learner: Build | None = None,
    ) -> None:
        """hooks: texts such as "fire@0.5"; fractions are of all optimizer steps that are planned.
        measure_every: steps between two measurements, which are logged as the module's; 0: none.
        events: a file to which each event is appended as a line of JSON. verbose: 1 prints a line for each event.
        loss: returns the training loss of (module, batch). With it, units and gradients are measured on the last batch,
            of which the first part is the input; without it, weights are all that hooks and metrics see.
        learner: builds what they see by itself: it is given the module, its optimizer, and what returns the last batch.

        Raises ValueError, in one line, for a text that is no hook; for one that cannot work with the module, when
        training starts.
        """
        super().__init__(hooks, measure_every, events, verbose, learner or _of_module(loss))
        self._saved: dict[str, Any] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take hold of module and optimizer, and of what was saved where training goes on."""
        if len(trainer.optimizers) != 1:
            raise ValueError(
                f"SuppleCallback is for one optimizer; {type(pl_module).__name__} has {len(trainer.optimizers)}"
            )
        if trainer.world_size > 1:
            raise ValueError("the model is spread over several processes: hooks need all of it in one place")
        if trainer.precision == "16-mixed":
            raise ValueError("16-mixed scales its gradients, which hooks would not know: use bf16-mixed or 32")
        total = trainer.estimated_stepping_batches
        if not isfinite(total):
            raise ValueError("hooks need the number of steps that are planned: Trainer(max_steps=…) or max_epochs")
        self.begin(pl_module, trainer.optimizers[0], int(total), trainer.global_step, self._saved)
        self._reached = trainer.global_step

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Keep the batch that is trained on."""
        self._batch = batch

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        """Let hooks act on the gradients, before they are clipped."""
        self.before_update()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Let hooks act that follow an update, or are due between two, and measure."""
        if trainer.global_step == self._reached:  # gradients are accumulated
            return
        self._reached = trainer.global_step
        self.after_update()
        pl_module.log_dict(self.reach(self._reached))

    def state_dict(self) -> dict[str, Any]:
        """Return what hooks remember, for Lightning's checkpoint."""
        return dict(self.state()) if hasattr(self, "learner") else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave, when training starts."""
        self._saved = state or None


def _of_module(loss: Callable[[Any, Any], Tensor] | None) -> Build:
    def build(module: nn.Module, optimizer: torch.optim.Optimizer, recent: Recent) -> Learner:
        if loss is None:
            return learner_for(module, optimizer)

        def probe() -> tuple[Tensor, ...] | None:
            batch = recent()
            return None if batch is None else (batch[0] if isinstance(batch, (list, tuple)) else batch,)

        return learner_for(module, optimizer, probe=probe, loss=lambda: loss(module, recent()))

    return build
