"""The settings of vision runs. `supple train vision BENCHMARK` starts from a benchmark's, which options override."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import tyro

from supple.engine.settings import MOST_TASKS, Groups, Interval, RunSettings, Seeds, SeedsOption, seed_problems
from supple.registry.schema import BelowOne, NotNegative, Positive, PositiveShare, most
from supple.tracks.settings import TrackSettings

StreamKind = Literal["permuted", "random-labels", "pairs", "alternating", "split", "chunks", "classes"]
OF_CLASSES = ("pairs", "alternating", "split", "classes")  # streams
NetworkName = Literal["mlp", "cnn", "convnet", "resnet18", "vgg16", "vit-tiny"]


@dataclass(kw_only=True)
class VisionSettings(TrackSettings):
    dataset: Annotated[str, tyro.conf.arg(metavar="NAME")] = "mnist"
    """mnist, fashion-mnist, cifar-10, cifar-100, tiny-imagenet, imagenet-32, or folder (image folders in --data)."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder with the files of the data set (default: where `supple fetch` puts them)."""
    stream: StreamKind = "permuted"
    """Change from task to task: permuted pixels, random labels, pairs of classes, alternating (5 classes, then 1),
    split (some classes each), chunks (growing shares of the data), classes (all seen so far)."""
    tasks: Annotated[Positive[int], most(MOST_TASKS)] = 500
    """Number of tasks."""
    images: Positive[int] | None = None
    """Training images per task with permuted pixels or random labels (default: all)."""
    images_per_class: Positive[int] | None = None
    """Training images per class, if tasks consist of classes (default: as many as the smallest class has)."""
    classes_per_task: Positive[int] = 5
    """Classes that each task adds, if tasks consist of classes."""
    shares: tuple[PositiveShare, ...] = (0.1, 1.0)
    """Share of the data that each task of a stream of chunks contains."""
    epochs: Positive[float] = 1.0
    """Epochs over the images of a task."""
    first_epochs: Positive[float] | None = None
    """Epochs over the images of the first task (default: --epochs)."""
    updates_per_task: Positive[int] | None = None
    """Updates per task instead of --epochs."""
    network: NetworkName = "mlp"
    """mlp, cnn (Lillo & Cheney 2025), convnet (of its case studies), resnet18, vgg16 (with batch norm), vit-tiny."""
    width: Positive[int] | None = None
    """Width of the network: units of a hidden layer, or channels of the first layer (default: as published)."""
    activation: str = "relu"
    """Activation, with optional parameters: relu, "leaky_relu(negative_slope=0.6)" (see `supple list activations`)."""
    init_lambda: float | None = None
    """Scale the initial weights of the mlp so that ‖outgoing‖² − ‖incoming‖² = λ for every hidden unit (default: no
    scaling)."""
    seeds: SeedsOption = ()
    """Seeds to train side by side, 0 1 2 or 0-4. Small networks are trained as one stack, with the results of
    separate runs (default: --seed alone)."""
    batch_size: Positive[int] = 16
    """Images per update and seed."""
    learning_rate: Positive[float] = 1e-3
    """Adam's learning rate."""
    warmup: BelowOne = 0.0
    """Share of each task's updates over which the learning rate rises from 0."""
    fresh_optimizer: bool = False
    """Reset Adam's state at the start of each task."""
    standardize: bool = False
    """Standardise pixels per channel by the training images. If off, they are only divided by 255."""
    replay: NotNegative[int] = 0
    """Images of earlier tasks in the replay memory. Each batch gets as many images again from it. 0: no replay."""
    replay_per_task: Positive[int] = 500
    """Maximum images of one task in the replay memory."""
    shock_every: NotNegative[int] = 0
    """Epochs between shocks: for one epoch all pre-activations are multiplied by the next of --shocks. 0: no shocks."""
    shocks: tuple[Positive[float], ...] = (1.5, 0.5, 0.25, 2.0)
    """Factors of the shocks, in turn (Lillo & Cheney 2025, Appendix D.1)."""
    eval_every: NotNegative[int] = 0
    """Updates between tests within a task; 0: only at its end, unless --eval-epochs is given."""
    eval_epochs: NotNegative[float] = 0.0
    """Epochs between tests within a task."""
    measure_every: Positive[int] = 10_000
    """Updates between measurements of the network (srank, dormancy, norms, …)."""
    checkpoint_every: Interval = "auto"
    """Updates between checkpoints. There is always one at the end. auto: a quarter of the run, 50,000 at most."""
    keep_checkpoints: Positive[int] = 2
    """Number of checkpoints to keep."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile loss and gradients. auto: for small networks in runs of at least 20,000 updates."""

    groups: ClassVar[Groups] = {
        "run": ("seeds",),
        "task": (
            "dataset", "data", "stream", "tasks", "images", "images_per_class", "classes_per_task", "shares", "epochs",
            "first_epochs", "updates_per_task", "standardize", "shock_every", "shocks",
        ),
        "network": ("network", "width", "activation", "init_lambda"),
        "measuring": ("eval_epochs",),
        "speed": ("compile",),
    }  # fmt: skip
    most_unsaved: ClassVar[int] = 50_000

    @property
    def members(self) -> Seeds:
        return self.seeds or (self.seed,)

    def group(self, seeds: Seeds, added: bool = False) -> tuple[Seeds, ...]:
        """Return one stack for the small networks of all seeds, or one run per seed for large networks."""
        return (seeds,) if self.stacked else super().group(seeds)

    def of(self, members: Seeds) -> RunSettings:
        return replace(self, seed=members[0], seeds=members)

    @property
    def stacked(self) -> bool:
        """Whether the networks of several seeds are trained as one stack."""
        return self.network in ("mlp", "cnn", "convnet")

    @property
    def by_class(self) -> bool:
        """Whether tasks consist of classes."""
        return self.stream in OF_CLASSES

    def classes_between(self, task: int) -> tuple[int, int]:
        """Return the range of a task's classes in the order in which they are dealt out: first ≤ position < last."""
        step = self.classes_per_task
        if self.stream == "pairs":
            return 2 * task, 2 * task + 2
        if self.stream == "alternating":  # step, 1, step, 1, …
            first = (step + 1) * (task // 2) + step * (task % 2)
            return first, first + (1 if task % 2 else step)
        return (0 if self.stream == "classes" else step * task), step * (task + 1)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.init_lambda is not None and self.network != "mlp":
            yield f"--init-lambda balances the units between Linear layers: --network mlp, not {self.network}"
        yield from seed_problems(self.seeds, self.seed)
        if not self.stacked and len(self.seeds) > 1:
            yield f"--network {self.network} trains one seed at a time, got --seeds {self.seeds}"
        if self.stream == "chunks" and (len(self.shares) != self.tasks or list(self.shares) != sorted(self.shares)):
            yield f"--shares must be {self.tasks} growing numbers, one a task, got {self.shares}"
        for option, given, streams, words in (
            ("images", self.images, ("permuted", "random-labels"), "permuted pixels and random labels"),
            ("images-per-class", self.images_per_class, OF_CLASSES, "tasks made of classes"),
            ("replay", self.replay, ("split", "pairs", "alternating"), "tasks of their own classes (split)"),
        ):
            if given and self.stream not in streams:
                yield f"--{option} goes with {words}, not with --stream {self.stream}"
        if self.first_epochs is not None and self.updates_per_task is not None:
            yield "--first-epochs goes with --epochs, not with --updates-per-task"
        if 0 < self.replay < self.tasks - 1:
            yield f"--replay {self.replay} holds no image of each of {self.tasks - 1} earlier tasks"
        if not self.shocks:
            yield "--shocks is empty: give factors"
