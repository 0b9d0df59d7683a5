"""The interface between the training loop (loop.py) and the things that it trains: a `Work` and its `Task`s."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import nn

from supple.interventions import Learner
from supple.metrics import Measured, View, measure, measure_members, trainability
from supple.networks import StackedLinear

from .divergence import return_to_start
from .hooks.driver import HookDriver
from .hooks.parsing import Span
from .machine.matmul import faster_matmul
from .settings import RunSettings
from .storage.run_directory import RunDirectory

Numbers = dict[str, Any]  # name → number; for a stack of seeds, name → one number per seed


@dataclass(frozen=True)
class Task(Span):
    """One task of a run, trained from step `start` to step `end`, in the kind's unit of steps."""

    name: str

    @property
    def steps(self) -> int:
        return self.end - self.start

    @property
    def fields(self) -> dict[str, Any]:
        """The additional fields of the event in events.jsonl with which the task begins."""
        return {name: value for name, value in asdict(self).items() if name not in ("index", "start", "end")}

    @property
    def labels(self) -> dict[str, int]:
        """The labels of the task's lines in metrics.jsonl."""
        return {"task": self.index}


T = TypeVar("T", bound=Task)


def crossed(previous: int, step: int, period: int) -> bool:
    """Return whether a multiple of `period` lies in (previous, step]. With period 0 this is never so."""
    return period > 0 and step // period > previous // period


