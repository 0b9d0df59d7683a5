"""Hooks and metrics for the Trainer of transformers, as a callback.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[SuppleCallback(hooks=["fire@0.5"])])
    trainer.train()
    trainer.train(resume_from_checkpoint=True)      # the callback restores the state saved next to the checkpoint

The Trainer's loop does not change. It passes its optimizer, wrapped by accelerate, to callbacks when training begins.
The callback uses PyTorch's optimizer inside. A forward pre-hook of the model provides the batches. Steps are those of
the Trainer: updates, regardless of gradient accumulation.
"""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

try:
    from transformers import PreTrainedModel, TrainerCallback
except ImportError as error:
    raise ImportError("SuppleCallback needs transformers: pip install 'supple[language]'") from error

from ..engine.storage import checkpoint
from ..interventions import Learner
from ..networks.causal import causal_learner
from ..registry.errors import RunError
from .updates import Build, Recent, Updates

FOLDER = "supple"  # in a checkpoint of the Trainer


def make_learner(model: Any, optimizer: torch.optim.Optimizer, recent: Recent) -> Learner:
    """Return the learner of a model of transformers, with or without adapters, whose outputs have a loss.

    The inputs to measure on are those of the last training batch without the labels, which an encoder-decoder needs,
    too, for the inputs of its decoder. Raises ValueError for other models.
    """
    inner: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    if not isinstance(inner, PreTrainedModel):
        raise ValueError(
            f"{type(model).__name__} is no model of transformers, so give a function that builds its learner: "
            "SuppleCallback(learner=…)"
        )
    labels = () if inner.config.is_encoder_decoder else ("labels", "label_ids", "label")
    order = _argument_names(model.forward) or _argument_names(inner.forward)

    def probe() -> tuple[Any, ...] | None:
        batch = recent()
        if batch is None:
            return None
        inputs = {name: value for name, value in batch.items() if name in order and name not in labels}
        last = max(map(order.index, inputs), default=-1)
        return tuple(inputs.get(name) for name in order[: last + 1])

    def loss() -> Tensor:
        value: Tensor = model(**recent()).loss
        return value

    return causal_learner(model, optimizer, probe=probe, loss=loss, generator=torch.Generator().manual_seed(0))


def _argument_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of a function's arguments, but not of those that take any number of values."""
    kinds = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return [name for name, parameter in signature(function).parameters.items() if parameter.kind not in kinds]


class SuppleCallback(Updates, TrainerCallback):
    """A callback that intervenes in a model while a Trainer trains it, and measures it."""

    def __init__(
        self,
        hooks: Sequence[str] = (),
        measure_every: int = 500,
        events: str | Path | None = None,
        verbose: int = 0,
        learner: Build = make_learner,
    ) -> None:
        """Create the callback.

        Args:
            hooks: Texts such as "fire@0.5" or "l2_init(strength=1e-3)". Fractions are of all planned updates.
            measure_every: Updates between measurements, which are added to `state.log_history`. 0: no measurements.
            events: A file to which each event is appended as a line of JSON.
            verbose: 1 prints a line for each event.
            learner: A function of the model, its optimizer and a function that returns the model's last training
                inputs, which returns the learner. The default is for models of transformers, adapters included.

        Raises:
            ValueError: The text of a hook is invalid. Hooks that do not work with the model raise when training starts.
        """
        super().__init__(hooks, measure_every, events, verbose, learner)
        self._taps: list[Any] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Attach to model and optimizer, and restore the saved state if training is resumed."""
        if args.fp16:
            raise ValueError("hooks cannot handle the scaled gradients of fp16: use bf16 or float32")
        if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None) or args.n_gpu > 1 or args.world_size > 1:
            raise ValueError("hooks need the whole model in one process on one GPU: train without FSDP and DeepSpeed")
        step, model, optimizer = state.global_step, objects["model"], objects["optimizer"]
        saved = _load_state(_state_folder(args, state)) if step else None
        self.begin(model, getattr(optimizer, "optimizer", optimizer), state.max_steps, step, saved)
        self._taps = [model.register_forward_pre_hook(self._see, with_kwargs=True)]

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Apply the hooks that act on the gradients, which are already clipped."""
        self.before_update()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Apply the hooks that follow every update."""
        self.after_update()

    def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Apply the hooks that fire between two updates, and measure."""
        if numbers := self.reach(state.global_step):
            state.log_history.append({"step": state.global_step, "epoch": state.epoch, **numbers})

    def on_save(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Save the state of hooks and metrics next to the Trainer's checkpoint."""
        checkpoint.save(_state_folder(args, state), state.global_step, dict(self.state()), FOLDER)

    def on_train_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Remove the forward pre-hook from the model, and warn about hooks that have not fired."""
        while self._taps:
            self._taps.pop().remove()
        self.end()

    def _see(self, module: nn.Module, args: tuple[Any, ...], batch: dict[str, Any]) -> None:
        """Store the current training batch."""
        if module.training:
            self._batch = {name: value.detach() for name, value in batch.items() if isinstance(value, Tensor)}


def _state_folder(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / FOLDER


def _load_state(folder: Path) -> dict[str, Any]:
    """Return the state saved next to a checkpoint of the Trainer. Raises RunError if there is none."""
    places = checkpoint.folders_of(folder)
    if not places:
        raise RunError(f"{folder.parent} was saved without SuppleCallback, so its hooks cannot be resumed")
    return checkpoint.load(places[-1], FOLDER)
