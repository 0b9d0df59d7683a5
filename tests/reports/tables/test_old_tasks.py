"""What became of old tasks, on log lines written by hand: the matrix, what is computed from it, page and sentences."""

import json

import numpy as np
import pytest

from supple.agents.report import score
from supple.reports import build_report, compose, load
from supple.reports.figures.heat_maps import plot_old_tasks
from supple.reports.tables.old_tasks import MEASURES, old_tasks_json
from tests import records

LENGTH = 100
RANDOM = [10.0, 20.0, 0.0]
FRESH = [[110, None, None], [10, 120, None], [10, 20, 50]]  # scaled: 1 on the diagonal, else 0
ARMS = {  # scaled by these: 0.8 0.5 0.2 / 0.6 0.4 / 0.4, and 0.8 0.1 0 / 0.9 0.2 / 0.8
    "none": [[90, None, None], [60, 80, None], [30, 60, 20]],
    "reset@task": [[90, None, None], [20, 110, None], [10, 40, 40]],
    "fresh": FRESH,
}
nan = np.nan


def events_of(matrix, seed=None, random=RANDOM, start=0, stop=np.inf):
    """The lines of one seed. `matrix`: [j][i] is the return on task i after task j."""
    own = {} if seed is None else {"seed": seed}
    rows = [{"event": "random", "step": 0, "task": i, "return": r} for i, r in enumerate(random) if not start]
    rows += [
        {"event": "evaluation", "step": LENGTH * (j + 1), "task": j, "evaluated": i, "return": value}
        for j, row in enumerate(matrix) for i, value in enumerate(row) if value is not None
    ]  # fmt: skip
    return [row | own for row in rows if start < row["step"] <= stop or row["step"] == start == 0]


def write_run(folder, arm, events, seed=0, start=0, stop=None, tasks=3, area=0.0, seeds=()):
    """A run in which each episode of a task returns `area` of what lies between random actions and the fresh agent."""
    spans = [
        {"index": i, "cycle": i, "env": "CartPole-v1", "name": "CartPole-v1", "start": LENGTH * i,
         "end": LENGTH * (i + 1)} for i in range(tasks)
    ]  # fmt: skip
    settings = {"seeds": list(seeds)} if seeds else {"seed": seed}
    records.write_run(folder, "ppo", spans, settings, start, labels={"arm": arm})
    episodes = []
    for step in range(start + 10, (stop or LENGTH * tasks) + 1, 10) if tasks == len(RANDOM) else ():
        task = (step - 1) // LENGTH
        low, high = RANDOM[task], FRESH[task][task]
        episodes += [{"step": step, "task": task, "return": low + area * (high - low)} | own
                     for own in ([{"seed": s} for s in seeds] or [{}])]  # fmt: skip
    records.write_logs(folder, episodes=episodes, events=events)


def compare(path, arms=ARMS, seeds=(0, 1), fork=0, areas=(0.4, 0.7, 0.5), noise=0.0, **more):
    records.write_plan(path, "ppo", arms, seeds, fork)
    for seed in seeds:
        if fork:
            events = events_of(arms["none"], stop=fork, **more)
            write_run(path / f"seed-{seed}" / "trunk", None, events, seed, stop=fork)
        for (arm, matrix), area in zip(arms.items(), areas, strict=False):
            events = events_of(matrix, start=fork, **more)
            for row in events:
                if arm not in ("none", "fresh") and row["event"] == "evaluation":
                    row["return"] += noise * (seed - 2) * (1 if row["task"] == row["evaluated"] else -1)
            write_run(path / f"seed-{seed}" / arm, arm, events, seed, start=fork, area=area)
    return path


def old_tasks_of(path):
    (old,) = score(load(path)).old_tasks
    return old


def mean_of(old, arm, measure):
    return old.arms[arm].spread(measure).mean


def test_measures_are_those_of_the_matrix_scaled_by_random_actions_and_the_fresh_agent(tmp_path):
    old = old_tasks_of(compare(tmp_path / "c"))
    none = old.arms["none"]
    np.testing.assert_allclose(none.measured[1], [[90, nan, nan], [60, 80, nan], [30, 60, 20]])
    np.testing.assert_allclose(none.scaled[1], [[0.8, nan, nan], [0.5, 0.6, nan], [0.2, 0.4, 0.4]])
    np.testing.assert_allclose(old.scale.random, RANDOM)
    np.testing.assert_allclose(old.scale.reference, [110, 120, 50])
    assert {name: mean_of(old, "none", name) for name in MEASURES} == pytest.approx({
        "final performance": (0.2 + 0.4 + 0.4) / 3, "new tasks": (0.6 + 0.4) / 2, "forgetting": (0.6 + 0.2) / 2,
        "kept": (0.2 + 0.4) / 2,
        "learning-curve transfer": (0.4 - 0.5) / (1 - 0.5), "area difference": 0.4 - 0.5,
        "intransigence": (0.4 + 0.6) / 2, "zero-shot transfer": nan,
    }, nan_ok=True)  # fmt: skip
    assert mean_of(old, "reset@task", "forgetting") == pytest.approx((0.8 + 0.7) / 2)
    assert mean_of(old, "fresh", "new tasks") == 1
    assert np.isnan(mean_of(old, "fresh", "intransigence"))


