"""The scores of each arm: plasticity score, final returns, generalization gap, interventions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from supple.agents.presets import FINAL, LATER, MEAN, MEASURES
from supple.experiments.history.collect import notes_of_unfinished
from supple.experiments.history.data import TAIL, ComparisonData, RunData, Segment, interventions_in
from supple.metrics import (
    Array,
    Score,
    generalization_gap,
    human_normalized,
    human_normalized_score,
    iqm,
    plasticity_score,
)
from supple.reports.tables.areas import areas, mean_return
from supple.reports.tables.differences import Measure, group_by, lead, measures_of, missing_lead
from supple.reports.tables.metrics import IN_TABLES, means_at_events
from supple.reports.tables.old_tasks import OldTasks, read_old_tasks
from supple.reports.tables.statistics import Spread, mean

from .areas import ArmShares, shares


@dataclass(eq=False)
class ArmScores:
    """The scores of one arm. Arrays are (seeds, cycles, environments), with NaN where nothing was measured.

    Attributes:
        seeds: The seeds of the runs.
        finished: Whether each run has reached the final window of its last task, (seeds,).
        finals: Mean return of the episodes that ended in the last 15 % of a task (`final_window_return`).
        evaluations: Mean return of the last evaluation in those 15 %.
        tests: The same with held-out friction.
        gaps: finals − tests, 0 for failures.
        gap_change: IQM of the last minus the first cycle's gap over seeds and environments.
        exploded: Whether physics exploded in the task.
        explosions: The number of explosions.
        interventions: The number of interventions.
        at_events: Means over all interventions, by the names of metrics.
        measures: The numbers by which arms are compared, by name, (seeds, environments).
        plasticity: The plasticity score, or None if it is undefined (see `score`).
        human: The human-normalised score, or None if it is undefined (see `score`).
        shares: The shares of a fresh agent, if there is one.
    """

    seeds: tuple[int, ...]
    finished: NDArray[np.bool_]
    finals: Array
    evaluations: Array
    tests: Array
    gaps: Array
    gap_change: float
    exploded: NDArray[np.bool_]
    explosions: int
    interventions: int
    at_events: dict[str, float]
    measures: dict[str, Array]
    plasticity: Score | None = None
    human: Score | None = None
    shares: ArmShares | None = None

    @property
    def last(self) -> Array:
        """Final returns of the last cycle, (seeds, environments)."""
        return self.finals[:, -1]

    def of_finished(self, values: Array) -> Array:
        """Return values, (seeds, environments), with NaN for unfinished runs."""
        return np.where(self.finished[:, None], values, np.nan)

    def spread(self, measure: str, environment: int) -> Spread:
        """Return the numbers of a measure in one environment."""
        return Spread(self.measures[measure][:, environment], self.seeds)

    @property
    def mean_gaps(self) -> Array:
        """Generalization gaps as means over seeds, (cycles, environments)."""
        found: Array = mean(self.gaps, axis=0)
        return found


@dataclass(eq=False)
class AgentScores:
    """The scores of all arms of a report.

    Attributes:
        environments: One label for each position in the sequence.
        places: The positions that have a task after the fork point. The others have no difference between arms.
        cycles: The number of passes through the sequence.
        arms: The scores of each arm, by its label.
        notes: Lines on what is missing.
        measures: The numbers by which arms are compared.
        human_from: The returns that were human-normalised, "evaluation" or "training", or None.
        old_tasks: What became of old tasks in each variant that was evaluated on them.
    """

    environments: tuple[str, ...]
    places: tuple[int, ...]
    cycles: int
    arms: dict[str, ArmScores]
    notes: list[str] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)
    human_from: str | None = None
    old_tasks: list[OldTasks] = field(default_factory=list)

    @property
    def end(self) -> str:
        """A description of the steps over which final returns are averaged."""
        several = len(self.environments) > 1
        of = "each environment’s last task" if several else "the last task" if self.cycles > 1 else "the run"
        return f"the last {100 * TAIL:.0f} % of {of}"

    @property
    def names(self) -> list[str]:
        """The families of the measures, the one that leads the report first."""
        return list(dict.fromkeys(measure.group for measure in self.measures))

    def define(self, name: str) -> str:
        """Return the definition of a family of measures, as a sentence."""
        meaning = {
            MEAN: "area under the learning curves after the fork point, divided by the number of steps",
            LATER: "area under the learning curves of all tasks but the first, divided by the number of steps",
            FINAL: f"mean training return in {self.end}, or of the last episode before if none ended there",
        }
        return f"{name.capitalize()}: {meaning[name]}."


def score(data: ComparisonData) -> AgentScores:
    """Return the scores of all arms.

    An explosion anywhere in a (run, task) makes that cell a failure. The paper filters "any run resulting in a
    physics explosion" without saying how a run that recovered counts; this is the strict reading, applied per task.

    The plasticity score is relative to the runs of the report, so it needs at least two finished runs. Unfinished runs
    are left out, and so are environments in which all runs return the same. A run that finished no episode in a task is
    missing there. `notes` reports all of this.

    The human-normalised score also uses the last cycle of finished runs, and only exists if every environment is in
    the table of `human_normalized`. It uses the last evaluation in the final 15 % if every finished run has one in
    every environment, else the training returns of those 15 %. All arms use the same source, because the exploring
    policy scores lower.
    """
    labels = position_labels(data.first.tasks)
    cycles = 1 + max(run.tasks[-1].cycle for run in data.runs)
    fork = data.fork_step or 0
    arms = {label: _score_arm(runs, (len(runs), cycles, len(labels)), fork) for label, runs in data.arms.items()}
    places = tuple(dict.fromkeys(task.index % len(labels) for task in data.first.tasks if task.end > fork))
    share_of_arm, notes = shares(data, len(labels))
    for label, share in share_of_arm.items():
        arms[label].shares = share
    unfinished = notes_of_unfinished(data, "final scores leave it out", lambda run: run.tasks[-1].window)
    all_notes = [*data.notes, *unfinished, *notes]
    scores = AgentScores(labels, tuple(sorted(places)), cycles, arms, all_notes)
    scores.measures = _measures(data, scores)
    scores.notes += [
        f"{label}, seed {arm.seeds[i]}: no episode ended in the last task of {labels[j]}, so its final return is "
        "missing there"
        for label, arm in arms.items()
        for i, j in np.argwhere(np.isnan(arm.last) & arm.finished[:, None])
    ]
    _add_plasticity(scores, data)
    _add_human(scores, data)
    scores.old_tasks = read_old_tasks(data, areas)
    scores.notes += [f"no measures of old tasks: {old.scale.words}" for old in scores.old_tasks if not old.known]
    return scores


def position_labels(tasks: Sequence[Segment]) -> tuple[str, ...]:
    """Return a label for each position in the sequence: the environment, with a number if it occurs more than once."""
    names = [task.env for task in tasks if task.cycle == tasks[0].cycle]
    return tuple(
        name if names.count(name) == 1 else f"{name} ({names[: i + 1].count(name)})" for i, name in enumerate(names)
    )


def _measures(data: ComparisonData, scores: AgentScores) -> list[Measure]:
    """Return the measures by which arms are compared, for each environment: the one that leads the report first.

    If no part of the first task counts, since the fork comes after it or it is in another environment, both mean
    returns are the same, and one of them is left out.
    """
    leads, first, *later = data.first.leads, *data.first.tasks
    one = len(scores.environments) == 1  # a share is of all environments, and has a table of its own
    shares = {label: arm.shares.in_all for label, arm in scores.arms.items() if arm.shares and one}
    measures = []
    for i in scores.places:
        place = scores.environments[i] if len(scores.environments) > 1 else ""
        again = any(task.index % len(scores.environments) == i for task in later)
        same = i > 0 or (data.fork_step or 0) >= first.end
        left_out = LATER if not again or (same and leads != LATER) else MEAN if same else ""
        for name in (name for name in MEASURES if name != left_out):
            by_label = {label: arm.spread(name, i) for label, arm in scores.arms.items()}
            full = f"{name} in {place}" if place else name
            of_name = measures_of(data, full, by_label, shares=shares)
            measures += [replace(each, family=name, place=place, meaning=scores.define(name)) for each in of_name]
    scores.notes += missing_lead(measures, leads)
    by_variant = group_by(measures, lambda measure: measure.variant).values()
    return lead(chain.from_iterable(by_variant), leads)


def _score_arm(runs: Sequence[RunData], shape: tuple[int, int, int], fork: int) -> ArmScores:
    finals, evaluations, tests = (np.full(shape, np.nan) for _ in range(3))
    exploded = np.zeros(shape, dtype=bool)
    for seed, run in enumerate(runs):
        burst = {event.get("task") for event in run.of_kind("explosion")}
        for task in run.tasks:
            cell = seed, task.cycle - run.tasks[-1].cycle - 1, task.index % shape[2]  # from the last cycle back
            finals[cell] = run.final_return(task, since=fork * (fork < task.end))  # none of the trunk
            evaluations[cell] = _last_evaluation(run, "eval/return", task)
            tests[cell] = _last_evaluation(run, "eval/return_friction", task)
            exploded[cell] = task.index in burst or run.episodes.exploded[run.episodes.tasks == task.index].any()
    # Without a test there is no gap, not even the 0 of a failure.
    tested = np.isfinite(tests)
    trained = np.where(tested, finals, np.nan)
    gaps = [generalization_gap(*cells) for cells in zip(trained, tests, exploded & tested, strict=True)]
    changes = np.concatenate([gap.change for gap in gaps])
    changes = changes[~np.isnan(changes)]
    events = interventions_in(runs)
    return ArmScores(
        seeds=tuple(run.seed for run in runs),
        finished=np.array([run.last_step >= run.tasks[-1].window for run in runs]),
        finals=finals,
        evaluations=evaluations,
        tests=tests,
        gaps=np.stack([gap.gap for gap in gaps]),
        gap_change=iqm(changes) if changes.size else float("nan"),
        exploded=exploded,
        explosions=sum(  # logged as events and on episodes, in some logs only as one of them
            max(len(run.of_kind("explosion")), int(run.episodes.exploded.sum())) for run in runs
        ),
        interventions=len(events),
        at_events=means_at_events(events, IN_TABLES),
        measures={
            MEAN: np.stack([mean_return(run, fork, shape[2]) for run in runs]),
            LATER: np.stack([mean_return(run, max(fork, run.tasks[0].end), shape[2]) for run in runs]),
            FINAL: finals[:, -1],
        },
    )


def _last_evaluation(run: RunData, name: str, task: Segment) -> float:
    """Return the last logged value of a task if it is in the final 15 %, else NaN."""
    steps, values = run.series(name, task.index)
    late = values[steps > task.window]
    return float(late[-1]) if late.size else float("nan")


def _add_plasticity(scores: AgentScores, data: ComparisonData) -> None:
    arms = scores.arms.items()
    if sum(arm.finished.sum() for _, arm in arms) < 2:
        scores.notes.append("no plasticity score: it is relative to the other runs and needs two finished ones")
        return
    # Such a low return means broken physics, except in games (Skiing: −17,098 with random play).
    games = all(task.env.startswith("ALE/") for task in data.first.tasks)
    floor = -np.inf if games else -500.0
    finals = {label: arm.of_finished(arm.last) for label, arm in arms}
    if low := sum(int((of_arm < floor).sum()) for of_arm in finals.values()):
        scores.notes.append(
            f"{low} final returns are below {floor:g} and count as failures (0) in the plasticity score: such a return "
            "means broken physics in MuJoCo tasks. Where it is normal, compare the returns instead"
        )
    exploded = {label: arm.exploded[:, -1] & arm.finished[:, None] for label, arm in arms}
    result: dict[str, Score] = {}
    count = len(scores.environments)
    for labels in group_by(finals, lambda label: _environments(data.arms[label], count)).values():
        result |= plasticity_score({label: finals[label] for label in labels}, exploded, floor)
    scaled = np.isfinite(np.concatenate([of_arm.normalized for of_arm in result.values()])).any(axis=0)
    if not scaled.all():
        same = ", ".join(np.array(scores.environments)[~scaled])
        scores.notes.append(f"the plasticity score leaves out {same}: all runs that have a final return have the same")
    for label, arm in arms:
        arm.plasticity = result[label] if np.isfinite(result[label].iqm) else None


def _add_human(scores: AgentScores, data: ComparisonData) -> None:
    arms, count = scores.arms, len(scores.environments)
    games = {label: _environments(runs, count) for label, runs in data.arms.items()}
    known = [human_normalized(game, 0.0) is not None for game in chain.from_iterable(games.values())]
    if not all(known) or not any(arm.finished.any() for arm in arms.values()):
        return
    evaluated = all(np.isfinite(arm.evaluations[arm.finished, -1]).all() for arm in arms.values())
    scores.human_from = "evaluation" if evaluated else "training"
    for label, arm in arms.items():
        returns = arm.of_finished(arm.evaluations[:, -1] if evaluated else arm.last)
        if np.isfinite(returns).any():
            arm.human = human_normalized_score(returns, games[label])


def _environments(runs: Sequence[RunData], count: int) -> tuple[str, ...]:
    """Return the first `count` environments of an arm. Variants may have their own."""
    return tuple(task.env for task in runs[0].tasks[:count])


def interval(score: Score | None) -> tuple[float, float] | None:
    """Return the 95 % interval (low, high), or None for a single run and for equal ones."""
    return (score.low, score.high) if score is not None and score.low < score.high else None
