"""The report on artificial runs: scores, the page, replacing an older report, and missing data."""

import json
import math
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from matplotlib.text import Text

from supple.agents.presets import FINAL, LATER, MEAN
from supple.agents.report import score
from supple.agents.report.tables import tables
from supple.reports import build_report, compose, load
from supple.reports.figures.style import arm_styles, mean_and_interval, on_common_steps
from supple.reports.pages.opening import make_opening
from supple.reports.tables.areas import areas
from tests import records

pytestmark = pytest.mark.slow

ENVS = {"HalfCheetah-v5": 1800.0, "Hopper-v5": 1100.0, "Walker2d-v5": 700.0, "Ant-v5": 400.0}
ARMS = {"none": 0.55, "fire@task": 1.0, "snp(lam=0.8)@task": 0.85, "reset(what=head)@task": 0.7}
CONTRACT = {
    "weights": "all",
    "optimizer state": "zeroed in place for the tensors that were written",
    "target network": ":= online network",
    "temperature": "kept",
}


def write_run(folder, *, arm=None, hooks=(), seed=0, envs=tuple(ENVS), cycles=2, per_task=60_000, start=0, stop=None,
              variant=None):  # fmt: skip
    """Write a run directory from step `start` to `stop`, in which returns rise in each task, less in later cycles."""
    rng = np.random.default_rng([seed, len(arm or ""), start])
    tasks = [
        {
            "index": i,
            "cycle": i // len(envs),
            "env": envs[i % len(envs)],
            "name": envs[i % len(envs)],
            "start": i * per_task,
            "end": (i + 1) * per_task,
        }
        for i in range(cycles * len(envs))
    ]
    total = tasks[-1]["end"]
    stop = total if stop is None else stop
    settings = {
        "sequence": ",".join(envs), "cycles": cycles, "steps_per_task": per_task, "hook": list(hooks), "seed": seed
    }  # fmt: skip
    records.write_run(
        folder, "ppo", tasks, settings, start, command=f"supple compare ppo --cycles {cycles} --seed {seed}",
        labels={"arm": arm, "variant": variant or {}}, hooks=tuple(hooks),
        versions=({"python": "3.12.1", "torch": "2.13.0", "supple": "0.1.0"},),
    )  # fmt: skip
    talent = ARMS.get(arm or "none", 0.8)
    episodes, metrics, events = [], [], []
    for task in tasks:
        keep = talent ** task["cycle"]
        peak = ENVS[task["env"]] * keep * rng.uniform(0.85, 1.15)
        if start <= task["start"] < stop and task["index"] > 0:
            events.append({"event": "task", "step": task["start"], "task": task["index"]})
            events += [intervention(task["start"], arm, rng)] if arm and arm != "none" else []
        at = task["start"]
        while (at := at + int(rng.integers(250, 1000))) <= task["end"]:
            progress = (at - task["start"]) / per_task
            value = peak * (1 - math.exp(-3 * progress)) + 0.1 * peak * rng.normal()
            if start < at <= stop:
                episodes.append(
                    {"step": at, "env": task["env"], "task": task["index"], "cycle": task["cycle"], "return": value}
                )
        if start < task["end"] <= stop:
            metrics.append(
                {"step": task["end"], "time": 1.0, "task": task["index"], "cycle": task["cycle"],
                 "eval/return": peak, "eval/return_friction": peak * rng.uniform(0.6, 1.1)}
            )  # fmt: skip
        for step in range(task["start"] + per_task // 6, task["end"] + 1, per_task // 6):
            if start < step <= stop:
                metrics.append({"step": step, "time": 1.0, "loss/policy": 0.1, **measured(step / total, talent, rng)})
    if arm and talent == ARMS["none"]:
        where = tasks[-1]
        events.append(
            {"event": "explosion", "step": stop - 5, "env": where["env"], "task": where["index"], "reward": -3e7}
        )
    records.write_logs(folder, episodes=episodes, metrics=sorted(metrics, key=lambda row: row["step"]), events=events)
    return folder


def measured(progress, talent, rng):
    fall = (1 - talent) * progress
    return {
        "agent/dfi": 900 + 200 * progress, "agent/dfi_unscaled": 0.05 + fall + 0.01 * rng.random(),
        "agent/dormant_fraction": 0.6 * fall, "agent/srank": 180 * (1 - fall) + rng.normal(),
        "agent/effective_rank": 60 * (1 - fall) + rng.normal(), "agent/weight_norm": 30 + 40 * fall,
        "agent/gradient_norm": 0.5 * (1 + fall) * rng.uniform(0.6, 1.6),
    }  # fmt: skip


def intervention(step, hook, rng):
    before, after = measured(0.6, 0.5, rng), measured(0.1, 0.9, rng)
    return {
        "event": "intervention", "step": step, "task": 1, "hook": hook, "intervention": hook.split("@")[0],
        "learner": "agent", "contract": CONTRACT,
        "before": {name.split("/")[1]: value for name, value in before.items()},
        "after": {name.split("/")[1]: value for name, value in after.items()},
        "change": {"sfe": 40 + rng.random(), "sfe_normalized": 0.3, "feature_covariance_distance": 0.2},
        "seconds": 0.02,
    }  # fmt: skip


def write_comparison(folder, seeds=(0,), fork=60_000, **stream):
    records.write_plan(folder, "ppo", ARMS, seeds, fork)
    for seed in seeds:
        write_run(folder / f"seed-{seed}" / "trunk", seed=seed, stop=fork, **stream)
        for i, arm in enumerate(ARMS):
            hooks = [] if arm == "none" else [arm]
            write_run(folder / f"seed-{seed}" / f"arm-{i}", arm=arm, hooks=hooks, seed=seed, start=fork, **stream)
    return folder


def strict_json(file):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)


