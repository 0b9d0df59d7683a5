"""The numbers of the results pages that suites train: of the committed rows, and of a sweep, in one frame."""

import importlib.util
import json
import runpy
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from supple.engine.kinds import value_of
from supple.experiments.comparisons.points import Point
from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.suites import find_suite
from supple.experiments.sweeps.sweep import Sweep

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
_spec = importlib.util.spec_from_file_location("suites", ROOT / "docs" / "suites.py")
assert _spec is not None
assert _spec.loader is not None
suites = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(suites)

SLOPE = "activation=leaky_relu(negative_slope=0.4) · none"
# suite, page, study, arm, column, and how its cell begins
CELLS = [
    ("gym-control", "worlds", "methods", "env=CartPole-v1 · reset@task + learning_rate=0.0003", "return", "315 [296, 333]"),
    ("gym-control", "worlds", "untuned", "env=CartPole-v1 · none", "return", "80 [48, 113]"),
    ("gym-control", "worlds", "methods", "env=Acrobot-v1 · spectral(strength=1e-3)", "return", "−95 [−99, −91]"),
    ("gym-control", "worlds", "lunarlander", "env=LunarLander-v3 · none", "return", "−169"),
    ("nine-rooms", "worlds", "tuned", "none", "mean return", "−5.8 [−8.0, −3.6]"),
    ("nine-rooms", "worlds", "nine-rooms", "none", "goal 3", "−12.2"),
    ("priming", "worlds", "priming", "priming_updates=10000 · none", "third 3", "−615"),
    ("replay-ratio", "worlds", "replay-ratio", "replay_ratio=16.0 · none", "third 3", "−214"),
    ("cycling-mujoco", "cycling", "text", "activation=relu · none", "plasticity score, IQM", "0.33"),
    ("cycling-mujoco", "cycling", "text", "activation=relu · none", "HalfCheetah-v5, cycle 3", "3,038"),
    ("cycling-mujoco", "cycling", "text", "activation=relu · none", "cycle 3, dormant units, %", "22"),
    ("cycling-mujoco", "cycling", "text", "activation=relu · none", "change of the gap, IQM", "−171"),
    ("learning", "learning", "ppo", "env=Hopper-v5 · sb3", "return", "1,811 [1,535, 2,087]"),
    ("learning", "learning", "ppo-million", "env=Ant-v5 · none", "return", "232 [116, 348]"),
    ("learning", "learning", "sac", "env=Hopper-v5 · none + log_std=squashed", "return", "504 [432, 577]"),
    ("slopes", "classifiers", "permuted", SLOPE, "online accuracy, all, %", "85.21"),
    ("permuted-mnist", "classifiers", "activations", "activation=relu, learning_rate=0.001 · none", "online accuracy, %", "78.79"),
    ("random-label-mnist", "classifiers", "activations", "activation=relu, learning_rate=0.0001 · none", "test accuracy, %", "26.49"),
]  # fmt: skip


@pytest.fixture(scope="module")
def committed() -> Callable[[str], Any]:
    """Return the frame of a suite's committed rows, which is read once."""
    frames: dict[str, Any] = {}
    return lambda name: frames[name] if name in frames else frames.setdefault(name, suites.read(name))


def cell(name: str, frame: Any, study: str, arm: str, column: str) -> str:
    """Return a cell of the table."""
    header, *lines = suites.table(name, frame)
    (line,) = [line for line in lines if line[:2] == [study, arm]]
    return str(line[header.index(column)])


@pytest.mark.parametrize(("name", "page", "study", "arm", "column", "begins"), CELLS)
def test_a_number_of_the_committed_rows_is_on_its_page(
    committed: Callable[[str], Any], name: str, page: str, study: str, arm: str, column: str, begins: str
) -> None:
    number, _, interval = begins.partition(" [")
    found = cell(name, committed(name), study, arm, column)
    digits = len(number.partition(".")[2])
    mean = float(found.replace(",", "").replace("−", "-").split(" [")[0].split(": ")[0])
    assert f"{mean:,.{digits}f}".replace("-", "−") == number
    assert not interval or found.startswith(begins) or digits
    assert begins in (RESULTS / f"{page}.md").read_text()


