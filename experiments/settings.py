"""Settings that every run shares; each kind of run extends them. A field's string is its help line."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import isfinite
from typing import Annotated, Any, ClassVar, Literal

import tyro

from .errors import UsageError

LARGEST = 2**53  # up to which JSON holds every integer, wherever it is read
MOST_THREADS, MOST_SEEDS, MOST_TASKS = 1024, 10_000, 100_000
Device = Literal["auto", "cpu", "cuda"]
Seeds = tuple[int, ...]


def seeds_of(words: Sequence[str]) -> Seeds:
    """Return the seeds that words name: numbers and ranges such as 0-4, whose ends are both among them.

    Raises ValueError."""
    found: list[int] = []
    for word in words:
        first, dash, last = word.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"'{word}' is no seed (0 or more) and no range of seeds (0-4)")
        many = int(last) - int(first) + 1 if dash else 1
        if len(found) + many > MOST_SEEDS:
            raise ValueError(f"'{word}' names {many:,} seeds, and a comparison has {MOST_SEEDS:,} at most")
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
    """An intervention and its schedule, such as fire@0.5 or snp(lam=0.5)@task. May be given several times."""
    seed: int = 0
    """The run's seed: every random draw comes from it."""
    threads: int = 1
    """Threads of PyTorch. Small networks are fastest with one."""
    checkpoint_every: int = 2_000
    """Updates between checkpoints."""
    keep_checkpoints: int = 2
    """How many checkpoints to keep."""
    measure_every: int = 1_000
    """Updates between two measurements of the network (srank, dormancy, norms, …)."""
    eval_every: int = 0
    """Updates between two evaluations within a task."""
    curvature: Annotated[bool, tyro.conf.arg(aliases=["--measure-curvature"])] = False
    """Measure the largest eigenvalue of the loss's Hessian too; takes as long as some hundred updates."""
    trainability_every: int = 0
    """Updates between two measurements of trainability, each of which takes as long as some 400 updates; 0: never."""
    keep_best: Annotated[bool, tyro.conf.arg(aliases=["--best"])] = False
    """Keep the state that did best in the evaluations so far, in the run's folder best/."""
    keep_at: Annotated[tuple[int, ...], tyro.conf.arg(aliases=["--kept"], metavar="STEPS")] = ()
    """Steps after which the state is kept for good, in the run's folder kept/."""
    log_to: Annotated[
        tuple[Literal["wandb", "mlflow", "trackio"], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="TRACKER")
    ] = ()
    """A tracker that shows the run too, beside TensorBoard: wandb, mlflow or trackio. May be given several times."""

    # settings that are numbers of steps, updates or passes: what `--scale` shrinks, in this order
    shrinks: ClassVar[tuple[str, ...]] = (
        "checkpoint_every", "measure_every", "eval_every", "trainability_every", "keep_at",
    )  # fmt: skip

    def least(self, name: str) -> tuple[int, int]:
        """Return what a setting of the schedule must not come below, and what it must be a multiple of."""
        return 1, 1

    @property
    def stride(self) -> int:
        """Steps between two places at which a run can part from another."""
        return 1

    @property
    def members(self) -> Seeds:
        """The seeds that one run trains."""
        return (self.seed,)

    def of_seeds(self, seeds: Sequence[int]) -> "dict[Seeds, RunSettings]":
        """Return the settings of the runs that train these seeds, by the seeds in each: one, or several as a stack."""
        return {(seed,): replace(self, seed=seed) for seed in seeds}

    def longer(self, steps: int) -> "RunSettings":
        """Return the settings of a run that goes on to so many steps in all. Raises UsageError where it cannot."""
        raise UsageError("--steps: only agents' runs with --steps go on for longer than they were planned")

    def resolve(self) -> str | None:
        """Decide what was left to be decided here, so that config.json says it and a resumed run does the same.
        Returns a line for the user, if there is anything to say."""
        return None

    def check(self) -> None:
        """Raise UsageError for values that cannot work: for all of them at once."""
        if found := list(dict.fromkeys(self.problems())):
            raise UsageError("; ".join(found))

    def problems(self) -> Iterator[str]:
        """Yield a line for each value that cannot work."""
        yield from not_positive(
            **{
                "--threads": self.threads,
                "--checkpoint-every": self.checkpoint_every,
                "--keep-checkpoints": self.keep_checkpoints,
                "--measure-every": self.measure_every,
                "--keep-at": min(self.keep_at, default=None),
            }
        )
        yield from out_of_range(**vars(self))
        if self.threads > MOST_THREADS:
            yield f"--threads must be {MOST_THREADS} at most, got {self.threads}"
        for tracker in self.log_to:
            if not find_spec(tracker):
                yield f"--log-to {tracker} needs a package that is not installed: pip install 'supple[{tracker}]'"
        for name, value in (
            ("--seed", self.seed),
            ("--eval-every", self.eval_every),
            ("--trainability-every", self.trainability_every),
        ):
            if value < 0:
                yield f"{name} must be 0 or more, got {value}"

    def check_single(self) -> None:
        """Raise UsageError for what only runs of a comparison can be told."""


def not_positive(**values: float | None) -> Iterator[str]:
    """Yield a line for each named value that is not above zero."""
    for name, value in values.items():
        if value is not None and not 0 < value < float("inf"):
            yield f"{name} must be a positive number, got {value}"


def positive(**values: float | None) -> None:
    """Raise UsageError for the named values that are not above zero."""
    if found := list(not_positive(**values)):
        raise UsageError("; ".join(found))


def out_of_range(**values: Any) -> Iterator[str]:
    """Yield a line for each setting, by the name of its field, that is infinite, no number, or too large to count by,
    or has such a part."""
    for name, value in values.items():
        option, parts = f"--{name.replace('_', '-')}", value if isinstance(value, tuple) else (value,)
        if not all(isfinite(part) for part in parts if isinstance(part, float)):
            yield f"{option} must be a finite number, got {value}"
        if large := [part for part in parts if isinstance(part, int) and abs(part) > LARGEST]:
            yield f"{option} must be {LARGEST:,} at most, got {large[0]}"


def device_here(device: Device) -> Device:
    """Return `auto` as "cuda" or "cpu", whichever there is. Raises UsageError for a GPU that is not there."""
    import torch  # settings are read for help texts too, which are not to wait for it

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and not torch.cuda.is_available():
        raise UsageError(
            "--device cuda: PyTorch finds no CUDA GPU here; use --device cpu, or go on where this run was begun"
        )
    return device
