"""Hooks and metrics for the Trainer of transformers, as a callback.

    trainer = Trainer(model, args, train_dataset=data, callbacks=[SuppleCallback(hooks=["fire@0.5"])])
    trainer.train()
    trainer.train(resume_from_checkpoint=True)      # the callback goes on from what it saved beside the checkpoint

Trainer's loop stays as it is. It makes its optimizer after its callbacks are made, and gives it to them when training
begins, wrapped by accelerate: there the callback takes it, and PyTorch's own optimizer inside. Batches are seen on
their way into the model. Steps are the Trainer's: updates, whatever is accumulated for each.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("SuppleCallback needs transformers: pip install 'supple[language]'") from error

from ..experiments import checkpoint, typed
from ..experiments.errors import RunError
from ..experiments.hooks import HookDriver
from ..interventions import Learner
from ..metrics import measure
from ..networks.causal import causal_learner
from .shared import Events, add_penalty, check, read

FOLDER = "supple"  # in a checkpoint of the Trainer
Recent = Callable[
    [], Mapping[str, Tensor] | None
]  # the last batch, as the model was given it; None before there is one


class State(TypedDict):
    """Name what the callback saves beside a checkpoint."""

    initial: dict[str, Any]
    marked: dict[str, Any] | None
    generator: Any
    hooks: dict[str, Any]
    switches: int
    switching: bool


class SuppleCallback(TrainerCallback):
    """Intervenes in a model while a Trainer trains it, and measures it.

    Attributes
    ----------
    learner: what hooks act on and metrics look at; from the beginning of training on. Parameters "at step 0" are those
        that the model had when training began, before any checkpoint.
    events: what was done, in order, as `events.jsonl` of a run has it.
    """

    learner: Learner

    def __init__(
        self,
        hooks: Sequence[str] = (),
        measure_every: int = 500,
        events: str | Path | None = None,
        verbose: int = 0,
        learner: Callable[[nn.Module, torch.optim.Optimizer, Recent], Learner] | None = None,
    ) -> None:
        """hooks: texts such as "fire@0.5" or "l2_init(strength=1e-3)"; fractions are of all updates that are planned.
        measure_every: updates between two measurements, which go to `state.log_history`; 0: none.
        events: a file to which each event is appended as a line of JSON. verbose: 1 prints a line for each event.
        learner: builds what hooks and metrics see, of a model that is no causal language model: see `Learner`.

        Raises ValueError, in one line, for a text that is no hook; for one that cannot work with the model, when
        training starts.
        """
        if measure_every < 0:
            raise ValueError(f"measure_every must be 0 or more updates, got {measure_every}")
        self.hooks = read(hooks)
        self.measure_every = measure_every
        self.events = Events(events, verbose > 0)
        self._build = of_causal if learner is None else learner
        self._batch: dict[str, Tensor] | None = None
        self._switches, self._switching = 0, False
        self._taps: list[Any] = []

    def new_task(self) -> None:
        """Say that the data are others from now on: hooks with @task act before they are learned from."""
        self._switching = True

    # -- the Trainer's events -------------------------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Take hold of model and optimizer, and of what was saved where training goes on."""
        self._refuse(args)
        model, optimizer = given["model"], given["optimizer"]
        self.learner = self._build(model, getattr(optimizer, "optimizer", optimizer), lambda: self._batch)
        self.events.begin()
        begins = state.global_step == 0
        check(self.hooks, state.max_steps, 0, self.measure_every > 0, begins)
        self._driver = HookDriver(self.hooks, {self.learner.name: self.learner}, self.events.log, state.max_steps)
        self._step = state.global_step
        self._taps = [model.register_forward_pre_hook(self._see, with_kwargs=True)]
        if begins:
            self._driver.passed(-1, 0)
            self.learner.mark()
        else:
            self._load(_beside(args, state))

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let hooks act on the gradients, clipped as they are."""
        if self._driver.penalizes:
            add_penalty(self._driver, self.learner)
        self._driver.before_update(self.learner)

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let hooks act that follow every update."""
        self._driver.after_update(self.learner)

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let hooks act that are due between two updates, and measure."""
        previous, self._step = self._step, state.global_step
        if self._switching:
            self._switches, self._switching = self._switches + 1, False
            self._driver.switched(self._step, self._switches)
        self._driver.passed(previous, self._step)
        if self.measure_every and self._step // self.measure_every > previous // self.measure_every:
            self._measure(state)

    def on_save(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Save what hooks remember, beside the Trainer's checkpoint."""
        learner = self.learner
        tree = State(
            initial=learner.initial, marked=learner.marked, generator=learner.generator.get_state(),
            hooks=self._driver.state_dict(), switches=self._switches, switching=self._switching,
        )  # fmt: skip
        checkpoint.save(_beside(args, state), state.global_step, dict(tree), FOLDER)

    def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """Let go of the model."""
        while self._taps:
            self._taps.pop().remove()

    # -- what is done ---------------------------------------------------------------------------------------------

    def _refuse(self, args: Any) -> None:
        for hook in self.hooks:
            if hook.intervention.has("restructure"):
                raise ValueError(
                    f"{hook.text}: exchanges parts of the network or its optimizer, which Trainer holds on its own: "
                    f"change them before training"
                )
        if args.fp16:
            raise ValueError("fp16 scales its gradients, which hooks would not know: use bf16 or float32")
        if getattr(args, "fsdp", None) or getattr(args, "deepspeed", None) or args.n_gpu > 1:
            raise ValueError("the model is spread over several processes or GPUs: hooks need all of it in one place")

    def _see(self, module: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        """Keep the batch that is trained on."""
        if module.training:
            self._batch = {name: value.detach() for name, value in given.items() if isinstance(value, Tensor)}

    def _measure(self, state: Any) -> None:
        learner, training = self.learner, self.learner.module.training
        numbers = {f"{learner.name}/{name}": value for name, value in measure(learner, per_layer=True).items()}
        learner.mark()
        learner.module.train(training)
        named = {f"{FOLDER}/{name}": value for name, value in numbers.items()}
        state.log_history.append({"step": self._step, "epoch": state.epoch, **named})
        self._driver.measured(self._step, numbers)

    def _load(self, folder: Path) -> None:
        """Go on from what was saved beside a checkpoint of the Trainer. Raises RunError where there is nothing."""
        places = checkpoint.folders_of(folder)
        if not places:
            raise RunError(
                f"{folder.parent} was saved without SuppleCallback: there is nothing that it could go on from"
            )
        tree: State = typed.fitted(checkpoint.load(places[-1], FOLDER), State, "state")
        device = next(self.learner.module.parameters()).device
        self.learner.initial = {name: value.to(device) for name, value in tree["initial"].items()}
        marked = tree["marked"]
        self.learner.marked = None if marked is None else {name: value.to(device) for name, value in marked.items()}
        self.learner.generator.set_state(tree["generator"])
        self._driver.load_state_dict(tree["hooks"])
        self._switches, self._switching = tree["switches"], tree["switching"]


def of_causal(model: nn.Module, optimizer: torch.optim.Optimizer, recent: Recent) -> Learner:
    """Return what hooks and metrics see of a causal language model. Raises ValueError for a model that is none."""

    def probe() -> tuple[Tensor, ...] | None:
        batch = recent()
        return None if batch is None else tuple(batch[n] for n in ("input_ids", "attention_mask") if n in batch)

    def loss() -> Tensor:
        batch = recent()
        assert batch is not None
        found: Tensor = model(**batch).loss
        return found

    return causal_learner(model, optimizer, probe=probe, loss=loss, generator=torch.Generator().manual_seed(0))


def _beside(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / FOLDER
