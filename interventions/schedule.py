"""Schedules: when an intervention is applied.

A schedule is a frozen value that answers whether it fires at a given moment. The training loop sends three kinds of
moments. A schedule answers False to kinds that do not concern it.

- Step moments (`previous < step`): the interval (previous, step] of environment steps has just passed. Vectorised
  environments pass several steps at once.
- Switch moments (`previous == step`, with `switch`): a new task begins now.
- Measurement moments (`previous == step`, with `metrics`).

Only `When` and `AtUpdate` remember something between moments. The hook keeps that memory in a dict, passes it in, and
saves it as JSON. Schedules can therefore be compared, hashed, printed and shared between arms without sharing state.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

Memory = dict[str, bool | int]  # of a schedule: what it saves between moments

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Moment:
    """The state of a run at which a schedule is evaluated. Steps are in the run's unit: environment steps of agents.

    Attributes:
        previous: Step of the last check; `start - 1` at the beginning of a run.
        step: Current step; equal to `previous` at a switch or a measurement.
        total: Planned length of the run, including its first `start` steps.
        start: Step at which the run began; positive in a fork.
        switch: Number of the task switch that happens now (1 = into the second task), else None.
        metrics: name → value, at a measurement only; for a stack of seeds those of one seed.
        updates: Optimizer steps since step 0 of the run at `previous` and at `step`. None: steps are updates.
    """

    previous: int
    step: int
    total: int
    start: int = 0
    switch: int | None = None
    metrics: Mapping[str, float] | None = None
    updates: tuple[int, int] | None = None

    def passes(self, step: int) -> bool:
        """Return whether `step` lies in (previous, step]; always False at a switch or a measurement."""
        return self.previous < step <= self.step

    def for_learner(self, learner: str) -> "Moment":
        """Return the same moment with this learner's metrics also under their names without the learner."""
        if self.metrics is None:
            return self
        prefix = f"{learner}/"
        of_learner = {name.removeprefix(prefix): v for name, v in self.metrics.items() if name.startswith(prefix)}
        return replace(self, metrics={**self.metrics, **of_learner})


class Schedule(ABC):
    """The base class of the schedules below. `str(schedule)` is its text after the `@`.

    `recurs`: It fires again and again, but not at the last step of a run, after which nothing is learned.
    """

    recurs = False

    @abstractmethod
    def due(self, moment: Moment, state: Memory) -> bool:
        """Return whether to fire now. `state` is the schedule's memory: a JSON-able dict, {} at first, changed here."""

    def problem(self, total: int, start: int = 0, switches: int | None = None) -> str | None:
        """Return why the schedule never fires in such a run ("never fires: …"), or None if it may fire.

        `total` and `start` are as in `Moment`. `switches` is the number of task switches, None if unknown.
        """
        return None


@dataclass(frozen=True)
class At(Schedule):
    """`@250000` or `@0.5`: once, when this step, or this fraction of the planned total, is reached.

    Attributes:
        amount: A step ≥ 0 (int), or a fraction of the total in [0, 1] (float).
    """

    amount: int | float

    def __post_init__(self) -> None:
        if not 0 <= self.amount <= (math.inf if isinstance(self.amount, int) else 1):
            raise ValueError(f"a step is an integer ≥ 0, and a fraction of the run lies in [0, 1], got {self.amount}")

    def resolve(self, total: int) -> int:
        """Return the step at which it fires in a run of `total` steps."""
        return self.amount if isinstance(self.amount, int) else round(self.amount * total)

    def due(self, moment: Moment, state: Memory) -> bool:
        return moment.passes(self.resolve(moment.total))

    def problem(self, total: int, start: int = 0, switches: int | None = None) -> str | None:
        step = self.resolve(total)
        if step > total:
            return f"never fires: the run has {total} steps"
        return f"never fires: the run starts at step {start}" if step < start else None

    def __str__(self) -> str:
        return _format_number(self.amount)


@dataclass(frozen=True)
class Every(Schedule):
    """`@every:1000` or `@every:0.1`: whenever a multiple of the period is reached, never at step 0.

    Attributes:
        period: A number of steps from 1 (int), or a fraction of the total in (0, 1] (float). Multiples are counted from
            step 0 of the run and not from the start of a fork, so a fork fires at the steps at which its trunk would.
    """

    period: int | float
    recurs = True

    def __post_init__(self) -> None:
        if not 0 < self.period <= (math.inf if isinstance(self.period, int) else 1):
            raise ValueError(f"a period is at least 1 step, or a fraction of the run in (0, 1], got {self.period}")

    def resolve(self, total: int) -> int:
        """Return the period in steps in a run of `total` steps, at least 1."""
        return self.period if isinstance(self.period, int) else max(1, round(self.period * total))

    def due(self, moment: Moment, state: Memory) -> bool:
        period = self.resolve(moment.total)
        return moment.step // period > max(moment.previous, 0) // period

    def problem(self, total: int, start: int = 0, switches: int | None = None) -> str | None:
        period = self.resolve(total)
        if total // period * period < max(start, 1):
            return f"never fires: no multiple of {period} lies in steps {max(start, 1)} to {total}"
        return None

    def __str__(self) -> str:
        return f"every:{_format_number(self.period)}"


