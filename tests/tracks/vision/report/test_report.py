"""Reports of classifiers: numbers by hand from small logs, runs side by side, comparisons, and one real tiny run."""

import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

from supple.metrics import accuracy_recovery_time, peak_saturation, saturation_area
from supple.reports import build_report, compose, summary_table
from tests import records

SETTINGS = {
    "dataset": "mnist", "stream": "permuted", "network": "mlp", "activation": "relu", "hook": [], "batch_size": 10,
    "learning_rate": 1e-3, "eval_epochs": 0.0, "shock_every": 0, "threads": 1,
}  # fmt: skip


def write_run(folder, online, *, tests=None, seeds=(0,), updates=(10, 10), metrics=(), events=(), hooks=(), arm=None,
              data="mnist, 10 classes", more=None, start=0, **settings):  # fmt: skip
    """A run directory. online, tests: (seeds, finished tasks) accuracies; updates: of each planned task."""
    ends = np.cumsum(updates).tolist()
    tasks = [
        {"index": i, "start": e - n, "end": e, "name": "mnist", "size": 50}
        for i, (n, e) in enumerate(zip(updates, ends, strict=True))
    ]
    values = {**SETTINGS, "seeds": list(seeds), "hook": list(hooks), **settings}
    records.write_run(
        folder, "vision", tasks, values, start, command=f"supple train vision --out {folder.name}", labels={"arm": arm},
        hooks=tuple(hooks), data={"images": data}, versions=({"supple": "0.1.0"},),
    )  # fmt: skip
    tests = online if tests is None else tests
    rows = [
        {"step": ends[t], "task": t, "seed": seed, "updates": updates[t], "online_accuracy": online[s][t],
         "online_loss": 1.0, "test_accuracy": tests[s][t], **(more[s][t] if more else {})}
        for s, seed in enumerate(seeds) for t in range(len(online[s])) if online[s][t] is not None
    ]  # fmt: skip
    records.write_logs(folder, tasks=rows, metrics=metrics, events=events)
    return folder


def strict_json(file):
    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    return json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)


def arms_of(*folders, benchmark="permuted mnist"):
    """What scores.json says of each arm, without the figures that a report takes its time for."""
    body = compose(*folders).scores
    return json.loads(json.dumps(body, allow_nan=False))["benchmarks"][benchmark]["arms"]


def printed_report(*folders):
    console = Console(width=220, record=True, file=io.StringIO())
    console.print(summary_table(*folders))
    return console.export_text()


def test_online_accuracy_weighs_tasks_by_their_updates_and_has_the_unbiased_deviation(tmp_path):
    run = write_run(tmp_path / "r", [[0.5, 0.9], [0.7, 0.9]], seeds=(3, 4), updates=(30, 10))
    arm = arms_of(run)["relu"]
    assert arm["seeds"] == [3, 4]
    assert arm["online"]["per_seed"] == pytest.approx([0.6, 0.75])
    assert arm["online"]["sd"] == pytest.approx(np.std([0.6, 0.75], ddof=1))
    assert "67.50 [−27.80, 162.80]" in printed_report(run)


def test_gap_is_test_minus_online_as_table_e3_has_it(tmp_path):
    run = write_run(tmp_path / "r", [[0.5, 0.9]], tests=[[0.8, 0.7]], updates=(30, 10))
    arm = arms_of(run)["relu"]
    assert arm["gap"]["mean"] == pytest.approx((0.3 - 0.2) / 2)
    assert (arm["test"]["mean"], arm["last_test"]["mean"]) == pytest.approx((0.75, 0.7))


def test_one_seed_has_neither_deviation_nor_interval(tmp_path):
    online = arms_of(write_run(tmp_path / "r", [[0.5, 0.9]]))["relu"]["online"]
    assert (online["sd"], online["interval"]) == (None, None)


