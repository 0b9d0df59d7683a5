"""The numbers of the results pages whose runs a suite trains, as rows: of a sweep, and of the files in docs/results."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from supple.engine.kinds import as_text
from supple.experiments.results import Results
from supple.metrics import generalization_gap, iqm, plasticity_score

RESULTS = Path(__file__).parent / "results"
COLUMNS = ("study", "arm", "seed", "column", "value")
ALL = "all"  # in place of the seed of a number that is not of one run
# returns up to these are those of a policy with one action
ONE_ACTION = {"CartPole-v1": 10.0, "Acrobot-v1": -395.0, "MountainCar-v0": -399.0}
SOLVED = 475.0  # CartPole-v1's own threshold
LAST, PARTS = 100, 20  # training episodes of a score; parts of a learning curve
EVALUATED_AGENTS = ("cartpole-ppo", "cartpole-dqn")  # studies of `learning` whose score is an evaluation
Row = tuple[str, str, int | str, str, float]


@dataclass(frozen=True)
class Suite:
    """How the numbers of a suite's pages are found.

    Attributes:
        measured: Yields the rows of a sweep.
        committed: Yields the rows of the files in docs/results that are not rows already.
        shown: A pattern for the columns that the table shows.
    """

    measured: Callable[[Results], Iterable[Row]]
    committed: Callable[[], Iterable[Row]] = tuple
    shown: str = ""


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _groups(frame: pd.DataFrame) -> Iterator[tuple[tuple[str, str, int], pd.DataFrame]]:
    """Yield (study, arm, seed) and the rows of each run."""
    yield from frame.groupby(["study", "arm", "seed"], sort=False)


# -- numbers of the report, which scores.json has ----------------------------------------------------------------------


def of_scores(study: str, scores: dict[str, Any], columns: dict[str, str]) -> Iterator[Row]:
    """Yield the numbers of a scores.json. `columns` has the entry of an arm, (seeds, …), or `ENTRY/…/per_seed`."""
    for part in scores["benchmarks"].values() if "benchmarks" in scores else [scores]:
        for arm, entries in part["arms"].items():
            for entry, column in columns.items():
                values: Any = entries
                for name in entry.split("/"):
                    values = values and values[name]
                for seed, value in zip(entries["seeds"], values or (), strict=False):
                    yield study, arm, seed, column, float(np.nanmean(np.array(value, float)))


def from_files(files: dict[str, Sequence[str]], columns: dict[str, str]) -> Callable[[], Iterator[Row]]:
    """Return a function that yields the numbers of scores files, by study."""

    def rows() -> Iterator[Row]:
        for study, names in files.items():
            for name in names:
                yield from of_scores(study, json.loads((RESULTS / name).read_text(encoding="utf-8")), columns)

    return rows


def from_report(columns: dict[str, str]) -> Callable[[Results], Iterator[Row]]:
    """Return a function that yields the numbers of the reports of a sweep's studies."""

    def rows(results: Results) -> Iterator[Row]:
        for study, scores in results.scores.items():
            yield from of_scores(study, scores, columns)

    return rows


# -- gym-control -------------------------------------------------------------------------------------------------------


def levels(results: Results) -> Iterator[Row]:
    for (study, arm, seed), tasks in _groups(results.parts()):
        env = results.studies[study].first.settings.env
        yield from _levels(study, arm, seed, tasks["rollout_return"], env)


def committed_levels() -> Iterator[Row]:
    """Yield the rows of docs/results/worlds, whose arms have the settings of their points."""
    for env in ("CartPole-v1", "Acrobot-v1", "LunarLander-v3"):
        for row in lines_of(RESULTS / "worlds" / f"{env.partition('-')[0].lower()}.jsonl"):
            own = row["settings"]
            study = {"LunarLander-v3": "lunarlander"}.get(env, "methods")
            if study == "methods" and own == {"learning_rate": 1e-3}:
                study = "untuned"
            if own.get("hook") in (["weight_clip(kappa=2)"], ["weight_clip(kappa=3)"]):
                study = "clip"
            yield from _levels(study, f"env={env} · {arm_of(own, study)}", row["key"][2], row["levels"], env)