@dataclass(frozen=True)
class AtUpdate(Schedule):
    """`@updates:1000`: whenever a multiple of this many optimizer steps is reached. `@update:1000`: once, at that one.

    It fires at the first moment between two calls of `Work.advance` that has reached the count: PPO makes all updates
    of a rollout in one call. Updates are counted from step 0 of the run, in forks and resumed runs too.

    Attributes:
        number: A number of optimizer steps from 1.
        recurs: Whether it fires at all multiples.
    """

    number: int
    recurs: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.number, int) or self.number < 1:
            raise ValueError(f"a number of updates must be a whole number of 1 or more, got {self.number}")

    def due(self, moment: Moment, state: Memory) -> bool:
        previous, now = moment.updates or (moment.previous, moment.step)
        reached = now // self.number > max(previous, 0) // self.number
        if fires := reached and (self.recurs or previous < self.number):
            state["fired"] = True
        return fires

    def __str__(self) -> str:
        return f"update{'s' * self.recurs}:{self.number}"


@dataclass(frozen=True)
class AtTask(Schedule):
    """`@task`: at every task switch. `@task:3`: only at the third, which leads to the fourth task."""

    number: int | None = None

    def __post_init__(self) -> None:
        if self.number is not None and (not isinstance(self.number, int) or self.number < 1):
            raise ValueError(f"the number of a task switch must be 1 or more, got {self.number}")

    def due(self, moment: Moment, state: Memory) -> bool:
        return moment.switch is not None and self.number in (None, moment.switch)

    def problem(self, total: int, start: int = 0, switches: int | None = None) -> str | None:
        if switches is not None and switches < (self.number or 1):
            return f"never fires: the run has {switches} task switch{'es' if switches != 1 else ''}"
        return None

    def __str__(self) -> str:
        return "task" if self.number is None else f"task:{self.number}"


@dataclass(frozen=True)
class AtStart(Schedule):
    """`@start`: once, at the beginning of the run or fork, before its first step."""

    def due(self, moment: Moment, state: Memory) -> bool:
        return moment.passes(moment.start)

    def __str__(self) -> str:
        return "start"


@dataclass(frozen=True)
class When(Schedule):
    """`@when:srank<20`, `@when:srank<20,clear=30,least=50_000`: at the measurement at which the condition becomes true.

    It fires if the condition holds and it is armed. It is armed at the beginning, and again after a measurement that
    clears the condition. A measurement without this metric, or with NaN, changes nothing. ±∞ is compared like any
    number, in single runs, stacks and integrations alike.

    Attributes:
        metric, op, threshold: The condition.
        clear: The value that clears the condition, on the other side of the threshold (hysteresis). If None, any value
            clears it for which it does not hold.
        least: The smallest distance to the last firing, as a number of steps (int) or a fraction of the total (float).
            If the condition holds sooner, it fires after that distance if it still holds.
    """

    metric: str
    op: str
    threshold: float
    clear: float | None = None
    least: int | float = 0
    recurs = True

    def __post_init__(self) -> None:
        if self.op not in OPERATORS:
            raise ValueError(f"the operator of a condition must be one of {' '.join(OPERATORS)}, got {self.op!r}")
        if not math.isfinite(self.threshold):
            raise ValueError(f"a threshold must be finite, got {self.threshold}")
        if self.clear is not None and not (math.isfinite(self.clear) and self._is_beyond(self.clear, self.threshold)):
            side = "above" if self.op.startswith("<") else "below"
            raise ValueError(f"clear lies {side} the threshold {self.threshold!r}, where the condition is over")
        if self.least < 0 or (isinstance(self.least, float) and not self.least <= 1):
            raise ValueError(f"least must be a number of steps or a fraction of the run, got {self.least}")

    def due(self, moment: Moment, state: Memory) -> bool:
        if moment.metrics is None or self.metric not in moment.metrics:
            return False
        state["measured"] = True
        if math.isnan(value := moment.metrics[self.metric]):
            return False
        holds = OPERATORS[self.op](value, self.threshold)
        if not holds and (self.clear is None or self._is_beyond(value, self.clear)):
            state["held"] = False
        if not holds or state.get("held") or moment.step < state.get("next", 0):
            return False
        state["held"] = state["fired"] = True
        if self.least:
            least = self.least if isinstance(self.least, int) else round(self.least * moment.total)
            state["next"] = moment.step + least
        return True

    def _is_beyond(self, value: float, bound: float) -> bool:
        """Return whether a value has reached a bound from the side on which the condition holds."""
        return value >= bound if self.op.startswith("<") else value <= bound

    def __str__(self) -> str:
        options = {"clear": self.clear, "least": self.least or None}
        texts = [f",{name}={_format_number(value)}" for name, value in options.items() if value is not None]
        return f"when:{self.metric}{self.op}{self.threshold!r}{''.join(texts)}"


def _format_number(value: int | float) -> str:
    """Return a fraction as decimal digits with a point and no exponent, by which the grammar tells it from a step."""
    digits = str(value) if isinstance(value, int) else f"{Decimal(repr(float(value))):f}"
    return digits if isinstance(value, int) or "." in digits else f"{digits}.0"
