"""The settings that all runs share. Each kind of run extends them. The string below a field is its help line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

import tyro

from supple.registry.errors import UsageError

LARGEST = 2**53  # readers of JSON represent every integer up to this exactly
MOST_THREADS, MOST_SEEDS, MOST_TASKS = 1024, 10_000, 100_000
Device = Literal["auto", "cpu", "cuda"]
Seeds = tuple[int, ...]
Threads = Annotated[int | Literal["auto"], tyro.conf.arg(metavar="INT|auto")]
Interval = Annotated[int | Literal["auto"], tyro.conf.arg(metavar="INT|auto")]
Groups = dict[str, tuple[str, ...]]
GROUPS = ("run", "environment", "task", "learning", "network", "measuring", "speed", "output")  # as help orders them
PARTS = 4  # checkpoints in a run whose interval is "auto", if nothing makes it longer or shorter


def seeds_of(words: Sequence[str]) -> Seeds:
    """Return the seeds for a list of words, each a number or a range such as 0-4 (both ends included).

    Raises:
        ValueError: A word is neither, a range is empty, or there are more than 10,000 seeds.
    """
    found: list[int] = []
    for word in words:
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"'{word}' is neither a seed (0 or more) nor a range of seeds such as 0-4")
        many = int(last) - int(first) + 1 if dash else 1
        if many < 1:
            raise ValueError(f"'{word}' is no range of seeds: its first seed is larger than its last")
        if len(found) + many > MOST_SEEDS:
            raise ValueError(f"'{word}' gives {many:,} seeds, but a comparison has {MOST_SEEDS:,} at most")
        found += range(int(first), int(first) + many)
    return tuple(found)


SeedsOption = Annotated[
    Seeds,
    tyro.constructors.PrimitiveConstructorSpec(
        nargs="*",
        metavar="SEEDS",
        instance_from_str=seeds_of,
        is_instance=lambda value: isinstance(value, tuple) and all(isinstance(seed, int) for seed in value),
        str_from_instance=lambda seeds: [str(seed) for seed in seeds],
    ),
]


@dataclass(kw_only=True)
class RunSettings:
    hook: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOK")] = ()
    """Intervention and schedule, such as fire@0.5 or snp(lam=0.5)@task. Can be given several times."""
    seed: int = 0
    """Seed from which all random numbers of the run are derived. Change it for an independent repetition."""
    threads: Threads = 1
    """Number of PyTorch threads, which may change results. auto: the fastest in trials of some seconds."""
    checkpoint_every: Interval = "auto"
    """Updates between checkpoints. Lower it to lose less training when a run is killed. auto: a quarter of the run,
    2,000 at most."""
    keep_checkpoints: int = 2
    """Number of newest checkpoints to keep. More are safer if files get damaged, but need disk space."""
    measure_every: int = 1_000
    """Updates between measurements of the network (srank, dormant units, norms, …). Raise it to save time."""
    eval_every: int = 0
    """Updates between evaluations within a task; 0: only at its start and end. Lower it for finer curves."""
    curvature: bool = False
    """Also measure the largest eigenvalue of the loss's Hessian. It takes as long as several hundred updates."""
    trainability_every: int = 0
    """Updates between measurements of trainability; 0: never. Each takes as long as about 400 updates."""
    keep_best: bool = False
    """Keep the state with the best evaluation so far, in the run's folder best/."""
    keep_at: Annotated[tuple[int, ...], tyro.conf.arg(metavar="STEPS")] = ()
    """Steps after which the state is kept permanently in the run's folder kept/, for example to examine it later."""
    log_to: Annotated[
        tuple[Literal["wandb", "mlflow", "trackio"], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="TRACKER")
    ] = ()
    """Tracker to log to, in addition to TensorBoard: wandb, mlflow or trackio. Can be given several times."""

    # the groups in which help shows settings; those that are in none are about learning
    groups: ClassVar[Groups] = {
        "run": ("hook", "seed"),
        "measuring": ("measure_every", "eval_every", "curvature", "trainability_every"),
        "speed": ("threads",),
        "output": ("checkpoint_every", "keep_checkpoints", "keep_best", "keep_at", "log_to"),
    }

    # the settings on which neither networks nor tasks nor memory depend, so that one network is built to check them all
    same_network: ClassVar[tuple[str, ...]] = ("seed", "keep_checkpoints", "keep_at", "log_to")

    most_unsaved: ClassVar[int] = 2_000  # the longest interval between checkpoints that "auto" stands for

    @property
    def stride(self) -> int:
        """Steps between two places at which a run can be forked."""
        return 1

    @property
    def torch_threads(self) -> int:
        """The number of PyTorch threads; 1 as long as it is "auto"."""
        return 1 if self.threads == "auto" else self.threads

    @property
    def saved_every(self) -> int:
        """The steps between checkpoints; the longest interval as long as it is "auto"."""
        return self.most_unsaved if self.checkpoint_every == "auto" else self.checkpoint_every

    def least_unsaved(self) -> int:
        """Return the shortest interval between checkpoints that "auto" stands for."""
        return 1

    def fit(self, steps: int) -> None:
        """Replace a checkpoint interval of "auto" by the one for a run of `steps` steps.

        It is a quarter of the run, but within `least_unsaved` and `most_unsaved`. Since checkpoints can affect the
        results, it depends on the settings and the length of the run only, never on the machine.
        """
        if self.checkpoint_every == "auto":
            self.checkpoint_every = min(self.most_unsaved, max(self.least_unsaved(), steps // PARTS))

    @property
    def untrained_steps(self) -> int:
        """The steps of a new run before its first update, or 0 if its kind does not define them."""
        return 0

    @property
    def members(self) -> Seeds:
        """The seeds that one run trains."""
        return (self.seed,)

    def group(self, seeds: Seeds, added: bool = False) -> tuple[Seeds, ...]:
        """Return the seeds of each run that together train these seeds: one each, or those of a stack.

        Seeds that were `added` to a comparison may be fewer than those of a stack. Raises UsageError if a stack is
        asked for that is not possible.
        """
        return tuple((seed,) for seed in seeds)

    def of(self, members: Seeds) -> "RunSettings":
        """Return the settings of the run that trains these seeds, a result of `group`."""
        return replace(self, seed=members[0])

    def lengthen(self, steps: int) -> "RunSettings":
        """Return the settings of this run, extended to `steps` steps in total. Raises UsageError if not possible."""
        raise UsageError("--steps: only runs of agents that were started with --steps can be extended")

    def resolve(self) -> str | None:
        """Replace values such as "auto" by definite ones, which config.json records and a resumed run uses.

        Return a line for the user, or None.
        """
        return None

    def check(self) -> None:
        """Raise one UsageError that names all invalid values."""
        if found := list(dict.fromkeys(self.problems())):
            raise UsageError("; ".join(found))

    def problems(self) -> Iterator[str]:
        """Yield one line for each invalid value."""
        yield from not_positive(
            **{
                "--threads": self.torch_threads,
                "--checkpoint-every": self.saved_every,
                "--keep-checkpoints": self.keep_checkpoints,
                "--measure-every": self.measure_every,
                "--keep-at": min(self.keep_at, default=None),
            }
        )
        yield from out_of_range(**vars(self))
        if self.torch_threads > MOST_THREADS:
            yield f"--threads must be {MOST_THREADS} at most, got {self.threads}"
        for tracker in self.log_to:
            if not find_spec(tracker):
                yield f"--log-to {tracker}: its package is not installed (pip install 'supple[{tracker}]')"
        for name, value in (
            ("--seed", self.seed),
            ("--eval-every", self.eval_every),
            ("--trainability-every", self.trainability_every),
        ):
            if value < 0:
                yield f"{name} must be 0 or more, got {value}"

    def check_single(self) -> None:
        """Raise UsageError for settings that only runs of a comparison can have."""


def group_of(settings: type[RunSettings], name: str) -> str:
    """Return the group in which help shows a setting."""
    declared = (vars(base).get("groups", {}) for base in settings.__mro__)
    return next((group for groups in declared for group, names in groups.items() if name in names), "learning")


def not_positive(**values: float | None) -> Iterator[str]:
    """Yield one line for each named value that is not a finite number above 0. None is accepted."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            yield f"{name} must be a positive number, got {value}"


def positive(**values: float | None) -> None:
    """Raise one UsageError for all named values that are not finite numbers above 0. None is accepted."""
    if found := list(not_positive(**values)):
        raise UsageError("; ".join(found))


def out_of_range(**values: Any) -> Iterator[str]:
    """Yield one line for each setting that is infinite, NaN or above 2⁵³ in magnitude, or has such an item."""
    for name, value in values.items():
        option, parts = f"--{name.replace('_', '-')}", value if isinstance(value, tuple) else (value,)
        if not all(isfinite(part) for part in parts if isinstance(part, float)):
            yield f"{option} must be a finite number, got {value}"
        if large := [part for part in parts if isinstance(part, int) and abs(part) > LARGEST]:
            yield f"{option} must be {LARGEST:,} at most, got {large[0]}"


def device_here(device: Device) -> Device:
    """Return the device to use: for "auto", "cuda" if PyTorch finds a GPU and "cpu" otherwise.

    Raises:
        UsageError: "cuda" was given and PyTorch finds no GPU.
    """
    import torch  # not at the top: help texts need the settings, and should not wait for PyTorch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "--device cuda: PyTorch finds no CUDA GPU here; use --device cpu, or resume on a machine with a GPU"
        )
    return device