@pytest.fixture(scope="module")
def three_seeds(tmp_path_factory):
    folder = write_comparison(tmp_path_factory.mktemp("report") / "three", seeds=(0, 1, 2))
    return folder, build_report(folder)


def test_report_holds_every_figure_that_the_page_shows(three_seeds):
    folder, paths = three_seeds
    assert paths.html == folder / "report" / "index.html"
    shown = re.findall(r'src="([^"]+)"', paths.html.read_text(encoding="utf-8"))
    assert shown == [figure.name for figure in paths.figures]
    assert shown[:2] == ["measure_mean_return.png", "learning_curves.png"]
    assert shown.index("generalization_gap.png") < shown.index("plasticity_score.png")
    assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in paths.figures)


def test_page_opens_with_what_was_compared_and_then_shows_the_main_figure(three_seeds):
    page = three_seeds[1].html.read_text(encoding="utf-8")
    what = "4 arms of PPO on 8 tasks of HalfCheetah, Hopper, Walker2d and Ant"
    parts = [f"<h1>{what}</h1>", f"{what}: none", "Arms are compared by mean return and final return.",
             "What can be concluded", "What cannot be concluded", "<figure>", "<table", "plasticity score"]  # fmt: skip
    assert sorted(parts, key=page.index) == parts
    assert all(text in page for text in (*ARMS, CONTRACT["optimizer state"], "supple compare ppo"))
    assert not re.findall(r"https?://|<(?:script|link)[^>]* (?:src|href)=", page)  # it needs no network


def test_cells_show_their_numbers_by_seed(three_seeds):
    paths = three_seeds[1]
    returns = strict_json(paths.scores)["arms"]["none"]["mean_return_per_seed"]
    title = re.search(
        r'<td data-number="[\d.]+" title="seed 0: ([\d,.]+), seed 1: ([\d,.]+), seed 2: ([\d,.]+)">',
        paths.html.read_text(),
    )
    shown = [float(text.replace(",", "")) for text in title.groups()]
    assert shown == pytest.approx([row[0] for row in returns], rel=1e-3)


def test_every_run_is_listed_with_links_that_lead_to_its_page_and_folder(three_seeds):
    paths = three_seeds[1]
    page = paths.html.read_text(encoding="utf-8")
    links = re.findall(r'<a href="((?:runs|\.\./seed)[^"]+)"', page)
    assert len(links) == 2 * 3 * len(ARMS)
    assert all((paths.html.parent / link).exists() for link in links)


def test_scores_rank_the_arms_by_how_they_were_made(three_seeds):
    arms = strict_json(three_seeds[1].scores)["arms"]
    assert list(arms) == list(ARMS)
    values = {label: arm["plasticity_score"] for label, arm in arms.items()}
    assert sorted(values, key=values.get) == sorted(ARMS, key=ARMS.get)
    assert all(arm["plasticity_score_interval"][0] <= arm["plasticity_score"] for arm in arms.values())