class Work(ABC, Generic[T]):
    """The networks of a run, the training on each task, and the evaluation.

    Between two calls of `advance`, networks can be measured, changed by interventions and saved. All random numbers are
    derived from the run's seed and the position in the stream, or come from generators that are part of `state`. A
    resumed run is therefore the same bit for bit.

    Attributes:
        settings: The settings, without values such as "auto".
        tasks: The tasks in order, without gaps, from step 0.
        seeds: The seeds of a stacked run, which logs one line per seed; otherwise empty.
        frozen: The members of a stack that have diverged, by their positions in `seeds`. Nothing of them is logged.
        sources: Descriptions of the data and the model by name. They must be the same when the run is resumed.
        hooks: Texts of hooks that the kind of run adds before those of the user.
        logs: Names of the logs that it writes.
        batch: The settings whose product is the rows of data, of each member, that a product in an update has at least.
        check_every: Steps between checks for divergence, at which progress is reported.
    """

    settings: RunSettings
    tasks: tuple[T, ...]
    seeds: tuple[int, ...] = ()
    frozen: frozenset[int] = frozenset()
    sources: dict[str, str] = {}  # noqa: RUF012  (never changed in place)
    hooks: tuple[str, ...] = ()
    logs: tuple[str, ...] = ("metrics", "tasks", "events")
    statistics: tuple[str, ...] = ()  # those of `numbers` that can be used in a hook's condition
    batch: tuple[str, ...] = ()
    check_every: int = 20
    saves_where_tasks_end: bool = False  # regardless of --checkpoint-every
    best_by: str = ""  # the number of `evaluate` by which the best state is chosen
    more_is_better: bool = False
    no_best: str = ""  # the reason why this run cannot choose a best state, if there is one

    @property
    @abstractmethod
    def learners(self) -> dict[str, Learner]:
        """The learners on which hooks and metrics act, by name."""

    # -- learning -----------------------------------------------------------------------------------------------

    @cached_property
    def products(self) -> AbstractContextManager[None]:
        """The context in which updates are computed, chosen by the networks' sizes (see `faster_matmul`)."""
        layers = [layer.module for learner in self.learners.values() for layer in learner.layers]
        weights = [layer.weight for layer in layers if isinstance(layer, nn.Linear | StackedLinear)]
        return faster_matmul(weights, self.rows)

    @property
    def rows(self) -> int:
        """The rows of data, of each member, that a product in an update has at least; 0 if that is not known."""
        return prod(getattr(self.settings, name) for name in self.batch) if self.batch else 0

    def enter(self, task: T) -> None:
        """Give networks and optimizers the shape that they have in this task, for example by adding adapters.

        The loop calls this at the start of each task. Before it loads a checkpoint, it calls this again, in order, for
        all tasks that had begun.
        """

    def own_task(self) -> str:
        """Return the task in which the world is now, if it changes by itself (`Span.switching`), or ""."""
        return ""

    def look_at(self, task: T, step: int) -> None:
        """Give the learners data of this task: the last batch before `step`, or the task's first if there was none."""

    def begin_segment(self, number: int, step: int) -> None:
        """Reset everything that checkpoints do not contain, such as the environments.

        Seeds are derived from the number of checkpoints written so far. The loop calls this before the first step of a
        task and after every checkpoint, whether or not the run was interrupted there.
        """

    @abstractmethod
    def advance(self, task: T, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Train from `step`, at most to `until`, and return the number of steps made.

        It calls the hooks' `penalty`, `before_update` and `after_update`, and logs finished episodes.

        Args:
            task: The task, one of `tasks`.
            step: The step of the run.
            until: The last step that may be reached.
            hooks: The hooks of the run.
            run: Its folder, for logs.
        """

    def updates(self, step: int) -> int:
        """Return the optimizer steps since step 0 of the run, now that it is at `step`. By default, steps are updates.

        Raises UsageError if they are not counted."""
        return step

    @abstractmethod
    def check(self, closely: bool = False) -> None:
        """Raise Diverged if training has diverged or, with `closely`, is about to. Saved states are kept.

        In a stack of seeds, `Diverged.members` are those that have diverged and are not `frozen` yet. The loop freezes
        these, and trains the others on.
        """

    def freeze(self, members: Iterable[int]) -> None:
        """Stop looking at these members of a stack, which have diverged, in addition to those that are `frozen`."""
        self.frozen = self.frozen.union(members)
        self.reset_frozen()

    def reset_frozen(self) -> None:
        """Return the networks of the frozen members to step 0.

        The updates of a stack move all its members. The loop calls this where it checks for divergence and before it
        measures or saves, so that no number of a frozen member is ever seen that is not finite.
        """
        for learner in self.learners.values():
            return_to_start(learner, self.frozen)

    # -- evaluation -----------------------------------------------------------------------------------------------

    def numbers(self) -> Numbers:
        """Return statistics of training since the last call, to be logged with the measurements."""
        return {}

    @property
    def living(self) -> list[int]:
        """The members of a stack of seeds that are not frozen, by their positions; [0] for a run of one seed."""
        return [member for member in range(max(1, len(self.seeds))) if member not in self.frozen]

    def _view(self, learner: Learner) -> View:
        """Return a view of the networks of the seeds that are not frozen."""
        return View(learner, seeds=self.living if learner.seeds else None)

    def measure(self, costly: bool) -> Measured:
        """Return measurements of the learners, `learner/metric` → number, for the run or for each seed of a stack.

        Those of frozen members are left out: {}.
        """
        lines: Measured = [{} for _ in self.seeds or (0,)]
        for name, learner in self.learners.items():
            view = self._view(learner)
            found = measure_members(view, True, costly) if learner.seeds else [measure(view, True, costly=costly)]
            for member, own in zip(self.living, found, strict=True):
                lines[member] |= {f"{name}/{metric}": value for metric, value in own.items()}
        return lines

    def trainability(self) -> Measured:
        """Return the trainability of the learners, `learner/metric` → number, for the run or for each seed of a stack.

        Learners that have not seen data yet are left out, and so are frozen members.
        """
        lines: Measured = [{} for _ in self.seeds or (0,)]
        for name, learner in self.learners.items():
            if (found := trainability(self._view(learner))) is None:
                continue
            for metric, values in found.numbers().items():
                own = values.view(len(self.living), -1).mean(1).tolist()
                for member, value in zip(self.living, own, strict=True):
                    lines[member][f"{name}/{metric}"] = value
        return lines

    def evaluation_due(self, task: T, previous: int, step: int) -> bool:
        """Return whether to evaluate at `step`, after the steps in (previous, step].

        At the beginning of a task, `previous` equals `step`.
        """
        return previous == step or step == task.end or crossed(previous, step, self.settings.eval_every)

    @abstractmethod
    def evaluate(self, task: T) -> Numbers:
        """Return the current performance of the networks, by names such as val_loss.

        The networks are in evaluation mode. The state of generators must not change.
        """

    def performance(self, numbers: Numbers) -> dict[int, Any]:
        """Return the results on each task that `evaluate` found at the end of a task, by its index, for events.

        They are {} for kinds whose results of tasks (`finish`) have them. For a stack, each is one number per seed."""
        return {}

    def merit(self, task: T, numbers: Numbers) -> float | None:
        """Return how good the state with these numbers of `evaluate` is (higher is better).

        None means that no best state is chosen.
        """
        value = numbers.get(self.best_by)
        return value if value is None or self.more_is_better else -value

    def finish(self, task: T, numbers: Numbers) -> Numbers:
        """Return the results of a task, which become the fields of its line in tasks.jsonl.

        `numbers` is the result of `evaluate` at the end of the task, or empty if it was not evaluated there.
        """
        return numbers

    @property
    def kept(self) -> tuple[int, ...]:
        """Steps after which the state is kept permanently."""
        return self.settings.keep_at

    # -- states and resources ---------------------------------------------------------------------------------------

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the complete state of training, as a tree that `engine.storage.checkpoint` can save."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Load a state from `state`. The same tasks have been entered."""

    def export(self, folder: Path) -> None:
        """Write the trained model to a folder, in a format that other programs can read."""

    def close(self) -> None:
        """Release resources such as environments."""