def test_the_declared_accuracy_is_the_first_measure_and_the_first_column(tmp_path):
    run = write_run(tmp_path / "r", [[0.5, 0.9]], tests=[[0.8, 0.7]])
    assert compose(run).measures[0].name == "online accuracy"
    records.relabel(run, leads="final test accuracy")
    content = compose(run)
    first = content.measures[0]
    assert (first.name, list(first.arms.values())) == ("final test accuracy", [{0: 0.7}])
    assert list(map(str, content.tables[0].header[:4])) == ["arm", "seeds", "tasks", "last task (%)"]


def test_split_stream_has_acc_bwt_and_fwt(tmp_path):
    more = [[{"accuracies": [0.9]}, {"accuracies": [0.6, 0.8]}, {"accuracies": [0.5, 0.7, 0.9]}]]
    starts = [
        {"step": 10, "task": 1, "seed": 0, "test_accuracy": 0.3},
        {"step": 20, "task": 2, "seed": 0, "test_accuracy": 0.2},
    ]
    run = write_run(
        tmp_path / "r", [[0.5] * 3], tests=[[0.9, 0.8, 0.9]], updates=(10,) * 3, more=more, stream="split",
        metrics=starts, eval_epochs=1.0,
    )  # fmt: skip
    arm = arms_of(run, benchmark="split mnist")["relu"]
    assert arm["acc"]["mean"] == pytest.approx((0.5 + 0.7 + 0.9) / 3)
    assert arm["bwt"]["mean"] == pytest.approx(((0.5 - 0.9) + (0.7 - 0.8)) / 2)
    assert arm["fwt"]["mean"] == pytest.approx(((0.3 - 0.1) + (0.2 - 0.1)) / 2)


def test_retention_is_left_out_if_earlier_tasks_are_not_tested_again(tmp_path):
    run = write_run(tmp_path / "r", [[0.5, 0.9]])
    assert not re.search("ACC|BWT|FWT|SFE|fork", printed_report(run))


def write_shocked_run(folder, gammas, saturation, accuracy, finished=1, end=50):
    """One task of 5 updates an epoch, tested at the end of each."""
    rows = [
        {"step": min(5 * (e + 1), end), "task": 0, "seed": 0, "test_accuracy": accuracy[e], "gamma": gammas[e],
         "saturated_fraction": saturation[e]}
        for e in range(len(gammas))
    ]  # fmt: skip
    return write_run(
        folder, [[0.5] * finished], updates=(end,), metrics=rows, eval_epochs=1.0, shock_every=3, stream="split"
    )


GAMMAS = [1, 1, 1, 1.5, 1, 1, 0.5, 1, 1, 1]
SATURATION = [0.1, 0.1, 0.1, 0.8, 0.6, 0.3, 0.5, 0.4, 0.4, 0.4]
ACCURACY = [0.2, 0.4, 0.8, 0.5, 0.7, 0.79, 0.1, 0.2, 0.3, 0.4]


@pytest.mark.slow
def test_shocks_are_scored_by_factor_over_the_epochs_up_to_the_next(tmp_path):
    paths = build_report(write_shocked_run(tmp_path / "r", GAMMAS, SATURATION, ACCURACY))
    shocks = strict_json(paths.scores)["benchmarks"]["split mnist, shocks"]["arms"]["relu"]["shocks"]
    assert list(shocks) == ["0.5", "1.5"]
    hard, soft = shocks["1.5"], shocks["0.5"]
    assert hard["peak"]["mean"] == pytest.approx(peak_saturation(SATURATION[3:6]))
    assert hard["area"]["mean"] == pytest.approx(saturation_area(SATURATION[3:6]))
    assert (hard["recovery_time"], hard["non_recovery_rate"]) == (2, 0)
    assert hard["tau_95"] == accuracy_recovery_time(ACCURACY[3:6], 0.8) == 2
    assert (soft["recovery_time"], soft["non_recovery_rate"]) == (None, 1)
    assert (soft["tau_95"], soft["tau_95_non_recovery_rate"]) == (None, 1)
    assert "shocks.png" in {figure.name for figure in paths.figures}
    assert "not halved" in printed_report(tmp_path / "r")