def test_final_return_is_the_mean_of_the_last_15_percent_of_the_last_cycle(three_seeds):
    folder, paths = three_seeds
    rows = [json.loads(line) for line in (folder / "seed-1" / "arm-1" / "episodes.jsonl").read_text().splitlines()]
    late = [row["return"] for row in rows if row["task"] == 5 and row["step"] > 360_000 - 9_000]
    finals = strict_json(paths.scores)["arms"]["fire@task"]["final_return_per_seed"]
    assert finals[1][1] == pytest.approx(np.mean(late))


def test_first_task_of_every_arm_is_the_trunks(three_seeds):
    scores = score(load(three_seeds[0]))
    firsts = [arm.finals[:, 0, 0] for arm in scores.arms.values()]
    assert np.isfinite(firsts).all()
    assert all((first == firsts[0]).all() for first in firsts)


def test_gap_is_train_minus_friction_and_zero_where_physics_exploded(three_seeds):
    scores = score(load(three_seeds[0]))
    fire, none = scores.arms["fire@task"], scores.arms["none"]
    np.testing.assert_allclose(fire.gaps, fire.finals - fire.tests)
    assert none.explosions == 3
    assert none.exploded[:, 1, 3].all()
    assert none.exploded.sum() == 3
    assert (none.gaps[:, 1, 3] == 0).all()
    assert none.plasticity is not None
    assert (none.plasticity.normalized[:, 3] == 0).all()


@pytest.mark.usefixtures("without_figures")
def test_one_seed_has_no_interval(tmp_path):
    paths = build_report(write_comparison(tmp_path / "one", envs=("Hopper-v5",), per_task=20_000, fork=5_000))
    for arm in strict_json(paths.scores)["arms"].values():
        assert arm["plasticity_score_interval"] is None
    page = paths.html.read_text(encoding="utf-8")
    assert "1 seed: no interval" in page
    assert "Student-t" not in page


def test_single_run_is_reported_as_one_arm_without_a_score(tmp_path):
    run = write_run(tmp_path / "run", hooks=["fire@task"], envs=("Hopper-v5", "Ant-v5"))
    body = strict_json(build_report(run).scores)
    assert list(body["arms"]) == ["fire@task"]
    assert body["arms"]["fire@task"]["plasticity_score"] is None
    assert body["arms"]["fire@task"]["final_return"][0] > 0
    assert body["fork_step"] is None
    assert any("no plasticity score" in note for note in body["notes"])


def test_run_that_has_only_begun_gives_nulls(tmp_path):
    run = write_run(tmp_path / "run", stop=0)
    paths = build_report(run)
    arm = strict_json(paths.scores)["arms"]["none"]
    assert arm["final_return"] == [None] * 4
    assert arm["gap_change_iqm"] is None
    assert paths.figures == ()
    assert "unfinished" in paths.html.read_text(encoding="utf-8")


@pytest.mark.usefixtures("without_figures")
def test_run_without_evaluation_has_no_gap_but_a_report(tmp_path):
    run = write_run(tmp_path / "run", envs=("Hopper-v5", "Ant-v5"), per_task=20_000)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    records.write_logs(run, metrics=[row for row in rows if "eval/return" not in row])
    paths = build_report(run)
    arm = strict_json(paths.scores)["arms"]["none"]
    assert arm["generalization_gap"] == [[None] * 2] * 2
    assert "generalization_gap.png" not in {figure.name for figure in paths.figures}
    assert "learning_curves.png" in {figure.name for figure in paths.figures}


def test_environment_that_comes_twice_in_a_cycle_is_scored_twice(tmp_path):
    run = write_run(tmp_path / "run", envs=("Hopper-v5", "Ant-v5", "Hopper-v5"), per_task=10_000)
    scores = score(load(run))
    assert scores.environments == ("Hopper-v5 (1)", "Ant-v5", "Hopper-v5 (2)")
    assert np.isfinite(scores.arms["none"].finals).all()


