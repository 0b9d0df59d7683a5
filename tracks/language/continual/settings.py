"""The settings of continual learning. Their defaults are those of MoRAM's CLIP experiments (A.1)."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import tyro

from supple.engine.settings import Groups
from supple.interventions import Intervention, parse_hook
from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative, Positive, PositiveShare
from supple.tracks.language.settings import LanguageSettings

Method = Literal["moram", "seqlora", "inclora", "moe-lora", "external-router", "o-lora", "ewc", "full"]
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")]

UPDATES = 500  # of a task, where nothing is said (A.1)
PRUNABLE = ("moram", "external-router")  # methods whose atoms have weights of their own


def names_of(value: Any) -> Any:
    """Return the names in one or several texts, each with names separated by commas. Others values stay as they are."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return value
    return tuple(filter(None, (name.strip() for text in texts for name in text.split(","))))


@dataclass(kw_only=True)
class ContinualSettings(LanguageSettings):
    model: Annotated[str, tyro.conf.arg(metavar="MODEL")] = ""
    """Model to train: a folder in transformers' layout, a .gguf file, smollm2, or OWNER/NAME on the hub; a causal
    language model or a CLIP model. For trials with random weights: llama:WIDTHxLAYERS, clip:small."""
    tasks: Annotated[tuple[str, ...], names_of, tyro.conf.arg(metavar="NAMES")] = ()
    """Tasks in order: a,b or a b. Text: reasoning-gym:NAME, a folder of TRACE, a JSON Lines file. Images: domains such
    as fashion-mnist:shoes+inverted or folder:DIR (default: six tasks of reasoning-gym, or five domains)."""
    order: str = ""
    """Order of the tasks, as numbers from 0: "2,0,1" (default: as given)."""
    method: Method = "moram"
    """moram, seqlora, inclora, moe-lora, external-router, o-lora, ewc (seqlora with the hook ewc), or full (no
    adapters: all weights are trained)."""
    targets: Names = ("all-linear",)
    """Linear layers that get an adapter: endings of their names (q_proj v_proj), one regular expression for whole
    names in slashes (/.*mlp.*/), or all-linear for all but the head."""
    r: Positive[int] = 16
    """Number of atoms (rank) that each task adds."""
    k: Positive[int] | None = 16
    """Number of atoms, of all tasks, that a token may use (moram, external-router); None: all."""
    tau: Positive[float] | None = 0.1
    """Temperature of the softmax of moram; None: 1."""
    delta: float | None = 0.2
    """Scores below this value count as 0 outside training (moram); None: no threshold."""
    experts: Positive[int] | None = None
    """Number of LoRAs that a token may use (moe-lora; default: all)."""
    lora_alpha: Positive[float] | None = None
    """The adapters of seqlora, inclora, o-lora and ewc are scaled by lora_alpha / r (default: r, a factor of 1)."""
    ewc_strength: NotNegative[float] = 50.0
    """λ of ewc, unless a hook with this name is given."""
    o_lora_strength: NotNegative[float] = 0.5
    """Weight λ of the orthogonality penalty of o-lora."""
    updates_per_task: Positive[int] | None = None
    """Updates per task (default: 500)."""
    epochs: tuple[Positive[int], ...] = ()
    """Length in epochs of each task's training data instead: one number, or one per task in the order of --tasks.
    Images are drawn independently for each update."""
    learning_rate: Positive[float] = 5e-4
    weight_decay: NotNegative[float] = 0.01
    """AdamW's weight decay of all trained parameters (PyTorch's default; the paper gives none)."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Learning rate over a task: constant, or a cosine to 0 (the paper does not say for CLIP and TRACE)."""
    batch_size: Positive[int] = 64
    """Examples per update."""
    eval_batch: Positive[int] = 32
    """Examples per batch in tests of text."""
    max_length: Positive[int] = 1024
    """Maximum tokens of a prompt with its answer (text)."""
    max_new_tokens: Positive[int] = 64
    """Maximum tokens of a generated answer (text)."""
    train_examples: Positive[int] | None = None
    """Maximum training examples per task (text; default: all, or 1000 of a reasoning-gym task)."""
    test_examples: Positive[int] | None = None
    """Maximum test examples per task (default: all, or 200 of a reasoning-gym task)."""
    shots: Positive[int] | None = None
    """Training images per class (images; default: 16 for X-TAIL, 5 for MTIL)."""
    prompts: Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT")] = ()
    """Prompts with {} for the name of a class (images). The first is used in training; tests average the features of
    all (default: "a photo of the {}.")."""
    protocol: Literal["x-tail", "mtil"] = "x-tail"
    """Classes that compete in a test of images: those of all domains, or those of the image's own domain."""
    data: Annotated[str | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder with the image data in folders of their names (default: where `supple fetch` puts them)."""
    eval_every: NotNegative[int] = 0
    """Updates between tests on the current task; 0: only at the start and end of each task."""
    eval_examples: Positive[int] = 64
    """Test examples in these tests. At the end of a task, all tasks are tested on all their test examples."""
    prune: PositiveShare | None = None
    """After each task, keep only the atoms that carry this share of the activation mass (Table 19: 0.99; moram,
    external-router; default: keep all)."""
    activation_maps: bool = False
    """Save with the adapters how much the inputs of each task use each atom (Figure 5; moram, external-router). It
    takes one more pass over all training data."""

    groups: ClassVar[Groups] = {
        "task": (
            "tasks", "order", "updates_per_task", "epochs", "max_length", "train_examples", "shots", "prompts",
            "protocol", "data",
        ),
        "network": ("model", "method", "targets", "r", "k", "tau", "delta", "experts", "lora_alpha", "prune"),
        "measuring": ("eval_batch", "max_new_tokens", "test_examples", "eval_examples"),
        "output": ("activation_maps",),
    }  # fmt: skip

    @property
    def kind(self) -> str:
        """The kind of adapters, as `adapters.maker` calls it."""
        return {"ewc": "seqlora", "o-lora": "olora"}.get(self.method, self.method.replace("-", "_"))

    @property
    def adapter(self) -> dict[str, Any]:
        """The parameters of an adapter of this method."""
        by_method: dict[str, dict[str, Any]] = {
            "moram": {"k": self.k, "tau": self.tau, "delta": self.delta},
            "external-router": {"k": self.k},
            "moe-lora": {"k": self.experts},
            "o-lora": {"alpha": self.lora_alpha, "strength": self.o_lora_strength},
        }
        return {"r": self.r, **by_method.get(self.method, {"alpha": self.lora_alpha})}

    @property
    def layers(self) -> str | tuple[str, ...]:
        """The targets in the form of `adapters.wrap`."""
        (first, *more) = self.targets
        if more:
            return self.targets
        if len(first) > 2 and first.startswith("/") and first.endswith("/"):
            return first[1:-1]
        return first if first == "all-linear" else (first,)

    def updates(self, place: int, per_epoch: int) -> int:
        """Return the number of updates on the task at a position in --tasks. per_epoch: batches per epoch."""
        if not self.epochs:
            return self.updates_per_task or UPDATES
        return per_epoch * self.epochs[place if len(self.epochs) > 1 else 0]

    def permutation(self, tasks: int) -> tuple[int, ...]:
        """Return positions in --tasks in the order of learning. Raises UsageError if --order is no permutation."""
        places = self.order.replace(" ", "").split(",") if self.order else [str(i) for i in range(tasks)]
        if sorted(places) != sorted(str(i) for i in range(tasks)):
            raise UsageError(
                f'--order must have each number from 0 to {tasks - 1} once, such as "1,0", got "{self.order}"'
            )
        return tuple(map(int, places))

    def order_tasks(self, tasks: tuple[str, ...]) -> tuple[str, ...]:
        """Return these tasks in the order of learning."""
        if len(set(tasks)) < len(tasks):
            raise UsageError(f"--tasks names one twice: {', '.join(tasks)}")
        if len(self.epochs) > 1 and len(self.epochs) != len(tasks):
            raise UsageError(
                f"--epochs must be one number, or one for each of {len(tasks)} tasks, got {len(self.epochs)}"
            )
        return tuple(tasks[place] for place in self.permutation(len(tasks)))

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.model:
            yield "--model is missing: a pre-trained model, such as a folder or smollm2"
        if self.epochs and self.updates_per_task is not None:
            yield "--epochs and --updates-per-task do not go together: give one of them"
        if not self.targets:
            yield "--targets is empty: name layers, or all-linear"
        if self.method not in PRUNABLE and (self.prune is not None or self.activation_maps):
            option = "--prune" if self.prune is not None else "--activation-maps"
            yield f"{option} goes with --method {' or '.join(PRUNABLE)}, not with {self.method}"

    def _interventions(self) -> Iterator[tuple[str, Intervention]]:
        """Yield the text of each hook with its intervention. The run's driver says what is wrong with others."""
        for text in self.hook:
            with suppress(ValueError):
                if hook := parse_hook(text):
                    yield text, hook.intervention

    @property
    def own_hooks(self) -> tuple[str, ...]:
        """The hooks that the method adds itself."""
        given = self.method != "ewc" or any(method.name == "ewc" for _, method in self._interventions())
        return () if given else (f"ewc(strength={self.ewc_strength})",)

    def check_hooks(self) -> None:
        """Raise UsageError for hooks that change what checkpoints of this run do not contain.

        These are the frozen weights and the architecture. `rebalance` writes adapters alone, those of which A and B are
        free, and refuses all others."""
        for text, method in self._interventions():
            if method.has("restructure"):
                raise UsageError(
                    f"--hook {text}: {method.name} changes the network or its optimizer, and so does each task"
                )
            rewrites = method.name != "rebalance" and any(map(method.has, ("apply", "before_update", "after_update")))
            if self.method != "full" and rewrites:
                raise UsageError(
                    f"--hook {text}: {method.name} rewrites the model's weights, which --method {self.method} freezes: "
                    "use it with --method full"
                )