def arm_of(settings: dict[str, Any], study: str = "methods") -> str:
    """Return the arm of the suite that has these settings. Untuned arms have the learning rate of the preset."""
    if settings.get("fresh"):
        return "fresh"
    own = {name: value for name, value in settings.items() if name != "hook"}
    own = own if study == "methods" else {}
    return " + ".join([*settings.get("hook", ["none"]), *(f"{name}={_text(own[name])}" for name in own)])


def _text(value: Any) -> str:
    return as_text(value).replace(" ", "")


def _levels(study: str, arm: str, seed: int, returns: Sequence[float], env: str) -> Iterator[Row]:
    yield study, arm, seed, "return", fmean(returns)
    yield from ((study, arm, seed, f"level {level}", value) for level, value in enumerate(returns))
    if (lowest := ONE_ACTION.get(env)) is not None:
        lost = sum(value <= lowest for value in [*returns][1:])
        yield study, arm, seed, "shifted levels at the return of one action", lost


# -- nine-rooms, priming, replay-ratio ---------------------------------------------------------------------------------

ROOMS = {"mean_return_per_seed": "mean return", "final_return_per_seed": "return at the end"}
EVALUATED = {"evaluation_return": "evaluation"}


def goals(results: Results) -> Iterator[Row]:
    quarters = results.parts(4, limit=100)
    yield from _goals(quarters[quarters["study"] == "nine-rooms"])
    yield from of_scores("tuned", results.scores["tuned"], ROOMS) if "tuned" in results.studies else ()


def committed_goals() -> Iterator[Row]:
    quarters = pd.DataFrame(lines_of(RESULTS / "worlds" / "nine-rooms.parts.jsonl"))
    yield from _goals(quarters.assign(study="nine-rooms"))
    for name in ("nine-rooms-parseval.json", "nine-rooms-when.json"):
        rows = from_files({"tuned": [f"worlds/{name}"]}, ROOMS)()
        yield from (row for row in rows if "parseval" in name or re.search("@", row[1]))  # the others are in both files


def _goals(quarters: pd.DataFrame) -> Iterator[Row]:
    last = quarters[quarters["part"] == 3]
    for (study, arm, seed), own in _groups(last):
        for task, reached, value in zip(own["task"], own["reached"], own["return"], strict=True):
            yield study, arm, seed, f"goal {task + 1} reached, %", reached
            yield study, arm, seed, f"goal {task + 1}", value
        yield study, arm, seed, "all goals", own["return"].mean()


def thirds(study: str) -> Suite:
    """Return how the numbers of a suite of one task and a report's evaluation are found."""

    def measured(results: Results) -> Iterator[Row]:
        yield from _thirds(results.parts(3))
        yield from from_report(EVALUATED)(results)

    def committed() -> Iterator[Row]:
        yield from _thirds(pd.DataFrame(lines_of(RESULTS / "worlds" / f"{study}.parts.jsonl")).assign(study=study))
        yield from from_files({study: [f"worlds/{study}.json"]}, EVALUATED)()

    return Suite(measured, committed)


def _thirds(parts: pd.DataFrame) -> Iterator[Row]:
    for (study, arm, seed), own in _groups(parts):
        yield from (
            (study, arm, seed, f"third {part + 1}", x) for part, x in zip(own["part"], own["return"], strict=True)
        )


# -- minatar-ppo, slippery-ant, ppo-epochs ----------------------------------------------------------------------------


def games(results: Results) -> Iterator[Row]:
    """Yield the return at the end of each game, and the sum over games of it by the fresh agents' mean."""
    for study, scores in results.scores.items():
        ends = {arm: np.array(entry["final_return_per_seed"], float) for arm, entry in scores["arms"].items()}
        names = [env.split("/")[-1].partition("-")[0] for env in scores["environments"]]
        fresh = ends["fresh"].mean(0)
        for arm, entry in scores["arms"].items():
            for seed, returns in zip(entry["seeds"], ends[arm], strict=True):
                yield study, arm, seed, "sum of shares", (returns / fresh).sum()
                yield from ((study, arm, seed, name, value) for name, value in zip(names, returns, strict=True))


