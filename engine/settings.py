"""The settings that all runs share. Each kind of run extends them. The string below a field is its help line."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

import tyro

from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative, Positive, beyond, most

if TYPE_CHECKING:
    from .hooks.parsing import Span

MOST_THREADS, MOST_SEEDS, MOST_TASKS = 1024, 10_000, 100_000
Device = Literal["auto", "cpu", "cuda"]
Seeds = tuple[int, ...]
Threads = Annotated[Positive[int], most(MOST_THREADS)] | Literal["auto"]
Interval = Positive[int] | Literal["auto"]
Groups = dict[str, tuple[str, ...]]
GROUPS = ("run", "environment", "task", "learning", "network", "measuring", "speed", "output")  # as help orders them
PARTS = 4  # checkpoints in a run whose interval is "auto", if nothing makes it longer or shorter


def seeds_of(value: Any) -> Any:
    """Return the seeds for one or several texts, each with numbers or ranges such as 0-4 (both ends included).

    Other values are returned as they are.

    Raises:
        ValueError: A word is neither, a range is empty, or there are more than 10,000 seeds.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        return value
    found: list[int] = []
    for word in " ".join(texts).replace(",", " ").split():
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


def seed_problems(seeds: Seeds, seed: int = 0) -> Iterator[str]:
    """Yield one line for each problem of `--seeds`, next to a `--seed` that may say something else."""
    shown = " ".join(map(str, seeds))
    if min(seeds, default=0) < 0 or len(set(seeds)) < len(seeds):
        yield f"--seeds must be different numbers of 0 or more, got {shown}"
    if seeds and seed not in (0, seeds[0]):
        yield f"--seed {seed} and --seeds {shown} both say which seeds: give one of them"


SeedsOption = Annotated[Seeds, seeds_of, tyro.conf.arg(metavar="SEEDS")]


@dataclass(kw_only=True)
class RunSettings:
    hook: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOK")] = ()
    """Intervention and schedule, such as fire@0.5 or snp(lam=0.5)@task. Can be given several times."""
    seed: NotNegative[int] = 0
    """Seed from which all random numbers of the run are derived. Change it for an independent repetition."""
    threads: Threads = 1
    """Number of PyTorch threads, which may change results. auto: the fastest in trials of some seconds."""
    checkpoint_every: Interval = "auto"
    """Updates between checkpoints. Lower it to lose less training when a run is killed. auto: a quarter of the run,
    2,000 at most."""
    keep_checkpoints: Positive[int] = 2
    """Number of newest checkpoints to keep. More are safer if files get damaged, but need disk space."""
    measure_every: Positive[int] = 1_000
    """Updates between measurements of the network (srank, dormant units, norms, …). Raise it to save time."""
    eval_every: NotNegative[int] = 0
    """Updates between evaluations within a task; 0: only at its start and end. Lower it for finer curves."""
    curvature: bool = False
    """Also measure the largest eigenvalue of the loss's Hessian. It takes as long as several hundred updates."""
    trainability_every: NotNegative[int] = 0
    """Updates between measurements of trainability; 0: never. Each takes as long as about 400 updates."""
    keep_best: bool = False
    """Keep the state with the best evaluation so far, in the run's folder best/."""
    keep_at: Annotated[tuple[Positive[int], ...], tyro.conf.arg(metavar="STEPS")] = ()
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
        yield from out_of_range(self)
        for tracker in self.log_to:
            if not find_spec(tracker):
                yield f"--log-to {tracker}: its package is not installed (pip install 'supple[{tracker}]')"

    def plan_tasks(self) -> "Sequence[Span]":
        """Return the tasks, as far as they are known from the settings alone; () if they are not."""
        return ()

    def check_single(self) -> None:
        """Raise UsageError for settings that only runs of a comparison can have."""


def group_of(settings: type[RunSettings], name: str) -> str:
    """Return the group in which help shows a setting."""
    declared = (vars(base).get("groups", {}) for base in settings.__mro__)
    return next((group for groups in declared for group, names in groups.items() if name in names), "learning")


@cache
def types_of(options: Hashable) -> dict[str, Any]:
    """Return the types of the fields of a dataclass, with their limits."""
    return get_type_hints(options, include_extras=True)


def out_of_range(options: Any) -> Iterator[str]:
    """Yield one line for each number in a dataclass of options that its type says is not possible."""
    types: Any = type(options)
    for field in fields(options):
        words = beyond(getattr(options, field.name), types_of(types)[field.name])
        yield from (f"--{field.name.replace('_', '-')} {problem}" for problem in words)


def require_range(options: Any) -> None:
    """Raise one UsageError for all numbers in a dataclass of options that are not possible."""
    if found := list(out_of_range(options)):
        raise UsageError("; ".join(found))


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
