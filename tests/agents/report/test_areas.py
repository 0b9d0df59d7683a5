"""Areas under learning curves, and their share of a fresh agent's, on artificial runs."""

import html
import json

import numpy as np
import pytest

from supple.agents.report import score
from supple.agents.report.returns import plot_learning_curves
from supple.reports import build_report, compose, load
from supple.reports.tables.areas import areas, mean_return
from tests import records

pytestmark = pytest.mark.slow

LENGTH, UNTRAINED = 100, -20.0
LEARNED = {"none": 0.5, "fire@task": 0.9, "fresh": 1.0}  # of 100 in every task, from the second on


def level(arm, task, seed):
    """Return the return of all episodes of an arm in a task, which differs by task and seed."""
    full = 100 + 10 * task + seed
    return UNTRAINED + full * (LEARNED[arm] if task else 1.0)


def write_run(folder, arm, seed, envs, tasks, start=0, stop=None, untrained=True):
    spans = [
        {"index": i, "cycle": i // len(envs), "env": envs[i % len(envs)], "name": envs[i % len(envs)],
         "start": LENGTH * i, "end": LENGTH * (i + 1)} for i in range(tasks)
    ]  # fmt: skip
    records.write_run(folder, "ppo", spans, {"seed": seed}, labels={"arm": arm})
    steps = range(start + 5, (stop or LENGTH * tasks) + 1, 5)
    episodes = [
        {"step": s, "task": (s - 1) // LENGTH, "return": level(arm or "none", (s - 1) // LENGTH, seed)} for s in steps
    ]
    events = [{"event": "untrained", "step": t["start"], "task": t["index"], "return": UNTRAINED} for t in spans]
    records.write_logs(folder, episodes=episodes, events=events if arm == "fresh" and untrained else [])
    return folder


def compare(path, arms=tuple(LEARNED), seeds=(0, 1, 2), envs=("CartPole-v1",), tasks=3, fork=0, **more):
    records.write_plan(path, "ppo", arms, seeds, fork)
    for seed in seeds:
        if fork:
            write_run(path / f"seed-{seed}" / "trunk", None, seed, envs, tasks, stop=fork)
        for i, arm in enumerate(arms):
            write_run(path / f"seed-{seed}" / str(i), arm, seed, envs, tasks, start=fork, **more)
    return path


def test_share_is_that_of_what_a_fresh_agent_learns_beyond_the_untrained_policy(tmp_path):
    arms = score(load(compare(tmp_path / "c"))).arms
    for arm in ("none", "fire@task"):
        assert [task.index for task in arms[arm].shares.tasks] == [1, 2]  # from the first switch on
        for share in (*arms[arm].shares.by_task, arms[arm].shares.in_all):
            np.testing.assert_allclose([share.mean, *share.by_seed.values()], LEARNED[arm])
    assert arms["fresh"].shares is None


def test_the_overall_share_sums_within_an_environment_and_averages_over_environments(tmp_path):
    path = compare(tmp_path / "c", seeds=(0,), envs=("A", "B"), tasks=4)
    file = path / "seed-0" / "0" / "episodes.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:  # none: nothing in the third task, and all of the fourth
        row["return"] = {2: UNTRAINED, 3: level("fresh", 3, 0)}.get(row["task"], row["return"])
    records.write_logs(file.parent, episodes=rows)
    share = score(load(path)).arms["none"].shares
    assert [each.mean for each in share.by_task] == pytest.approx([0.5, 0.0, 1.0])
    only_b = (0.5 * 110 + 130) / (110 + 130)  # tasks 2 and 4
    assert share.in_all.mean == pytest.approx((0.0 + only_b) / 2)


def test_an_unfinished_seed_has_shares_of_its_tasks_and_no_overall_share(tmp_path):
    path = compare(tmp_path / "c")
    file = path / "seed-1" / "0" / "episodes.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:45]))  # to step 225
    share = score(load(path)).arms["none"].shares
    assert [each.by_seed[1] for each in share.by_task] == pytest.approx([0.5, np.nan], nan_ok=True)
    assert list(share.in_all.by_seed.values()) == pytest.approx([0.5, np.nan, 0.5], nan_ok=True)
    assert share.in_all.mean == pytest.approx(0.5)


def test_tasks_before_the_fork_have_no_share(tmp_path):
    arms = score(load(compare(tmp_path / "c", tasks=4, fork=2 * LENGTH))).arms
    assert [task.index for task in arms["none"].shares.tasks] == [2, 3]


def test_an_environment_that_ended_before_the_fork_is_not_compared(tmp_path):
    content = compose(compare(tmp_path / "c", ("none", "fire@task"), envs=("A", "B"), tasks=2, fork=LENGTH))
    assert {measure.place for measure in content.measures} == {"B"}
    summary, difference = content.tables
    assert "A" not in summary.header
    assert not any("in A" in str(cell) for row in difference.rows for cell in row)


def test_a_fresh_arm_without_untrained_returns_is_noted(tmp_path):
    path = compare(tmp_path / "c", untrained=False)
    page = build_report(path).html.read_text()
    assert "no share of a fresh agent: fresh did not log" in page
    assert "Share of a fresh agent" not in page


def test_a_comparison_without_a_fresh_arm_has_no_share_and_no_note(tmp_path):
    scores = score(load(compare(tmp_path / "c", arms=("none", "fire@task"))))
    assert all(arm.shares is None for arm in scores.arms.values())
    assert not any("fresh" in note for note in scores.notes)


def test_the_page_the_file_and_the_terminal_have_shares_and_differences(tmp_path):
    path = compare(tmp_path / "c")
    paths = build_report(path)
    body = json.loads(paths.scores.read_text())
    none = body["arms"]["none"]["share_of_fresh"]
    assert none["tasks"] == [1, 2]
    assert none["in_all"]["mean"] == pytest.approx(0.5)
    assert none["in_all"]["interval"] == pytest.approx([0.5, 0.5])
    assert {(each["arm"], each["baseline"]) for each in body["differences"]} == {
        ("fire@task", "none"), ("none", "fresh"), ("fire@task", "fresh"),
    }  # fmt: skip
    assert body["verdict"][0].startswith("fire@task against none, 3 seeds: mean return is higher")
    page = paths.html.read_text()
    titles = ("Difference to none", "Difference to the fresh agent", "Share of a fresh agent")
    assert all(f"<h2>{title}</h2>" in page for title in titles)
    assert html.escape(body["verdict"][0]) in page
    assert {table.title for table in compose(path).tables} == {"Summary", *titles}


def test_the_fresh_agent_is_dashed_and_named_in_the_first_figure(tmp_path):
    data = load(compare(tmp_path / "c"))
    figure = plot_learning_curves(data, score(data)).figure
    (legend,) = figure.legends
    looks = {
        text.get_text(): line.get_linestyle() for text, line in zip(legend.texts, legend.legend_handles, strict=True)
    }
    assert looks == {"none": "-", "fire@task": "-", "fresh agent": "--"}
    switches = [line.get_xdata()[0] for line in figure.axes[0].lines if len(set(line.get_xdata())) == 1]
    assert switches == [LENGTH, 2 * LENGTH]


def test_areas_exist_for_finished_tasks_after_the_given_step(tmp_path):
    run = load(write_run(tmp_path / "r", "none", 0, ("A",), 3, stop=220)).first
    whole = areas(run)
    assert whole[:2].tolist() == [level("none", 0, 0), level("none", 1, 0)]
    assert np.isnan(whole[2])
    after = areas(run, since=150)
    assert np.isnan(after[0])
    assert after[1] == level("none", 1, 0)


def test_mean_return_weights_tasks_by_their_steps_after_the_fork(tmp_path):
    run = load(write_run(tmp_path / "r", "none", 0, ("A",), 3)).first
    half = 0.5 * level("none", 1, 0) + level("none", 2, 0)
    assert mean_return(run, 150, 1) == pytest.approx(half / 1.5)
    unfinished = load(write_run(tmp_path / "u", "none", 0, ("A", "B"), 4, stop=320)).first
    found = mean_return(unfinished, 0, 2)
    assert np.isfinite(found[0])
    assert np.isnan(found[1])
