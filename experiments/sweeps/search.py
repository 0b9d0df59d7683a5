"""Hyperparameter search: all arms of a study are tuned by one rule.

Every arm has the same number of points. They are trained on seeds that the results do not use, and for a share of the
planned steps that contains a task switch. Tuning over the whole lifetime makes all methods look alike (Mesbahi et al.
2025).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isfinite, nan
from operator import itemgetter
from statistics import fmean
from typing import Any, Literal

from supple.engine.settings import Seeds
from supple.experiments.history.collect import load_runs
from supple.experiments.history.data import RunData
from supple.experiments.history.task_parts import mean_by_rollout, rollout_of
from supple.experiments.queue.queue import QueuedRun
from supple.metrics import learning_curve_area
from supple.registry.errors import UsageError

from .space import Choice, Random, Range, Values

ROUND = 4  # points of an arm that are drawn together, and can be trained in parallel
WORST = float("-inf")
RETURN, ROLLOUT_RETURN, LAST = "return", "rollout_return", "last"
GRID = "grid"

Method = Literal["grid", "random", "tpe"]
Scored = tuple[Values, float]


@dataclass(frozen=True)
class Search:
    """The rule by which the arms of a study are tuned.

    Attributes:
        values: Ranges to search, by name: a setting, which is searched for every arm, or a `{name}` in an arm's text.
        points: Number of points for each arm; 0 with "grid", where choices determine it.
        method: "grid" for every combination of an arm's choices, "random", or "tpe" for Optuna's tree-structured Parzen
            estimator (Bergstra et al. 2011).
        share: Share of the planned steps for which points are trained. A task must end within it.
        seeds: Seeds of these runs. The results must not use them.
        measure: The measure by which the best point is chosen (see `score`); "" for the default of the kind.
        seed: Seed of the search.
    """

    values: Mapping[str, Range | Choice]
    points: int = 0
    method: Method = "tpe"
    share: float = 0.2
    seeds: Seeds = (100, 101, 102)
    measure: str = ""
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError if the search is not possible."""
        if self.method == GRID:
            if self.points or (drawn := next((name for name, x in self.values.items() if isinstance(x, Range)), "")):
                what = "points: leave it out" if self.points else f"{drawn}: give {{ choice = [VALUES] }}"
                raise UsageError(f"search.{what}, since method grid trains every combination of the choices")
        elif self.points < 1 or not self.values:
            raise UsageError(
                "search: give points (1 or more) and a range to search, such as learning_rate = { low = …, high = … }"
            )
        for name, each in self.values.items():
            if problem := each.problem():
                raise UsageError(f"search.{name}: {problem}")

    def choose(
        self, names: Sequence[str], score: Callable[[Values], float | None]
    ) -> tuple[list[Values], Values | None]:
        """Return the points of an arm that are known so far, and the best one, or None if not all have been trained.

        The points of a round depend only on the scores of earlier rounds, not on which worker trained them or when.

        Args:
            names: Names of the values that are searched for this arm.
            score: Returns the score of a point, or None while it is unknown.
        """
        if not names:
            return [{}], {}
        found: list[Scored] = []
        while True:
            drawn = self._round(names, found)
            scores = [score(values) for values in drawn]
            known = [value for value in scores if value is not None]
            points = [values for values, _ in found] + drawn
            if len(known) < len(drawn):
                return points, None
            found += zip(drawn, known, strict=True)
            if len(found) >= self.points:
                best, value = max(found, key=itemgetter(1))
                if value == WORST:
                    raise UsageError(f"search: no point of {', '.join(names)} has a score: runs failed, or logged none")
                return points, best

    def _round(self, names: Sequence[str], before: Sequence[Scored]) -> list[Values]:
        values = {name: self.values[name] for name in names}
        if self.method == GRID:
            choices = {name: each.choice for name, each in values.items() if isinstance(each, Choice)}
            return [dict(zip(choices, point, strict=True)) for point in product(*choices.values())]
        if self.method == "random":
            return list(Random(self.points, values, self.seed).draw())
        return _suggested(values, before, self.seed)[: self.points - len(before)]


