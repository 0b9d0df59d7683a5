"""What a run trains: a `Work`, which the one loop (loop.py) takes through its tasks."""

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..interventions import Learner
from ..metrics import View, measure, trainability
from .hooks import HookDriver
from .machine import require_memory
from .rundir import RunDirectory
from .settings import RunSettings

Numbers = dict[str, Any]  # name → number; of a stack of seeds, name → one for each seed


@dataclass(frozen=True)
class Task:
    """One stretch of a run: what is learned from step `start` until step `end`, in the kind's own unit of steps."""

    index: int
    start: int
    end: int
    name: str

    @property
    def steps(self) -> int:
        return self.end - self.start

    @property
    def fields(self) -> dict[str, Any]:
        """The further fields that events.jsonl has where the task begins."""
        return {name: value for name, value in asdict(self).items() if name not in ("index", "start", "end")}

    @property
    def labels(self) -> dict[str, int]:
        """The labels that the task's lines in metrics.jsonl carry."""
        return {"task": self.index}


def crossed(previous: int, step: int, period: int) -> bool:
    """Return whether a multiple of `period` lies in (previous, step]; never, where the period is 0."""
    return period > 0 and step // period > previous // period


class Work(ABC):
    """Networks, what they learn task by task, and how well they do.

    Between two calls of `advance` everything may be measured, intervened in and saved. Whatever is drawn comes from
    the run's seed and the place in the stream, or from generators that are part of `state`: so a resumed run goes on
    bit for bit.

    settings: what the run was told, with nothing left to be decided.
    tasks: in their order, without gaps, from step 0.
    seeds: those of a stack, where the run trains several side by side; each has lines of its own in the logs.
    sources: what the data and the model are and where they come from, by name; a resumed run must find the same.
    hooks: texts of hooks that the kind of run brings itself, before those of the user.
    logs: the logs that it writes. check_every: steps between two signs of progress, at which it is checked.
    """

    settings: RunSettings
    tasks: tuple[Any, ...]
    seeds: tuple[int, ...] = ()
    sources: dict[str, str] = {}  # noqa: RUF012  (never changed in place)
    hooks: tuple[str, ...] = ()
    logs: tuple[str, ...] = ("metrics", "tasks", "events", "tensorboard")
    statistics: tuple[str, ...] = ()  # of `numbers`, those that a hook's condition may ask for
    check_every: int = 20
    saves_where_tasks_end: bool = False  # there, in every run alike, however long --checkpoint-every is
    best_by: str = ""  # the number of `evaluate` by which a best state is chosen
    more_is_better: bool = False
    no_best: str = ""  # why this run can choose none

    @property
    @abstractmethod
    def learners(self) -> dict[str, Learner]:
        """The learners that hooks and metrics see, by name."""

    # -- learning -----------------------------------------------------------------------------------------------

    def enter(self, task: Any) -> None:  # noqa: B027  (most have the same shape throughout)
        """Give networks and optimizers the shape that they have in this task (new adapters, say).

        Called in the order of the tasks, at the start of each; and again for those that a checkpoint has behind it,
        before it is loaded.
        """

    def look_at(self, task: Any, step: int) -> None:  # noqa: B027
        """Let the learners' data be those of this task: what was learned last before `step`, else what comes first."""

    def begin_segment(self, number: int, step: int) -> None:  # noqa: B027
        """Begin anew what no checkpoint holds (environments), from seeds derived from the number of checkpoints so far.

        Called before the first step after the start of a task, a checkpoint, or a resumption: in every run alike.
        """

    @abstractmethod
    def advance(self, task: Any, step: int, until: int, hooks: HookDriver, run: RunDirectory) -> int:
        """Learn one stretch from `step` on, which ends at `until` at the latest, and return how many steps it was.

        Calls the hooks' `penalty`, `before_update` and `after_update`. Episodes that end are logged in `run`.
        """

    @abstractmethod
    def check(self, closely: bool = False) -> None:
        """Raise Diverged if training did; closely: also if it is about to. What was saved stays."""

    # -- how well it does -----------------------------------------------------------------------------------------

    def numbers(self) -> Numbers:
        """Return what there is to log about learning since the last call, beside measurements."""
        return {}

    def measure(self, costly: bool) -> list[dict[str, float]]:
        """Return measurements of the learners, `learner/metric` → number: of the run, or of each seed of a stack."""
        return [
            {
                f"{name}/{metric}": value
                for name, learner in self.learners.items()
                for metric, value in measure(View(learner), True, costly=costly).items()
            }
        ]

    def trainability(self) -> list[dict[str, float]]:
        """Return how trainable the learners are that have seen data, `learner/metric` → number: of the run, or of each
        seed of a stack."""
        lines: list[dict[str, float]] = [{} for _ in self.seeds or (0,)]
        for name, learner in self.learners.items():
            if (found := trainability(learner)) is None:
                continue
            for metric, values in found.numbers().items():
                # one for each seed of a stack; else the mean, where one network of the run is itself a stack
                own = values.tolist() if self.seeds else [float(values.mean())]
                for line, value in zip(lines, own, strict=True):
                    line[f"{name}/{metric}"] = value
        return lines

    def evaluation_due(self, task: Any, previous: int, step: int) -> bool:
        """Return whether to evaluate at `step`, the steps in (previous, step] having gone by; where a task begins,
        previous is `step` itself."""
        return previous == step or step == task.end or crossed(previous, step, self.settings.eval_every)

    @abstractmethod
    def evaluate(self, task: Any) -> Numbers:
        """Return how well the networks do now, by names such as val_loss.
        They are in evaluation mode, and no generator moves."""

    def merit(self, task: Any, numbers: Numbers) -> float | None:
        """Return how good the state is that these numbers of `evaluate` belong to, more being better; None where no
        best state is chosen."""
        value = numbers.get(self.best_by)
        return value if value is None or self.more_is_better else -value

    def finish(self, task: Any, numbers: Numbers) -> Numbers:
        """Return what became of a task: the fields of its line in tasks.jsonl. numbers: those of `evaluate` at its end,
        if it is evaluated there."""
        return numbers

    @property
    def kept(self) -> tuple[int, ...]:
        """Steps after which the state is kept for good."""
        return self.settings.keep_at

    # -- states and resources ---------------------------------------------------------------------------------------

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return all that learning goes on from, as a tree for `experiments.checkpoint`."""

    @abstractmethod
    def load_state(self, state: dict[str, Any]) -> None:
        """Take up what `state` gave; the same tasks were entered."""

    def check_memory(self, runs: int) -> None:
        """Raise ValueError if so many runs at a time need more memory than there is."""
        require_memory(self.learners.values(), runs)

    def export(self, folder: Path) -> None:  # noqa: B027  (not every kind has something to leave)
        """Leave the trained model in a folder, in a form that others can use."""

    def close(self) -> None:  # noqa: B027
        """Let go of environments and the like."""