def test_the_last_epoch_of_a_task_counts_even_if_updates_do_not_fill_it(tmp_path):
    run = write_shocked_run(tmp_path / "r", GAMMAS, SATURATION, ACCURACY, end=48)
    shocks = arms_of(run, benchmark="split mnist, shocks")["relu"]["shocks"]
    assert shocks["0.5"]["area"]["mean"] == pytest.approx(saturation_area(SATURATION[6:]))


def test_an_unfinished_shock_is_not_scored(tmp_path):
    run = write_shocked_run(tmp_path / "r", GAMMAS[:8], SATURATION, ACCURACY, finished=0)
    assert list(arms_of(run, benchmark="split mnist, shocks")["relu"]["shocks"]) == ["1.5"]


@pytest.mark.slow
def test_missing_tests_around_shocks_are_noted(tmp_path):
    run = write_run(tmp_path / "r", [[0.5, 0.6]], shock_every=3, stream="split")
    assert "--eval-epochs is not 1" in build_report(run).html.read_text()


@pytest.mark.slow
def test_runs_go_side_by_side_activations_down_and_benchmarks_across(tmp_path):
    for name, stream, value in (("a", "permuted", 0.8), ("b", "random-labels", 0.2)):
        write_run(tmp_path / f"{name}-relu", [[value, value]], stream=stream)
        settings = {"stream": stream, "activation": f"leaky_relu(negative_slope={value})"}
        write_run(tmp_path / f"{name}-leaky", [[0.9, 0.9], [0.8, 0.8]], seeds=(0, 1), **settings)
    paths = build_report(*sorted(tmp_path.iterdir()), out=tmp_path / "table")
    assert paths.html == tmp_path / "table" / "report" / "index.html"
    body = strict_json(paths.scores)["benchmarks"]
    assert {name: sorted(each["arms"]) for name, each in body.items()} == {
        "permuted mnist": ["leaky_relu", "relu"], "random-labels mnist": ["leaky_relu", "relu"],
    }  # fmt: skip
    text = printed_report(*sorted(p for p in tmp_path.iterdir() if p.name != "table"))
    first = text.split("Permuted")[0]
    assert re.search(r"leaky_relu +relu", first)
    assert re.search(r"random-labels mnist +85.00 \[21.47, 148.53\] +20.00", first)
    assert "Accuracy by task: random-labels mnist" in paths.html.read_text()


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"activation": "relu", "hooks": ["fire@task"]}, ["relu", "relu + fire@task"]),
        ({"learning_rate": 0.1}, ["relu, learning_rate 0.001", "relu, learning_rate 0.1"]),
        ({}, ["relu (a)", "relu (b)"]),
    ],
)
def test_arms_of_one_benchmark_are_named_after_what_tells_them_apart(tmp_path, settings, labels):
    runs = [write_run(tmp_path / "a", [[0.5, 0.5]]), write_run(tmp_path / "b", [[0.7, 0.7]], **settings)]
    assert list(arms_of(*runs)) == labels


def test_parameters_of_an_activation_are_named_where_one_benchmark_has_several(tmp_path):
    names = [f"leaky_relu(negative_slope={slope})" for slope in (0.1, 0.8)]
    runs = [write_run(tmp_path / str(i), [[0.5, 0.5]], activation=name) for i, name in enumerate(names)]
    assert list(arms_of(*runs)) == names