def by_part(count: int, metrics: dict[str, str]) -> Callable[[Results], Iterator[Row]]:
    """Return a function that yields the mean return in each part of the tasks, and the last value of each metric.

    Each task has `count` parts, and parts are counted through all tasks. With several, it also yields the mean return
    of all parts after the first task.
    """

    def rows(results: Results) -> Iterator[Row]:
        columns = {"return": "return", **{name: f"{metric}.last" for name, metric in metrics.items()}}
        for (study, arm, seed), own in _groups(results.parts(count, list(metrics.values()))):
            for name, column in columns.items():
                yield from ((study, arm, seed, f"part {at} {name}", x) for at, x in enumerate(own[column], 1))
            if len(own) > count:
                yield study, arm, seed, "return after the first task", own["return"][count:].mean()

    return rows


# -- cycling-mujoco ----------------------------------------------------------------------------------------------------

ENDS = {"dormant units, %": "agent/dormant_fraction", "srank": "agent/srank"}


@dataclass(frozen=True)
class CyclingRun:
    """One run over cycles of environments; all arrays are (cycles, environments)."""

    training: Any
    friction: Any
    exploded: Any
    ends: dict[str, Any]


def streams(results: Results) -> Iterator[Row]:
    tasks, events = results.parts(1, list(ENDS.values())), results.events
    for study, scores in results.scores.items():
        runs: dict[str, dict[int, CyclingRun]] = {}
        for arm, entry in scores["arms"].items():
            for i, seed in enumerate(entry["seeds"]):
                training, friction = (np.array(entry[name][i], float) for name in ("train_return", "test_return"))
                own = tasks[(tasks["study"] == study) & (tasks["arm"] == arm) & (tasks["seed"] == seed)]
                of_run = events[(events["study"] == study) & (events["arm"] == arm) & (events["seed"] == seed)]
                burst = of_run.loc[of_run["event"] == "explosion", "task"].astype(int) if len(of_run) else []
                exploded = np.isin(np.arange(training.size), burst).reshape(training.shape)
                ends = {name: own[f"{metric}.last"].to_numpy().reshape(training.shape) for name, metric in ENDS.items()}
                runs.setdefault(arm, {})[seed] = CyclingRun(training, friction, exploded, ends)
        yield from _streams(study, runs, scores["environments"])


def committed_streams() -> Iterator[Row]:
    runs: dict[str, dict[int, CyclingRun]] = {}
    for row in lines_of(RESULTS / "cycling" / "runs.jsonl"):
        training, friction = (np.array(row[name], float) for name in ("training", "friction"))
        exploded = np.isin(np.arange(training.size).reshape(training.shape), row["exploded"])
        ends = {name: np.reshape(row["ends"][metric], training.shape) for name, metric in ENDS.items()}
        own = {name: value for name, value in row["settings"].items() if name != "hook"}
        variant = ", ".join(f"{name}={_text(value)}" for name, value in own.items())
        runs.setdefault(f"{variant} · none", {})[row["job"]["seed"]] = CyclingRun(training, friction, exploded, ends)
        environments = row["environments"]
    yield from _streams("text", runs, environments)