def test_the_numbers_of_cycling_are_those_of_its_scores(committed: Callable[[str], Any]) -> None:
    """For every arm, environment and cycle, from the rows of the runs."""
    frame = committed("cycling-mujoco").set_index(["arm", "column", "seed"])["value"]
    scores = json.loads((RESULTS / "cycling" / "scores.json").read_text())
    arms = dict(zip(scores["arms"], dict.fromkeys(committed("cycling-mujoco")["arm"]), strict=False))
    by_name = {arm: next(x for x in arms.values() if f"={arm}(" in x or f"={arm} " in x) for arm in scores["arms"]}
    assert len(set(by_name.values())) == 4
    for arm, label in by_name.items():
        own = scores["arms"][arm]
        assert frame[label, "plasticity score, IQM", "all"] == pytest.approx(own["plasticity_score"]["iqm"])
        assert frame[label, "change of the gap, IQM", "all"] == pytest.approx(own["change_of_the_gap_iqm"])
        for env, cycles in own["returns"].items():
            for cycle, values in cycles.items():
                assert [frame[label, f"{env}, {cycle}", seed] for seed in own["seeds"]] == pytest.approx(values)
        for cycle, values in own["srank"].items():
            assert [frame[label, f"{cycle}, srank", seed] for seed in own["seeds"]] == pytest.approx(values)


def test_the_rule_of_the_suite_chooses_the_points_of_the_page() -> None:
    """From the committed scores of all points: the arms of the results are those that were run."""
    scores: dict[tuple[str, str], list[float]] = defaultdict(list)
    for env, file in (("CartPole-v1", "cartpole"), ("Acrobot-v1", "acrobot")):
        for line in (RESULTS / "worlds" / f"{file}.tuning.jsonl").read_text().splitlines():
            row = json.loads(line)
            scores[env, suites.arm_of(row["settings"])].append(fmean(row["levels"]))

    def score(folder: str, point: Point, measure: str) -> float:
        assert measure == "rollout_return"
        found = scores[point.variant["env"], point.arm]
        assert len(found) == 3, point.label
        return fmean(found)

    (study,) = [study for study in read_sweep(find_suite("gym-control")).studies if study.name == "methods"]
    tuned, results = study.comparisons(score)
    (comparison, _) = study.comparisons(score)[results]
    frame = suites.read("gym-control")
    ran = set(frame.loc[frame["study"] == "methods", "arm"])
    assert {point.label for point in comparison.points} == ran
    assert tuned == f"{results}/tuning"


# -- one small point of each suite -------------------------------------------------------------------------------------

TINY: Mapping[str, Any] = {"rollout_steps": 40, "minibatch_size": 40, "epochs": 1, "hidden": [8], "compile": "off"}
MUJOCO = {**TINY, "num_envs": 1, "max_episode_steps": 20, "checkpoint_every": 1_000_000}
SMALL: dict[str, Any] = {
    "gym-control": ("methods", {**TINY, "cycles": 4, "steps_per_task": 80}, {"arms": ("none + learning_rate={rate}",)}),
    "nine-rooms": ("nine-rooms", {**TINY, "max_episode_steps": 20, "steps_per_task": 80, "cycles": 5}, {}),
    "priming": ("priming", {"steps": 600, "learning_starts": 500, "hidden": [8], "compile": "off"}, {}),
    "replay-ratio": ("replay-ratio", {"steps": 600, "learning_starts": 590, "hidden": [8], "compile": "off"}, {}),
    "cycling-mujoco": ("text", {**MUJOCO, "steps_per_task": 160, "measure_every": 160, "eval_episodes": 1}, {}),
    "learning": ("ppo", {**MUJOCO, "steps": 400, "adapter": 0, "measure_every": 400}, {"arms": ("none",)}),
    "slopes": ("permuted", {"tasks": 2, "images": 48, "batch_size": 8, "device": "cpu", "compile": "off"}, {}),
    "permuted-mnist": ("activations", {"tasks": 2, "images": 48, "batch_size": 8, "device": "cpu", "compile": "off"}, {}),
}  # fmt: skip
