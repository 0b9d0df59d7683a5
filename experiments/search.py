"""The search for the best point of each arm: one rule of tuning, the same for all arms of a study.

Points are trained on seeds of their own, for a share of the planned steps that has a switch in it, and every arm has as
many of them. Tuning over the whole lifetime makes all methods look alike (Mesbahi et al. 2025).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from ..metrics import learning_curve_area
from .errors import UsageError
from .points import Choice, Random, Range, Values
from .settings import Seeds

if TYPE_CHECKING:
    from .jobs import Job
    from .report.collect import RunData

ROUND = 4  # points of an arm that are drawn at once: so many can be trained side by side
WORST = float("-inf")
RETURN, LAST = "return", "last"

Method = Literal["random", "tpe"]
Scored = tuple[Values, float]


@dataclass(frozen=True)
class Search:
    """Say how the arms of a study are tuned.

    values: what is searched, by name: a setting, which is searched for every arm, or a `{name}` in the text of an arm.
    points: so many for every arm. method: drawn at random, or by the tree-structured Parzen estimator (Bergstra et al.
    2011) of Optuna. share: of the planned steps that points are trained for, in which a task has to end. seeds: that
    they are trained with, and results are not. measure: by which the best is chosen, see `score`; "": the kind's.
    """

    values: Mapping[str, Range | Choice]
    points: int
    method: Method = "tpe"
    share: float = 0.2
    seeds: Seeds = (100, 101, 102)
    measure: str = ""
    seed: int = 0

    def check(self) -> None:
        """Raise UsageError for what cannot be searched."""
        if self.points < 1 or not self.values:
            raise UsageError(
                "search: give points, 1 or more, and what is searched: learning_rate = { low = …, high = … }"
            )
        for name, each in self.values.items():
            if problem := each.problem():
                raise UsageError(f"search.{name}: {problem}")

    def tried(
        self, names: Sequence[str], score: Callable[[Values], float | None]
    ) -> tuple[list[Values], Values | None]:
        """Return an arm's points as far as they are known, and the best where all have been trained.

        names: those of what is searched for this arm. score: values → how good they are, None while that is not known.
        A round's points depend on the scores of the rounds before it alone: not on who trained them, and when."""
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
                return points, max(found, key=lambda each: each[1])[0]

    def _round(self, names: Sequence[str], before: Sequence[Scored]) -> list[Values]:
        values = {name: self.values[name] for name in names}
        if self.method == "random":
            return list(Random(self.points, values, self.seed).draw())
        return _suggested(values, before, self.seed)[: self.points - len(before)]


def _suggested(values: Mapping[str, Range | Choice], before: Sequence[Scored], seed: int) -> list[Values]:
    """Return a round's points, as Optuna's estimator suggests them after those before. Raises UsageError."""
    try:
        import optuna
    except ImportError as error:
        raise UsageError(f"search by tpe needs Optuna: pip install 'supple[search]' ({error})") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    spaces = {name: _distribution(each) for name, each in values.items()}
    # the first round is drawn at random; within a round each point keeps away from those that are still in training
    sampler = optuna.samplers.TPESampler(
        n_startup_trials=ROUND, constant_liar=True, multivariate=True, seed=seed * 1_000_003 + len(before)
    )
    study = optuna.create_study(direction="maximize", sampler=sampler)
    worst = min((score for _, score in before if score > WORST), default=0.0)  # what failed is as bad as the worst
    for point, score in before:
        params = {name: _index(values[name], value) for name, value in point.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=spaces, value=max(score, worst)))
    asked = [study.ask(spaces).params for _ in range(ROUND)]
    return [{name: _value(values[name], value) for name, value in params.items()} for params in asked]


def _distribution(each: Range | Choice) -> Any:
    from optuna import distributions

    if isinstance(each, Choice):
        return distributions.CategoricalDistribution(range(len(each.choice)))  # places: values may be lists
    if isinstance(each.low, int) and isinstance(each.high, int):
        return distributions.IntDistribution(each.low, each.high, log=each.log)
    return distributions.FloatDistribution(each.low, each.high, log=each.log)


def _index(each: Range | Choice, value: Any) -> Any:
    return each.choice.index(value) if isinstance(each, Choice) else value


def _value(each: Range | Choice, value: Any) -> Any:
    return each.choice[value] if isinstance(each, Choice) else each.rounded(value)


def runs_of(jobs: Sequence["Job"]) -> list["RunData"]:
    """Return what the runs of these jobs logged, one for each seed, but of those that failed."""
    from .report.collect import load_runs

    return [run for job in jobs if not job.failed for run in load_runs(job.folder)]


def seconds_of(runs: Sequence["RunData"]) -> float:
    """Return how long these were trained; those of a stack were together."""
    return sum({run.path: max((row.get("time", 0.0) for row in run.metrics), default=0.0) for run in runs}.values())


def score_of_jobs(jobs: Sequence["Job"], measure: str) -> tuple[float, float]:
    """Return how good a point is whose runs are at their ends, the mean over them, or −∞ if one of them failed; and the
    seconds that they were trained for."""
    runs = runs_of(jobs)
    found = WORST if any(job.failed for job in jobs) else fmean(score(run, measure) for run in runs)
    return found if isfinite(found) else WORST, seconds_of(runs)


def score(run: "RunData", measure: str) -> float:
    """Return how good a run is, the more the better: the mean over its tasks of a number that was logged.

    measure: `return`, the area under the curve of training returns (`metrics.learning_curve_area`); or a name in
    tasks.jsonl or metrics.jsonl, of which the last value in each task counts. A `-` before it: less is better. `@last`
    behind it: of the last task alone. NaN where nothing was logged.
    """
    name, _, which = measure.removeprefix("-").partition("@")
    found: list[float] = []
    for task in run.tasks[-1:] if which == LAST else run.tasks:
        if name == RETURN:
            own = run.episodes.tasks == task.index
            end = min(task.end, run.config.get("stop_step") or task.end)
            if own.any():
                found.append(learning_curve_area(run.episodes.steps[own], run.episodes.returns[own], task.start, end))
            continue
        rows = [row for row in (*run.metrics, *run.outcomes) if row.get("task") == task.index]
        found += [float(value) for row in rows if isinstance(value := row.get(name), int | float)][-1:]
    return (-1 if measure.startswith("-") else 1) * fmean(found) if found else nan