def _suggested(values: Mapping[str, Range | Choice], before: Sequence[Scored], seed: int) -> list[Values]:
    """Return the points that Optuna suggests for the next round. Raises UsageError if Optuna is not installed."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError(f"search method tpe needs Optuna: pip install 'supple[search]' ({error})") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spaces = {name: _distribution(each) for name, each in values.items()}
    # the first round is drawn at random; within a round, each point keeps its distance from those still in training
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=ROUND, constant_liar=True, multivariate=True, seed=seed * 1_000_003 + len(before)
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    worst = min((score for _, score in before if score > WORST), default=0.0)  # the score given to failed points
    for point, score in before:
        params = {name: _index(values[name], value) for name, value in point.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=spaces, value=max(score, worst)))
    asked = [study.ask(spaces).params for _ in range(ROUND)]
    return [{name: _value(values[name], value) for name, value in params.items()} for params in asked]


def _distribution(each: Range | Choice) -> Any:
    from optuna import distributions

    if isinstance(each, Choice):
        return distributions.CategoricalDistribution(range(len(each.choice)))  # indices, since values may be lists
    if isinstance(each.low, int) and isinstance(each.high, int):
        return distributions.IntDistribution(each.low, each.high, log=each.log)
    return distributions.FloatDistribution(each.low, each.high, log=each.log)


def _index(each: Range | Choice, value: Any) -> Any:
    return each.choice.index(value) if isinstance(each, Choice) else value


def _value(each: Range | Choice, value: Any) -> Any:
    return each.choice[value] if isinstance(each, Choice) else each.round(value)


def load_finished(queued: Iterable[QueuedRun]) -> list[RunData]:
    """Return the logs of runs, one per seed, without those that failed and seeds of stacks that diverged."""
    finished = [each for each in queued if not each.failed]
    return [run for each in finished for run in load_runs(each.folder) if str(run.seed) not in each.diverged]


def score_runs(queued: Sequence[QueuedRun], measure: str) -> tuple[float, float]:
    """Return the score of a point, and the seconds for which its runs were trained.

    The score is the mean over its runs, which must have ended, or −∞ if one of them failed or a seed diverged.
    """
    runs = load_finished(queued)
    mean = WORST if any(run.failed or run.diverged for run in queued) else fmean(score(run, measure) for run in runs)
    seconds = {run.path: max((row.get("time", 0.0) for row in run.metrics), default=0.0) for run in runs}  # by stack
    return mean if isfinite(mean) else WORST, sum(seconds.values())


def score(run: RunData, measure: str) -> float:
    """Return the score of a run: the mean over its tasks of a logged number. Higher is better.

    Args:
        run: The logs of the run.
        measure: `return` for the area under the curve of training returns (`metrics.learning_curve_area`),
            `rollout_return` for their mean by rollout (`history.task_parts.mean_by_rollout`), or a name in tasks.jsonl
            or metrics.jsonl, whose last value in each task is used. With `-` in front, lower values are better. With
            `@last` behind it, only the last task counts.

    Returns:
        The score; NaN if nothing was logged.
    """
    name, _, which = measure.removeprefix("-").partition("@")
    found: list[float] = []
    begun = [task for task in run.tasks if task.start < (run.spec.stop or task.end)]
    for task in begun[-1:] if which == LAST else begun:
        steps, returns = run.episodes.of(task)
        if name == RETURN:
            end = min(task.end, run.spec.stop or task.end)
            found += [learning_curve_area(steps, returns, task.start, end)] if len(steps) else []
        elif name == ROLLOUT_RETURN:
            rollout = rollout_of(run)
            found += [mean_by_rollout(steps - task.start, returns, rollout)] if len(steps) and rollout else []
        else:
            rows = [row for row in (*run.metrics, *run.outcomes) if row.get("task") == task.index]
            found += [float(value) for row in rows if isinstance(value := row.get(name), int | float)][-1:]
    return (-1 if measure.startswith("-") else 1) * fmean(found) if found else nan