def test_old_tasks_of_a_split_stream_are_compared_with_a_fresh_network(tmp_path):
    folder = tmp_path / "c"
    arms = {"none": [[0.8], [0.4, 0.6]], "reset": [[0.8], [0.2, 0.8]], "fresh": [[0.9], [0.1, 0.9]]}
    online = {"none": [0.5, 0.3], "reset": [0.5, 0.5], "fresh": [0.5, 0.6]}
    for arm, rows in arms.items():
        more = [[{"accuracies": row} for row in rows]] * 2
        write_run(folder / "seeds-0-1" / arm, [online[arm]] * 2, seeds=(0, 1), arm=arm, more=more, stream="split")
    records.write_plan(folder, "vision", arms, [0, 1])
    content = compose(folder)
    body = content.scores["benchmarks"]["split mnist"]
    none = body["arms"]["none"]["old_tasks"]
    expected = {"final_performance": 0.5, "new_tasks": 0.6, "forgetting": 0.4, "intransigence": 0.3,
                "area_difference": -0.3, "learning_curve_transfer": -0.3 / 0.4, "zero_shot_transfer": None}  # fmt: skip
    assert {name: none[name]["mean"] for name in expected} == pytest.approx(expected)
    assert none["scaled"] == none["performance"] == [[[0.8, None], [0.4, 0.6]]] * 2
    assert none["random"] is None
    assert "new tasks differs by 20 percentage points in every seed" in body["verdict"][0]
    assert content.tables[-1].title == "Old tasks"
    assert "final performance (%)" in map(str, content.tables[-1].header)
    plots = {plot.name: plot for plot in content.parts["split mnist"].plots() if plot}
    assert [text.get_text() for text in plots["old_tasks"].figure.axes[1].texts] == ["80", "", "20", "80"]


@pytest.mark.slow
def test_unfinished_runs_and_runs_of_other_lengths_are_reported_with_a_note(tmp_path):
    done = write_run(tmp_path / "done", [[0.5, 0.7]])
    going = write_run(tmp_path / "going", [[0.9]], updates=(10, 10, 10), activation="tanh")
    paths = build_report(done, going, out=tmp_path / "t")
    arms = arms_of(done, going)
    assert (arms["relu"]["tasks"], arms["tanh"]["tasks"], arms["tanh"]["online"]["mean"]) == (2, 1, 0.9)
    page = paths.html.read_text()
    assert "tanh, seed 0: unfinished, its logs end at step" in page
    assert "finished different numbers of tasks" in page


def test_differences_are_between_runs_that_have_finished_as_many_tasks(tmp_path):
    whole, part = [0.5, 0.6], [0.9]
    finished = {"relu": [whole, whole], "tanh": [whole, part], "elu": [part, part]}
    runs = [write_run(tmp_path / name, of_seeds, seeds=(0, 1), activation=name) for name, of_seeds in finished.items()]
    content = compose(*runs)
    assert {
        each[side]
        for each in content.scores["benchmarks"]["permuted mnist"]["differences"]
        for side in ("arm", "baseline")
    } == {"relu", "tanh"}
    (online,) = [measure for measure in content.measures if measure.name == "online accuracy"]
    assert {arm: sum(np.isfinite([*of.values()])) for arm, of in online.arms.items()} == {"relu": 2, "tanh": 1}


def intervention(step, arm):
    return {
        "event": "intervention", "step": step, "seeds": [0, 1], "hook": arm, "intervention": arm, "learner": "model",
        "contract": {"weights": "all"}, "before": {"dfi_unscaled": 5.0, "weight_norm": 2.0},
        "after": {"dfi_unscaled": 1.0, "weight_norm": 2.0}, "change": {"sfe": [4.0, 4.0]}, "seconds": 0.1,
    }  # fmt: skip


def accuracies(step, task, value, **more):
    return [{"step": step, "task": task, "seed": s, "test_accuracy": value + 0.1 * s, **more} for s in (0, 1)]