def test_unfinished_arm_stays_out_of_the_plasticity_score(tmp_path):
    folder = write_comparison(tmp_path / "c", seeds=(0, 1))
    late = folder / "seed-1" / "arm-1"
    shutil.rmtree(late)
    write_run(late, arm="fire@task", hooks=["fire@task"], seed=1, start=60_000, stop=200_000)
    scores = score(load(folder))
    fire = scores.arms["fire@task"]
    assert fire.seeds == (0, 1)
    assert fire.plasticity is not None
    assert np.isfinite(fire.plasticity.normalized).all(axis=1).tolist() == [True, False]
    assert str(tables(scores)[0].rows[1][-1]).endswith(" (1 of 2 seeds)")
    assert any("fire@task, seed 1: unfinished" in note for note in scores.notes)


def test_returns_that_count_as_failures_are_noted(tmp_path):
    folder = write_comparison(tmp_path / "c", seeds=(0, 1))
    assert not any("failures" in note for note in score(load(folder)).notes)
    file = folder / "seed-1" / "arm-1" / "episodes.jsonl"
    rows = [json.loads(line) | {"return": -1000.0} for line in file.read_text().splitlines()]
    records.write_logs(file.parent, **{file.stem: rows})
    scores = score(load(folder))
    assert np.all(scores.arms["fire@task"].plasticity.normalized[1] == 0)
    assert any(note.startswith("4 final returns") and "below -500" in note for note in scores.notes)


def test_second_report_replaces_the_first_and_leaves_nothing_beside_it(tmp_path):
    run = write_run(tmp_path / "run", envs=("Hopper-v5",), cycles=1, stop=0)
    build_report(run)
    (run / "report" / "stale.png").touch()
    build_report(run)
    assert not (run / "report" / "stale.png").exists()
    assert {path.name for path in run.iterdir() if path.is_dir()} == {"report"}


def test_failing_report_leaves_the_old_one(tmp_path, monkeypatch):
    run = write_run(tmp_path / "run", envs=("Hopper-v5",), cycles=1, stop=0)
    before = build_report(run).html.read_bytes()
    monkeypatch.setattr("supple.reports.pages.page.render", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_report(run)
    assert (run / "report" / "index.html").read_bytes() == before
    assert not [*run.glob("tmp-*")]


def test_processes_that_write_one_report_at_once_take_turns(tmp_path):
    run = write_run(tmp_path / "run", envs=("Hopper-v5",), cycles=1, stop=0)
    page = build_report(run).html.read_bytes()
    children = []
    for _ in range(4):
        if not (child := os.fork()):
            status = 1
            try:
                for _ in range(5):
                    build_report(run)
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0, 0]
    assert (run / "report" / "index.html").read_bytes() == page
    assert {path.name for path in run.iterdir() if path.is_dir()} == {"report"}


def test_names_from_files_are_escaped(tmp_path):
    run = write_run(tmp_path / "run", hooks=["<b>bold</b>"], envs=("Hopper-v5",), cycles=1, stop=0)
    text = build_report(run).html.read_text(encoding="utf-8")
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold" in text


def test_summary_leaves_out_columns_without_values(tmp_path):
    folder = write_comparison(tmp_path / "c", envs=("Hopper-v5",), cycles=1, per_task=20_000, fork=10_000)
    for events in folder.glob("*/*/events.jsonl"):
        events.write_text("")
    assert list(map(str, compose(folder).tables[0].header)) == [
        "arm",
        "seeds",
        "mean return",
        "final return",
        "plasticity score",
    ]


@pytest.mark.parametrize("seeds", [1, 4, 5])
def test_interval_is_students_from_five_seeds_on(seeds):
    values = np.random.default_rng(0).normal(size=(seeds, 4))
    middle, low, high = mean_and_interval(values)
    np.testing.assert_allclose(middle, values.mean(axis=0))
    if seeds < 5:
        assert np.isnan([low, high]).all()
    else:
        expected = scipy.stats.t.interval(0.95, seeds - 1, middle, scipy.stats.sem(values, axis=0))
        np.testing.assert_allclose((low, high), expected)


def test_seeds_are_averaged_only_where_all_have_data():
    first = np.array([0.0, 10, 20, 30]), np.array([0.0, 1, 2, 3])
    second = np.array([10.0, 30, 40]), np.array([5.0, 7, 9])
    steps, values = on_common_steps([first, second, (np.empty(0), np.empty(0))])
    assert steps.tolist() == [10, 20, 30]
    assert values.tolist() == [[1, 2, 3], [5, 6, 7]]


