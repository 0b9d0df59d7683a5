"""Hooks and metrics for the Trainer of transformers, as a callback.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[SuppleCallback(hooks=["fire@0.5"])])
    trainer.train()
    trainer.train(resume_from_checkpoint=True)      # the callback goes on from what it saved beside the checkpoint

Trainer's loop stays as it is. It makes its optimizer after its callbacks are made, and gives it to them when training
begins, wrapped by accelerate: there the callback takes it, and PyTorch's own optimizer inside. Batches are seen on
their way into the model. Steps are the Trainer's: updates, whatever is accumulated for each.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("SuppleCallback needs transformers: pip install 'supple[language]'") from error

from ..experiments import checkpoint
from ..experiments.errors import RunError
from ..interventions import Learner
from ..networks.causal import causal_learner
from .updates import Build, Recent, Updates

FOLDER = "supple"  # in a checkpoint of the Trainer


def of_causal(model: nn.Module, optimizer: torch.optim.Optimizer, recent: Recent) -> Learner:
    """Return what hooks and metrics see of a causal language model. Raises ValueError for a model that is none."""

    def probe() -> tuple[Tensor, ...] | None:
        batch = recent()
        return None if batch is None else tuple(batch[n] for n in ("input_ids", "attention_mask") if n in batch)

    def loss() -> Tensor:
        found: Tensor = model(**recent()).loss
        return found

    return causal_learner(model, optimizer, probe=probe, loss=loss, generator=torch.Generator().manual_seed(0))


class SuppleCallback(Updates, TrainerCallback):
    """Intervenes in a model while a Trainer trains it, and measures it."""

    def __init__(
        self,
        hooks: Sequence[str] = (),
        measure_every: int = 500,
        events: str | Path | None = None,
        verbose: int = 0,
        learner: Build = of_causal,
    ) -> None:
        """hooks: texts such as "fire@0.5" or "l2_init(strength=1e-3)"; fractions are of all updates that are planned.
        measure_every: updates between two measurements, which go to `state.log_history`; 0: none.
        events: a file to which each event is appended as a line of JSON. verbose: 1 prints a line for each event.
        learner: builds what hooks and metrics see of a model that is no causal language model: it is given the model,
            its optimizer, and what returns the last batch as the model was given it.

        Raises ValueError, in one line, for a text that is no hook; for one that cannot work with the model, when
        training starts.
        """
        super().__init__(hooks, measure_every, events, verbose, learner)
        self._taps: list[Any] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Take hold of model and optimizer, and of what was saved where training goes on."""
        if args.fp16:
            raise ValueError("fp16 scales its gradients, which hooks would not know: use bf16 or float32")
        if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None) or args.n_gpu > 1 or args.world_size > 1:
            raise ValueError("the model is spread over several processes or GPUs: hooks need all of it in one place")
        step, model, optimizer = state.global_step, given["model"], given["optimizer"]
        saved = _saved(_beside(args, state)) if step else None
        self.begin(model, getattr(optimizer, "optimizer", optimizer), state.max_steps, step, saved)
        self._taps = [model.register_forward_pre_hook(self._see, with_kwargs=True)]

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let hooks act on the gradients, clipped as they are."""
        self.before_update()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let hooks act that follow every update."""
        self.after_update()

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let hooks act that are due between two updates, and measure."""
        if numbers := self.reach(state.global_step):
            state.log_history.append({"step": state.global_step, "epoch": state.epoch, **numbers})

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Save what hooks remember, beside the Trainer's checkpoint."""
        checkpoint.save(_beside(args, state), state.global_step, dict(self.state()), FOLDER)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let go of the model."""
        while self._taps:
            self._taps.pop().remove()

    def _see(self, module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """Keep the batch that is trained on."""
        if module.training:
            self._batch = {name: value.detach() for name, value in given.items() if isinstance(value, Tensor)}


def _beside(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / FOLDER


def _saved(folder: Path) -> dict[str, Any]:
    """Return what was saved beside a checkpoint of the Trainer. Raises RunError where there is nothing."""
    places = checkpoint.folders_of(folder)
    if not places:
        raise RunError(f"{folder.parent} was saved without SuppleCallback, which has nothing to go on from")
    return checkpoint.load(places[-1], FOLDER)