def _streams(study: str, runs: dict[str, dict[int, CyclingRun]], environments: Sequence[str]) -> Iterator[Row]:
    of = {arm: [own[seed] for seed in sorted(own)] for arm, own in runs.items()}
    scores = plasticity_score(
        {arm: np.array([run.training[-1] for run in own]) for arm, own in of.items()},
        {arm: np.array([run.exploded[-1] for run in own]) for arm, own in of.items()},
    )
    for arm, own in of.items():
        around = {"IQM": scores[arm].iqm, "low": scores[arm].low, "high": scores[arm].high}
        yield from ((study, arm, ALL, f"plasticity score, {name}", value) for name, value in around.items())
        changes = np.array([generalization_gap(run.training, run.friction, run.exploded).change for run in own])
        means = changes.mean(0)
        yield study, arm, ALL, "change of the gap, IQM", iqm(means[np.isfinite(means)])  # over environments: Table F3
        for seed, run, change in zip(sorted(runs[arm]), own, changes, strict=True):
            for at, env in enumerate(environments):
                for cycle, value in enumerate(run.training[:, at]):
                    yield study, arm, seed, f"{env}, cycle {cycle + 1}", value
                yield study, arm, seed, f"change of the gap, {env}", change[at]
            for name, ends in run.ends.items():
                yield from (
                    (study, arm, seed, f"cycle {cycle + 1}, {name}", value) for cycle, value in enumerate(ends.mean(1))
                )


# -- learning ----------------------------------------------------------------------------------------------------------


def learned(results: Results) -> Iterator[Row]:
    """Yield the score and the learning curve of each run: see docs/results/learning.md."""
    for (study, arm, seed), own in _groups(results.metrics):
        if study in EVALUATED_AGENTS:
            yield from evaluated(study, arm, seed, own[["step", "eval/return"]].dropna().to_numpy())
        yield study, arm, seed, "seconds", own["time"].max()
    for (study, arm, seed), own in _groups(results.episodes):
        if study not in EVALUATED_AGENTS:
            total = results.studies[study].total_steps
            numbers = score(study, own[["step", "return"]].to_numpy(), total)
            yield from ((study, arm, seed, column, value) for column, value in numbers.items())


