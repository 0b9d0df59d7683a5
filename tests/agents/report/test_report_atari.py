"""The report on artificial runs of DQN on Atari: human-normalised scores and evaluations."""

import json
import math
import re

import numpy as np
import pytest

from supple.agents.presets import FINAL
from supple.agents.report import score
from supple.metrics import human_normalized, iqm
from supple.reports import build_report, compose, load
from tests import records

pytestmark = pytest.mark.slow

GAME = "ALE/Asterix-v5"
TOTAL, FORK = 400_000, 200_000
ARMS = {"none": 900.0, "fire": 2400.0}  # label → return at the end
CONTRACT = {"weights": "conv and linear", "optimizer state": "fresh", "target network": "same operation"}


def write_run(folder, *, arm=None, seed=0, game=GAME, start=0, stop=TOTAL, evaluations=True,
              variant=None):  # fmt: skip
    """Write a run of one game from step `start` to `stop`. Its returns reach 900 at the fork, evaluations more."""
    rng = np.random.default_rng([seed, len(arm or ""), start])
    task = {"index": 0, "cycle": 0, "env": game, "name": game, "start": 0, "end": TOTAL}
    hooks = [f"{arm}@{FORK}"] if arm not in (None, "none") else []
    records.write_run(
        folder, "dqn", [task], {"seed": seed, "env": game, "eval_episodes": 5, "eval_epsilon": 0.001}, start,
        command="supple compare dqn", labels={"arm": arm, "variant": variant or {}}, hooks=tuple(hooks),
        versions=({"torch": "2.13.0", "supple": "0.1.0"},),
    )  # fmt: skip
    goal = ARMS[arm or "none"]

    def level(step):
        after = 1 - math.exp(-max(0, step - FORK) / 60_000)
        return 210 + 690 * (1 - math.exp(-min(step, FORK) / 80_000)) + (goal - 900) * after + 40 * seed

    steps = range(start + 900, stop + 1, 900)
    episodes = [
        {"step": at, "env": game, "task": 0, "cycle": 0, "return": level(at) + 60 * rng.normal()} for at in steps
    ]
    metrics = [
        {"step": at, "loss/td": 0.01, **measured(at, arm, rng)} for at in range(start + 10_000, stop + 1, 10_000)
    ]
    for at in range(start + 40_000, stop + 1, 40_000) if evaluations else ():
        value = 1.2 * level(at)
        normalized = {} if (n := human_normalized(game, value)) is None else {"eval/human_normalized": n}
        metrics.append({"step": at, "task": 0, "cycle": 0, "eval/return": value, **normalized})
    records.write_logs(
        folder,
        episodes=episodes,
        metrics=sorted(metrics, key=lambda row: row["step"]),
        events=[intervention(hooks[0], arm, rng)] if hooks else [],
    )
    return folder


def measured(step, arm, rng):
    worn = 0.1 if arm == "fire" else step / TOTAL
    values = {
        "dormant_fraction": 0.5 * worn, "dormant_fraction/conv.1": 0.2 * worn,
        "srank": 300 * (1 - 0.6 * worn) + rng.normal(), "effective_rank": 90 - 40 * worn,
        "dfi": 4e3, "dfi_per_dim": 2.0 + worn, "dfi_unscaled": 0.3 + worn, "weight_norm": 40 + 30 * worn,
        "gradient_norm": 0.3 * rng.uniform(0.5, 2.0),
    }  # fmt: skip
    return {f"q/{name}": value for name, value in values.items()}


def intervention(hook, arm, rng):
    before, after = measured(TOTAL, None, rng), measured(0, "fire", rng)
    return {
        "event": "intervention", "step": FORK, "hook": hook, "intervention": arm, "learner": "q", "contract": CONTRACT,
        "before": {name.split("/", 1)[1]: value for name, value in before.items()},
        "after": {name.split("/", 1)[1]: value for name, value in after.items()},
        "change": {"sfe": 40.0, "sfe_normalized": 0.3, "feature_covariance_distance": 0.2}, "seconds": 0.02,
    }  # fmt: skip


def write_comparison(folder, seeds=(0, 1, 2), **run):
    records.write_plan(folder, "dqn", ARMS, seeds, FORK)
    for seed in seeds:
        write_run(folder / f"seed-{seed}" / "trunk", seed=seed, stop=FORK, **run)
        for arm in ARMS:
            write_run(folder / f"seed-{seed}" / arm, arm=arm, seed=seed, start=FORK, **run)
    return folder


@pytest.fixture(scope="module")
def asterix(tmp_path_factory):
    folder = write_comparison(tmp_path_factory.mktemp("report") / "asterix")
    return folder, build_report(folder)


def last_evaluations(folder, arm):
    values = []
    for seed in range(3):
        rows = [json.loads(line) for line in (folder / f"seed-{seed}" / arm / "metrics.jsonl").read_text().splitlines()]
        values.append([row["eval/return"] for row in rows if "eval/return" in row][-1])
    return values


def test_human_normalized_score_is_the_iqm_of_the_last_evaluations(asterix):
    folder, paths = asterix
    body = json.loads(paths.scores.read_text())
    assert body["human_normalized_from"] == "evaluation"
    for label, arm in body["arms"].items():
        expected = [human_normalized(GAME, value) for value in last_evaluations(folder, label)]
        assert np.ravel(arm["human_normalized_per_seed"]) == pytest.approx(expected)
        assert arm["human_normalized"] == pytest.approx(iqm(expected))
        low, high = arm["human_normalized_interval"]
        assert min(expected) <= low < arm["human_normalized"] < high <= max(expected)
    assert body["arms"]["fire"]["human_normalized"] > body["arms"]["none"]["human_normalized"]


