"""Results from Python: every line of the logs in a frame, under its arm and seed; the scores of the report."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.experiments.history.logs import read_jsonl
from supple.experiments.history.performance import performance_of
from supple.experiments.results import load
from supple.scripts.main import dispatch
from tests.figures import empty_figures

PPO = (
    "--env CartPole-v1 --steps 240 --num-envs 2 --rollout-steps 20 --minibatch-size 10 --epochs 1 --hidden 8 "
    "--adapter 8 --compile off --measure-every 80 --eval-episodes 0"
)


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, here: Any) -> Path:
    path = tmp_path_factory.mktemp("results") / "c"
    arms = "--fork-at 0.5 --seeds 3-4 --stack off --arm none --arm fire --jobs 1"
    with here():
        dispatch(["compare", "ppo", *PPO.split(), *arms.split(), "--out", str(path)])
    with empty_figures():
        dispatch(["report", str(path)])
    return path


@pytest.mark.slow
def test_a_comparison_has_each_arms_rows_behind_its_trunks(compared: Path) -> None:
    results = load(compared)
    assert set(results.metrics.groupby(["arm", "seed"]).groups) == {
        (arm, seed) for arm in ("none", "fire") for seed in (3, 4)
    }
    for arm, events in (("none", 0), ("fire", 1)):
        own = results.metrics.query("arm == @arm and seed == 4")
        folders = [read_jsonl(compared / "seed-4" / folder / "metrics.jsonl") for folder in ("trunk", arm)]
        logged = [row for row in folders[0] if row["step"] <= 120] + folders[1]
        assert own["step"].tolist() == [row["step"] for row in logged]
        assert own["agent/weight_norm"].dropna().tolist() == [
            row["agent/weight_norm"] for row in logged if "agent/weight_norm" in row
        ]
        assert len(results.events.query("arm == @arm and seed == 3 and event == 'intervention'")) == events
    after = results.episodes.query("arm == 'fire' and seed == 3 and step > 120")
    columns = ["step", "task", "return", "length"]
    assert after[columns].to_dict("records") == [
        {name: row[name] for name in columns} for row in read_jsonl(compared / "seed-3/fire/episodes.jsonl")
    ]
    assert results.tasks.empty
    scores = json.loads((compared / "report/scores.json").read_text())
    assert json.loads(json.dumps(results.scores)) == scores


@pytest.mark.slow
def test_a_single_run_is_one_arm(tmp_path: Path) -> None:
    dispatch(
        ["train", "linear", "--tasks", "semantic,reversal", "--updates-per-task", "20", "--out", str(tmp_path / "run")]
    )
    results = load(tmp_path / "run")
    assert results.tasks["task"].tolist() == [0, 1]
    assert results.tasks["arm"].unique().tolist() == ["none"]
    found = results.performance()
    losses = [row["losses"] for row in read_jsonl(tmp_path / "run/tasks.jsonl")]
    assert found[["after", "on"]].to_numpy().tolist() == [[0, 0], [1, 0], [1, 1]]
    assert found["value"].tolist() == [loss for row in losses for loss in row]
    assert results.episodes.empty
    assert results.episodes.columns.tolist() == ["arm", "seed"]


def test_its_text_names_kind_arms_seeds_steps_and_folder(compared: Path) -> None:
    assert repr(load(compared)) == f"Results of {compared}\nppo: 2 arms, 2 seeds, 240 of 240 environment steps"


def test_a_notebook_shows_a_row_for_each_arm(compared: Path) -> None:
    rows = [" ".join(row.split()) for row in load(compared)._repr_html_().split("</tr>")]
    assert any("<td>fire</td> <td>3, 4</td> <td>240 of 240</td>" in row for row in rows)


def test_parts_have_the_rows_of_each_arm_and_seed(compared: Path) -> None:
    results = load(compared)
    parts = results.parts(3, ["agent/weight_norm"])
    assert parts.groupby(["arm", "seed"]).size().tolist() == [3] * 4
    own = results.episodes.query("arm == 'fire' and seed == 4 and step > 80 and step <= 160")
    row = parts.query("arm == 'fire' and seed == 4 and part == 1").iloc[0]
    assert (row["episodes"], row["return"]) == (len(own), pytest.approx(own["return"].mean()))
    assert row["agent/weight_norm.last"] > 0


@pytest.mark.parametrize(
    ("results", "found"),
    [
        (({"accuracies": [0.5]}, {"accuracies": [0.25, 0.75]}), [(0, 0, 0.5), (1, 0, 0.25), (1, 1, 0.75)]),
        (({"test_accuracy": 0.5}, {"test_accuracy": 0.75}), [(0, 0, 0.5), (1, 1, 0.75)]),
        (
            ({"scores": [0.5, 0.125]}, {"scores": [0.25, 0.75]}),
            [(0, 0, 0.5), (0, 1, 0.125), (1, 0, 0.25), (1, 1, 0.75)],
        ),
    ],
)
def test_results_of_all_tasks_are_taken_from_those_of_each_task(compared: Path, results: Any, found: Any) -> None:
    assert load(compared).performance().empty  # agents without evaluations
    run = load(compared).studies[""].first
    outcomes = [{"step": 8 * (task + 1), "task": task, **own} for task, own in enumerate(results)]
    assert [tuple(row.values()) for row in performance_of(replace(run, outcomes=outcomes))] == found