def test_intervals_have_the_error_of_random_actions_whose_returns_differ_between_seeds(tmp_path):
    path = compare(tmp_path / "c", {"none": ARMS["none"], "fresh": FRESH})
    for seed, random in enumerate(([10, 20, 0], [30, 20, 0])):
        records.write_logs(path / f"seed-{seed}" / "none", events=events_of(ARMS["none"], random=random))
        records.write_logs(path / f"seed-{seed}" / "fresh", events=events_of(FRESH, random=()))
    old = old_tasks_of(path)
    np.testing.assert_allclose(old.arms["none"].scaled[:, 0, 0], [0.8, 0.75])
    np.testing.assert_allclose(old.arms["fresh"].scaled[:, 1, 0], [0, -0.25])
    assert np.ptp(old.arms["none"].spread("forgetting").interval) > 0.1


def test_without_a_fresh_agent_1_is_the_best_arm_right_after_each_task(tmp_path):
    arms = {arm: matrix for arm, matrix in ARMS.items() if arm != "fresh"}
    old = old_tasks_of(compare(tmp_path / "c", arms))
    np.testing.assert_allclose(old.scale.reference, [90, 110, 40])
    assert "the arm that was best there" in old.scale.words
    assert np.isnan([mean_of(old, "none", name) for name in ("learning-curve transfer", "intransigence")]).all()


def test_a_task_that_the_reference_has_not_learned_counts_in_no_measure_and_is_named(tmp_path):
    old = old_tasks_of(compare(tmp_path / "c", random=[10, 120, 0]))
    assert mean_of(old, "none", "final performance") == pytest.approx((0.2 + 0.4) / 2)
    assert mean_of(old, "none", "forgetting") == pytest.approx(0.6)
    assert mean_of(old, "none", "new tasks") == pytest.approx(0.4)
    assert "Left out, since 1 would not be above 0: task 2." in old.scale.words


def test_without_a_task_on_the_scale_there_is_a_note_and_no_table_or_picture(tmp_path):
    content = compose(compare(tmp_path / "c", random=[200, 200, 200]))
    assert "Old tasks" not in [table.title for table in content.tables]
    assert "old_tasks" not in [plot.name for plot in content.parts["ppo"].plots() if plot]
    assert any("Left out, since 1 would not be above 0: task 1, 2, 3." in line for line in content.lines)


def test_transfer_to_tasks_to_come_is_known_where_these_are_evaluated(tmp_path):
    everywhere = {"none": [[90, 40, 10], [60, 80, 20], [30, 60, 20]], "fresh": FRESH}
    old = old_tasks_of(compare(tmp_path / "c", everywhere))
    assert mean_of(old, "none", "zero-shot transfer") == pytest.approx((0.2 + 0.4) / 2)


def test_tasks_before_the_fork_are_not_new_but_can_be_forgotten(tmp_path):
    arms = dict(ARMS, none=FRESH)  # so that 1 is the same before the fork
    old = old_tasks_of(compare(tmp_path / "c", arms, fork=2 * LENGTH))
    assert mean_of(old, "reset@task", "new tasks") == pytest.approx(0.8)
    assert mean_of(old, "reset@task", "intransigence") == pytest.approx(0.2)
    assert mean_of(old, "reset@task", "forgetting") == pytest.approx((1.0 - 0.0 + 1.0 - 0.2) / 2)


def test_seeds_of_a_stack_are_read_apart(tmp_path):
    path = tmp_path / "c"
    records.write_plan(path, "ppo", ["none"], [3, 4])
    events = events_of(ARMS["none"], 3) + events_of(ARMS["reset@task"], 4)
    write_run(path / "seeds-3-4" / "none", "none", events, 3, seeds=(3, 4))
    none = old_tasks_of(path).arms["none"]
    assert none.seeds == (3, 4)
    assert none.measured[:, 1, 0].tolist() == [60, 20]