def test_page_shows_scores_and_evaluations_and_says_where_they_are_from(asterix):
    page = asterix[1].html.read_text(encoding="utf-8")
    figures = re.findall(r'src="([^"]+)\.png"', page)
    assert figures == [
        "measure_mean_return", "learning_curves", "evaluation", "human_normalized", "metrics", "before_and_after",
        "plasticity_score", "more_metrics", "measure_final_return",
    ]  # fmt: skip
    for text in (
        "DQN on Asterix",
        "ε = 0.001",
        "evaluation returns in the last 15 % of the run",
        "coverage with 3 seeds about 75 %",
    ):
        assert text in page
    for physics in ("explosion of physics", "ΔGAP", "friction"):
        assert physics not in page


def test_without_an_evaluation_the_training_returns_are_normalized(tmp_path):
    scores = score(load(write_comparison(tmp_path / "c", evaluations=False)))
    assert scores.human_from == "training"
    for arm in scores.arms.values():
        expected = [human_normalized(GAME, value) for value in arm.last[:, 0]]
        np.testing.assert_allclose(arm.human.normalized[:, 0], expected)


def test_one_run_without_its_last_evaluation_turns_all_arms_to_training_returns(tmp_path):
    folder = write_comparison(tmp_path / "c", seeds=(0, 1))
    file = folder / "seed-1" / "fire" / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    records.write_logs(
        file.parent, **{file.stem: [row for row in rows if "eval/return" not in row or row["step"] < 0.85 * TOTAL]}
    )
    scores = score(load(folder))
    assert scores.human_from == "training"
    np.testing.assert_allclose(
        scores.arms["none"].human.normalized[0, 0], human_normalized(GAME, scores.arms["none"].last[0, 0])
    )


def test_unfinished_run_has_no_human_normalized_score(tmp_path):
    folder = write_comparison(tmp_path / "c", seeds=(0,))
    write_run(folder / "seed-1" / "fire", arm="fire", seed=1, start=FORK, stop=FORK + 80_000)
    fire = score(load(folder)).arms["fire"]
    assert fire.human is not None
    assert np.isfinite(fire.human.normalized).ravel().tolist() == [True, False]


@pytest.mark.parametrize("kept", [0, 1])
def test_a_run_with_longer_episodes_than_the_final_window_has_its_last_one_or_is_missing(tmp_path, kept):
    folder = write_comparison(tmp_path / "c", evaluations=False)
    file = folder / "seed-1" / "fire" / "episodes.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()][:kept]
    records.write_logs(file.parent, **{file.stem: rows})
    scores = score(load(folder))
    fire = scores.arms["fire"]
    assert fire.last[1, 0] == pytest.approx(rows[0]["return"] if kept else np.nan, nan_ok=True)
    assert any("fire, seed 1: no episode ended" in note for note in scores.notes) == (not kept)
    for score_of_arm in (fire.human, fire.plasticity):
        assert np.isfinite(score_of_arm.normalized[:, 0]).tolist() == [True, bool(kept), True]
    summary, difference, *_ = compose(folder).tables
    texts = [*summary.texts[2], *(text for row in difference.texts if row[1] == FINAL for text in row)]
    assert sum("(2 of 3 seeds)" in text for text in texts) == (0 if kept else 5)


def test_game_outside_the_table_has_no_human_normalized_score(tmp_path):
    scores = score(load(write_comparison(tmp_path / "c", seeds=(0, 1), game="ALE/Tetris-v5")))
    assert scores.human_from is None
    assert all(arm.human is None for arm in scores.arms.values())
    assert scores.arms["none"].plasticity is not None


def test_variants_of_other_games_are_normalized_by_their_own(tmp_path):
    games = [GAME, "ALE/Pong-v5"]
    records.write_plan(tmp_path, "dqn", ["none"], [0], 0, [{"env": game} for game in games])
    for place, game in enumerate(games):
        write_run(tmp_path / "seed-0" / str(place) / "none", arm="none", game=game, variant={"env": game})
    for game, arm in zip(games, score(load(tmp_path)).arms.values(), strict=True):
        np.testing.assert_allclose(arm.human.normalized[0], human_normalized(game, arm.evaluations[0, -1, 0]))


def test_returns_far_below_zero_are_no_failure_in_a_game(tmp_path):
    folder = write_comparison(tmp_path / "c", seeds=(0, 1), game="ALE/Skiing-v5")
    for file in folder.glob("*/*/episodes.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        records.write_logs(file.parent, **{file.stem: [{**row, "return": row["return"] - 17_000} for row in rows]})
    scores = score(load(folder))
    assert scores.arms["fire"].plasticity.iqm > scores.arms["none"].plasticity.iqm
    assert not np.isfinite(scores.arms["fire"].gaps).any()


def test_an_evaluation_only_at_the_end_makes_no_curve(tmp_path):
    run = write_run(tmp_path / "run")
    file = run / "metrics.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    records.write_logs(
        file.parent, **{file.stem: [row for row in rows if "eval/return" not in row or row["step"] == TOTAL]}
    )
    names = {figure.stem for figure in build_report(run).figures}
    assert "learning_curves" in names
    assert not names & {"evaluation", "human_normalized"}
    assert score(load(run)).arms["none"].human is not None
