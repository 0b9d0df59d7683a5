"""Hooks and metrics for the Trainer of transformers, as a callback.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[SuppleCallback(hooks=["fire@0.5"])])
    trainer.train()
    trainer.train(resume_from_checkpoint=True)      # the callback restores the state saved next to the checkpoint

The Trainer's loop does not change. It passes its optimizer, wrapped by accelerate, to callbacks when training begins.
The callback uses PyTorch's optimizer inside. During training, it looks at the batches that `Trainer.compute_loss`
receives. Steps are updates, regardless of gradient accumulation, over all Trainers that train the model.
"""

import copy
import sys
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

try:
    from transformers import PreTrainedModel, Trainer, TrainerCallback
except ImportError as error:
    raise ImportError("SuppleCallback needs transformers: pip install 'supple[language]'") from error

from supple.engine.storage import checkpoint
from supple.interventions import Learner
from supple.networks.causal import causal_learner
from supple.registry.errors import RunError

from .updates import Build, Recent, Updates

FOLDER = "supple"  # in a checkpoint of the Trainer
SHARDED = ("FSDP", "DEEPSPEED", "MEGATRON_LM")  # of accelerate's distributed types, those that divide the model


def make_learner(model: Any, optimizer: torch.optim.Optimizer, recent: Recent, loss: Callable[[], Tensor]) -> Learner:
    """Return the learner of a model of transformers, with or without adapters.

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
        learner: Build | None = None,
    ) -> None:
        """Create the callback.

        Args:
            hooks: Texts such as "fire@0.5" or "l2_init(strength=1e-3)". Fractions are of all planned updates.
            measure_every: Updates between measurements, which are added to `state.log_history`. 0: no measurements.
            events: A file to which each event is appended as a line of JSON.
            verbose: 1 prints a line for each event.
            learner: A function of the model, its optimizer and a function that returns the last training batch, which
                returns the learner. The default is for models of transformers, adapters included, with the Trainer's
                own loss.

        Raises:
            ValueError: The text of a hook is invalid. Hooks that do not work with the model raise when training starts.
        """
        build = learner or (lambda model, optimizer, recent: make_learner(model, optimizer, recent, self._loss))
        super().__init__(hooks, measure_every, events, verbose, build)
        self._trainer: Any = None  # during training

    def on_train_begin(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Attach to model and optimizer, and restore the saved state if training is resumed."""
        trainer, resumed = _find_trainer()
        if trainer.accelerator.mixed_precision == "fp16":
            raise ValueError("hooks cannot handle the scaled gradients of fp16: use bf16 or float32")
        kind = trainer.accelerator.distributed_type.value
        if kind in SHARDED or args.n_gpu > 1 or args.world_size > 1:
            raise ValueError(
                f"hooks need the whole model in one process on one GPU: train without FSDP and DeepSpeed (accelerate's "
                f"distributed_type is {kind}, with {args.n_gpu} GPUs in each of {args.world_size} processes)"
            )
        saved = None if resumed is None else _load_state(Path(resumed) / FOLDER)
        model, optimizer = objects["model"], objects["optimizer"]
        self.begin(model, getattr(optimizer, "optimizer", optimizer), state.max_steps, state.global_step, saved)
        self._release()  # a training that was interrupted
        self._trainer, self._compute_loss = trainer, trainer.compute_loss
        trainer.compute_loss = self._watch(trainer.compute_loss)

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Apply the hooks that act on the gradients, which are already clipped."""
        self.before_update()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        self.after_update()

    def on_step_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Apply the hooks that fire between two updates, and measure."""
        if numbers := self.reach(state.global_step):
            state.log_history.append({"step": state.global_step, "epoch": state.epoch, **numbers})

    def on_save(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Save the state of hooks and metrics next to the Trainer's checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}" / FOLDER
        checkpoint.save(folder, state.global_step, dict(self.state()), FOLDER)

    def on_train_end(self, args: Any, state: Any, control: Any, **objects: Any) -> None:
        """Release the Trainer, and warn about hooks that have not fired."""
        self._release()
        self.end()

    def _watch(self, compute_loss: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, which also stores its training batches."""

        def watched(model: nn.Module, inputs: Any, *args: Any, **more: Any) -> Any:
            if model.training:
                self._batch, self._more = copy.copy(inputs), dict(more)
                if more.get("num_items_in_batch") is not None:  # of all accumulated batches
                    count = self._trainer._get_num_items_in_batch([inputs], self._trainer.args.device)
                    self._more["num_items_in_batch"] = count
            return compute_loss(model, inputs, *args, **more)

        return watched

    def _loss(self) -> Tensor:
        """Return the Trainer's loss on the last batch."""
        value: Tensor = self._compute_loss(self.learner.module, copy.copy(self._batch), **self._more)
        return value

    def _release(self) -> None:
        if self._trainer is not None:
            self._trainer.compute_loss, self._trainer = self._compute_loss, None


def _find_trainer() -> tuple[Any, str | None]:
    """Return the Trainer that calls its callbacks, which it does not give to them, and the folder that it resumes."""
    frame: Any = sys._getframe()
    while not isinstance(frame.f_locals.get("self"), Trainer):
        frame = frame.f_back
    return frame.f_locals["self"], frame.f_locals.get("resume_from_checkpoint")


def _load_state(folder: Path) -> dict[str, Any]:
    """Return the state saved next to a checkpoint of the Trainer. Raises RunError if there is none."""
    places = checkpoint.folders_of(folder)
    if not places:
        raise RunError(f"{folder.parent} was saved without SuppleCallback, so its hooks cannot be resumed")
    return checkpoint.load(places[-1], FOLDER)