@pytest.fixture
def comparison(tmp_path):
    """Two seeds in a stack, forked where the second task begins."""
    folder = tmp_path / "c"
    for name, arm, late in (("trunk", None, None), ("none", "none", 0.5), ("fire", "fire", 0.7)):
        metrics = [{"step": 10, "seed": s, "model/lambda_max": 4.0, "model/weight_norm": 1.0} for s in (0, 1)]
        metrics += accuracies(5, 0, 0.3)
        if arm:
            after = [{"step": 15, "seed": s, "model/lambda_max": 2.0, "model/cbp_replaced": 6.0} for s in (0, 1)]
            metrics = accuracies(10, 1, 0.1) + accuracies(15, 1, late + 0.1) + after
        first, second = ([0.2, None], [0.4, None]) if arm is None else ([None, 0.8], [None, 0.6])
        write_run(
            folder / "seeds-0-1" / name, [first, second], tests=[[0.6, late], [0.6, late]], seeds=(0, 1), arm=arm,
            metrics=metrics, events=[intervention(10, arm)] if arm == "fire" else [], start=10 if arm else 0,
            eval_epochs=1.0,
        )  # fmt: skip
    records.write_plan(folder, "vision", ["none", "fire"], [0, 1], 10)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_comparison_scores_what_came_after_the_fork(comparison):
    paths = build_report(comparison)
    arms = arms_of(comparison)
    assert list(arms) == ["none", "fire"]
    assert arms["none"]["online"]["per_seed"] == pytest.approx([0.8, 0.6])
    assert arms["fire"]["best_after"]["per_seed"] == pytest.approx([0.8, 0.9])
    assert arms["fire"]["final_after"]["per_seed"] == pytest.approx([0.7, 0.7])
    assert {"test_accuracy.png", "before_and_after.png", "metrics.png"} <= {f.name for f in paths.figures}
    page = paths.html.read_text()
    assert "unfinished" not in page
    assert "continue from one trunk of 10 steps" in page
    assert "<td>0, 1</td>" in page  # whose the intervention was


@pytest.mark.slow
@pytest.mark.usefixtures("without_figures")
def test_arms_are_compared_seed_by_seed_after_the_fork(comparison):
    body = strict_json(build_report(comparison).scores)["benchmarks"]["permuted mnist"]
    online, final = body["differences"]
    assert (final["measure"], final["arm"], final["baseline"]) == ("final test accuracy", "fire", "none")
    none, fire = (body["arms"][arm] for arm in ("none", "fire"))
    for each, name in ((final, "final_after"), (online, "online")):
        expected = np.subtract(fire[name]["per_seed"], none[name]["per_seed"])
        assert each["per_seed"] == pytest.approx(expected)
    assert body["verdict"][0].startswith("fire against none, 2 seeds: ")
    assert "Difference to none" in printed_report(comparison)


@pytest.mark.slow
def test_interventions_on_a_stack_are_reported_for_a_single_network(comparison):
    fire = arms_of(comparison)["fire"]
    assert fire["interventions"] == 2  # one for each seed, as in runs alone
    assert fire["at_interventions"]["sfe"] == 4.0
    assert (fire["at_interventions"]["dfi_unscaled_before"], fire["at_interventions"]["dfi_unscaled_after"]) == (5, 1)
    assert (fire["at_interventions"]["lambda_max_before"], fire["at_interventions"]["lambda_max_after"]) == (4, 2)
    assert fire["units_replaced"] == {"cbp": 6}
    assert "5 → 1" in printed_report(comparison)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (lambda p: records.write_run(p, "ppo", [{"index": 0, "start": 0, "end": 9, "name": "a"}]), "vision and ppo"),
        (lambda p: (p / "comparison.json").write_text("{}"), "is a comparison"),
        (lambda p: (p / "config.json").unlink(), "has no config.json"),
    ],
)  # fmt: skip
def test_runs_that_cannot_be_shown_side_by_side_are_refused_in_one_line(tmp_path, prepare, words):
    good, bad = write_run(tmp_path / "good", [[0.5, 0.9]]), write_run(tmp_path / "bad", [[0.5, 0.9]])
    prepare(bad)
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        build_report(good, bad, out=tmp_path / "t")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "t").exists()


def test_several_runs_without_a_folder_for_the_report_are_refused(tmp_path):
    runs = [write_run(tmp_path / name, [[0.5, 0.9]]) for name in "ab"]
    with pytest.raises(ValueError, match="--out DIR"):
        build_report(*runs)