def score(study: str, episodes: Any, steps: int) -> dict[str, float]:
    """Return the score of a run and its learning curve, of (step at its end, return) of the training episodes.

    The score is the mean return of the last 100 episodes for PPO with normalisation, and in the last tenth otherwise.
    """
    ends, returns = np.asarray(episodes, float).T
    at_end = returns[-LAST:] if study in ("ppo", "ppo-million") else returns[ends > 0.9 * steps]
    parts = np.minimum(PARTS - 1, (ends.astype(int) - 1) * PARTS // steps)
    found = {"return": float(at_end.mean()) if at_end.size else float("nan")}
    return found | {f"part {part + 1}": float(returns[parts == part].mean()) for part in sorted(set(parts))}


def evaluated(study: str, arm: str, seed: int, curve: Sequence[Sequence[float]]) -> Iterator[Row]:
    """Yield the numbers of an agent that was evaluated: a list of (step, mean return)."""
    yield study, arm, seed, "steps until solved", next((step for step, value in curve if value >= SOLVED), np.nan)
    yield study, arm, seed, "return", curve[-1][1]


def committed_learned() -> Iterator[Row]:
    old = {
        "defaults": "none", "clipped values": "none + clip_value=true", "shared body": "none + share_value=true",
        "256-256": "none + hidden=[256,256]", "adapter 256": "none + adapter=256", "annealed": "none + schedule=linear",
        "half value loss": "none + value_coefficient=0.25", "clipped": "none", "squashed": "none + log_std=squashed",
        "before": "none + hidden=[256,256] + adapter=256 + share_value=true + clip_value=true",
    }  # fmt: skip
    for agent in ("ppo", "sac"):
        for row in lines_of(RESULTS / "learning" / f"{agent}.jsonl"):
            job = row["job"]
            study = "ppo-million" if job["steps"] == 1_000_000 else agent
            arm = f"env={job['env']} · {old.get(job['arm'], job['arm'])}"
            yield study, arm, job["seed"], "return", row["last"]
            curve = [(part, value) for part, value in enumerate(row["curve"], 1) if value is not None]
            yield from ((study, arm, job["seed"], f"part {part}", value) for part, value in curve)
            yield study, arm, job["seed"], "seconds", row["seconds"]
    sides = {"supple": "none", "Stable-Baselines3": "sb3"}
    for row in lines_of(RESULTS / "learning" / "cartpole.jsonl"):
        yield from evaluated(f"cartpole-{row['agent']}", sides[row["library"]], row["seed"], row["curve"])
    for row in lines_of(RESULTS / "ppo_learning.jsonl"):
        arm = f"num_envs={row['envs']}, steps={row['steps']} · {sides[row['library']]}"
        yield "half-cheetah", arm, row["seed"], "return", row["return"]


# -- classifiers -------------------------------------------------------------------------------------------------------

ACCURACIES = {"online/per_seed": "online accuracy, %", "test/per_seed": "test accuracy, %"}


def slopes(results: Results) -> Iterator[Row]:
    for (study, arm, seed), own in _groups(results.tasks):
        yield from _slopes(study, arm, seed, own["online_accuracy"].to_numpy(), own["test_accuracy"].to_numpy())


def committed_slopes() -> Iterator[Row]:
    for row in lines_of(RESULTS / "classifiers" / "slopes.jsonl"):
        arm = f"activation=leaky_relu(negative_slope={row['slope']}) · none"
        yield from _slopes(row["stream"], arm, row["seed"], row["online"], row["test"])


def _slopes(study: str, arm: str, seed: int, online: Sequence[float], test: Sequence[float]) -> Iterator[Row]:
    fifth = max(1, len(online) // 5)
    parts = {"all": online, "first fifth": online[:fifth], "last fifth": online[-fifth:]}
    yield from ((study, arm, seed, f"online accuracy, {of}, %", fmean(values)) for of, values in parts.items())
    yield study, arm, seed, "test accuracy, %", fmean(test)


def classifiers(*files: str) -> Suite:
    return Suite(
        from_report(ACCURACIES), from_files({"activations": [f"classifiers/{name}" for name in files]}, ACCURACIES)
    )


# -- networks of SAC, as their reports have them -----------------------------------------------------------------------

RETURNS = {
    "mean_return_after_first_task_per_seed": "mean return, later tasks",
    "share_of_fresh/in_all/per_seed": "share of a fresh agent",
    "final_return_per_seed": "final return",
}
NETWORKS = {file.stem: [f"networks/{file.name}"] for file in sorted((RESULTS / "networks").glob("*.json"))}


def networks(results: Results) -> Iterator[Row]:
    """Yield the reports' numbers of Pendulum, and on HalfCheetah those of docs/results/learning.md."""
    changing = {study: scores for study, scores in results.scores.items() if not study.startswith("cheetah")}
    for study, scores in changing.items():
        yield from of_scores(study, scores, RETURNS)
    for (study, arm, seed), own in _groups(results.episodes):
        if study not in changing:
            numbers = score(study, own[["step", "return"]].to_numpy(), results.studies[study].total_steps)
            yield from ((study, arm, seed, column, value) for column, value in numbers.items())


FEATURES = {"dormant %": "agent/dormant_fraction", "srank": "agent/srank", "feature norm": "agent/feature_norm"}

SUITES = {
    "gym-control": Suite(levels, committed_levels, "^(?:return|shifted)"),
    "nine-rooms": Suite(goals, committed_goals),
    "priming": thirds("priming"),
    "replay-ratio": thirds("replay-ratio"),
    "cycling-mujoco": Suite(streams, committed_streams),
    "learning": Suite(learned, committed_learned, "^(?!part )"),
    "slopes": Suite(slopes, committed_slopes),
    "permuted-mnist": classifiers("permuted-mnist.json"),
    "random-label-mnist": classifiers("random-label-mnist.json"),
    "minatar-ppo": Suite(games),
    "slippery-ant": Suite(by_part(4, {**FEATURES, "entropy": "policy/entropy"})),
    "ppo-epochs": Suite(by_part(6, FEATURES)),
    "sac-networks": Suite(networks, from_files(NETWORKS, RETURNS), "^(?!part )"),
}