def test_every_arm_keeps_its_own_look_and_none_is_grey():
    labels = ["none", *[f"arm {i}" for i in range(12)]]
    styles = arm_styles(labels)
    assert len({tuple(styles[label].values()) for label in labels}) == len(labels)
    assert arm_styles(["arm 0", "none"])["none"] == styles["none"]


def texts_of(plot):
    return {text.get_text() for text in plot.figure.findobj(Text)}


def test_figures_number_the_tasks_of_the_stream(three_seeds):
    """The second visit to the first of four environments is task 5, whatever cycle it lies in."""
    plots = {plot.name: texts_of(plot) for plot in three_seeds[1].plots}
    assert {f"task {i}" for i in range(1, 9)} <= plots["learning_curves"]
    assert {"task", "1", "5", "4", "8"} <= plots["by_task"]
    assert {"1 to 4", "5 to 8"} <= plots["generalization_gap"]
    assert not [text for texts in plots.values() for text in texts if "cycle" in text]
    page = three_seeds[1].html.read_text(encoding="utf-8")
    assert not re.findall(r"cycle", re.sub(r"--cycles|<td>cycles</td>|<code>[^<]*</code>|<pre>[^<]*</pre>", "", page))


def declare(folder, leads):
    for file in folder.rglob("config.json"):
        records.relabel(file.parent, leads=leads)


@pytest.fixture(scope="module")
def declared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("declared") / "c"
    write_comparison(folder, seeds=(0, 1), envs=("Hopper-v5",), cycles=3, per_task=20_000, fork=0)
    declare(folder, LATER)
    return folder


def test_the_declared_measure_leads_the_opening_the_figures_and_the_table(declared):
    data = load(declared)
    scores = score(data)
    assert scores.names == [LATER, MEAN, FINAL]
    found = scores.arms["none"].measures[LATER][:, 0]
    assert found == pytest.approx([areas(run)[1:].mean() for run in data.arms["none"]])
    summary, difference, *_ = compose(declared).tables
    assert summary.header[2] == LATER
    assert summary.header[-1] == "plasticity score"
    assert difference.rows[0][1] == LATER
    opening = make_opening([data], "PPO", scores.measures)
    assert f"Arms are compared by {LATER}, as declared before the runs, {MEAN} and" in " ".join(opening.compared)
    assert f"against none, 2 seeds: {LATER} is higher" in opening.can[0]


def test_two_mean_returns_over_the_same_steps_are_one(declared, tmp_path):
    data = load(declared)
    assert score(replace(data, fork_step=20_000)).names == [LATER, FINAL]
    write_comparison(tmp_path / "c", envs=("Hopper-v5", "Ant-v5"), cycles=2, per_task=12_000, fork=0)
    found = {(each.family, each.place) for each in score(load(tmp_path / "c")).measures}
    assert found == {(name, env) for name in (MEAN, FINAL) for env in ("Hopper-v5", "Ant-v5")} | {(LATER, "Hopper-v5")}
    write_comparison(tmp_path / "once", envs=("Hopper-v5", "Ant-v5"), cycles=1, per_task=12_000, fork=0)
    declare(tmp_path / "once", LATER)
    found = {(each.family, each.place) for each in score(load(tmp_path / "once")).measures}
    assert found == {(MEAN, "Hopper-v5"), (LATER, "Ant-v5"), (FINAL, "Hopper-v5"), (FINAL, "Ant-v5")}


def test_the_final_return_of_an_arm_has_no_episodes_from_before_its_fork(declared):
    data = replace(load(declared), fork_step=58_500)
    episodes = data.arms["none"][0].episodes
    assert score(data).arms["none"].last[0, 0] == pytest.approx(episodes.returns[episodes.steps > 58_500].mean())


def test_a_declared_measure_that_the_runs_do_not_have_is_noted(tmp_path):
    run = write_run(tmp_path / "run", envs=("Hopper-v5",), cycles=1, per_task=12_000)
    declare(run, LATER)
    scores = score(load(run))
    assert scores.names == [MEAN, FINAL]
    assert f"the report was to lead with {LATER}, but these runs have no such number" in scores.notes