def test_an_unfinished_run_has_no_final_performance_and_others_keep_theirs(tmp_path):
    path = compare(tmp_path / "c")
    file = path / "seed-1" / "none" / "events.jsonl"
    records.write_logs(
        file.parent, events=[row for row in map(json.loads, file.read_text().splitlines()) if row["step"] <= 2 * LENGTH]
    )
    old = old_tasks_of(path)
    assert old.arms["none"].spread("final performance").values == pytest.approx([1 / 3, nan], nan_ok=True)
    assert old.arms["none"].spread("intransigence").values == pytest.approx([0.5, nan], nan_ok=True)
    body = old_tasks_json([old], "none")["old_tasks"]
    assert np.isnan(body["forgetting"]["by_task"][1]).tolist() == [True, True, True]


def test_runs_without_evaluations_of_old_tasks_have_no_such_section(tmp_path):
    own = {arm: [row[:j] + row[j : j + 1] if not j else [None] * j + [row[j]] for j, row in enumerate(matrix)]
           for arm, matrix in ARMS.items()}  # fmt: skip
    content = compose(compare(tmp_path / "c", own))
    assert "Old tasks" not in [table.title for table in content.tables]
    assert not any("old_tasks" in arm for arm in content.scores["arms"].values())
    assert not any("new tasks" in sentence for sentence in content.scores["verdict"])


@pytest.mark.parametrize(
    ("arm", "seeds", "words"),
    [
        (ARMS["reset@task"], range(5),
         ["new tasks is higher: 0.35", "forgetting is higher: 0.35", "kept is lower: −0.20"]),
        ([[80, None, None], [60, 60, None], [60, 60, 10]], range(5),
         ["new tasks is lower: −0.20", "forgetting is lower: −0.30", "kept is higher: 0.15"]),
        (ARMS["none"], range(5), ["new tasks differs by 0", "forgetting differs by 0", "kept differs by 0"]),
        (ARMS["reset@task"], (0,), ["due to chance"]),
    ],
)  # fmt: skip
def test_the_verdict_says_whether_an_arm_that_learns_better_also_forgets_and_keeps_more(tmp_path, arm, seeds, words):
    arms = {"none": ARMS["none"], "other": arm, "fresh": FRESH}
    content = compose(compare(tmp_path / "c", arms, seeds, noise=0.01 * (arm != ARMS["none"])))
    (sentence,) = [line for line in content.verdict if line.startswith("other against none")]
    assert [each for each in words if each not in sentence] == []
    assert not any("new tasks" in line for line in content.verdict if line != sentence)


@pytest.mark.slow
def test_page_and_file_have_the_matrix_the_table_and_the_sentence(tmp_path):
    paths = build_report(compare(tmp_path / "c", seeds=range(3), noise=0.01))
    page = paths.html.read_text()
    assert '<img src="old_tasks.png"' in page
    assert page.index("What can be concluded") < page.index("new tasks is higher")
    assert page.index("<h2>Old tasks</h2>") < page.index("<h2>Old tasks, after each task</h2>")
    body = json.loads(paths.scores.read_text())["arms"]["none"]["old_tasks"]
    assert body["performance"][2][1] == [60, 80, None]
    assert body["forgetting"]["by_task"][0] == pytest.approx([0.6, 0.2, None])
    assert body["intransigence"]["mean"] == pytest.approx(0.5)
    header = (paths.folder / "tables" / "old-tasks.csv").read_text().splitlines()[0]
    assert "intransigence low" in header


def texts_of(old):
    figure = plot_old_tasks(old).figure
    return figure, [[text.get_text() for text in axes.texts] for axes in figure.axes]


def test_the_picture_has_numbers_of_what_was_evaluated_and_nothing_elsewhere(tmp_path):
    figure, texts = texts_of(old_tasks_of(compare(tmp_path / "c")))
    assert texts[0] == ["0.80", "", "", "0.50", "0.60", "", "0.20", "0.40", "0.40"]
    assert [axes.get_title("left") for axes in figure.axes] == ["none", "reset@task", "the fresh agent"]


def test_many_tasks_have_colours_with_a_scale_and_no_numbers(tmp_path):
    tasks = 13
    rows = [[1.0] * (j + 1) for j in range(tasks)]
    write_run(tmp_path / "r", "none", events_of(rows, random=[0.0] * tasks), tasks=tasks)
    figure, texts = texts_of(old_tasks_of(tmp_path / "r"))
    assert texts == [[], []]
    np.testing.assert_array_equal(np.isfinite(figure.axes[0].images[0].get_array().filled(nan)), np.tri(tasks) > 0)
