"""Reports of language models: numbers by hand from small logs, comparisons over variants, runs side by side."""

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from supple.engine.storage.run_directory import RunDirectory
from supple.experiments.comparisons.grid import Point
from supple.reports import build_report, compose, summary_table
from supple.reports.studies.evaluation_figures import plot_first_phase, plot_validation_loss, plot_views
from supple.reports.studies.evaluations import read_cells, short_names
from supple.tracks.language.report.continual import collect_scores
from tests import records

pytestmark = pytest.mark.slow

EVENT = {
    "event": "intervention", "hook": "fire@start", "intervention": "fire", "learner": "model", "written": 1,
    "contract": {"weights": "made orthogonal"}, "before": {"dfi_unscaled": 2.0}, "after": {"dfi_unscaled": 0.5},
    "change": {"sfe": 3.0, "sfe_normalized": 0.1}, "seconds": 0.1,
}  # fmt: skip


def write_run(path, kind, tasks, lines, *, seed=0, start=0, arm=None, variant=None, events=(), outcomes=(), stop=None,
              **settings):  # fmt: skip
    """A run directory with these lines of metrics, {step: numbers}. tasks: (name, end) of each."""
    starts = [0, *(end for _, end in tasks)]
    spans = enumerate(zip(starts, tasks, strict=False))
    spans = [{"index": i, "start": begin, "end": end, "name": name} for i, (begin, (name, end)) in spans]
    records.write_run(
        path, kind, spans, {"seed": seed, **settings}, start, stop, f"supple language {kind}",
        {"arm": arm, "variant": variant or {}}, hooks=tuple(settings.get("hook", ())), data={"corpus": "here"},
    )  # fmt: skip
    with RunDirectory(path, "") as run:
        run.start_logs({}, 0.0, ("metrics", "tasks", "events"))
        for step, numbers in lines.items():
            run.metrics(step, {"task": 0, **numbers})
        for event in events:
            run.event(**event)
        for outcome in outcomes:
            run.task(**outcome)
    return path


FINAL = {  # (start, arm) → final loss of each seed
    ("best", "none"): (3.0, 3.2), ("best", "fire"): (2.9, 3.0), ("best", "reset"): (3.1, 3.3),
    ("100", "none"): (3.4, 3.5), ("100", "fire"): (2.9, 3.1), ("100", "reset"): (3.1, 3.3),
}  # fmt: skip


def warm_start(path, seeds=(0, 1), skip=(), short=()):
    """Two starts × three arms. skip, short: (start, arm, seed) that have not begun, or are not at their end."""
    variants = [{"start": "best"}, {"start": "100"}]
    records.write_plan(path, "pretrain", ["none", "fire", "reset"], list(seeds), 100, variants)
    for seed in seeds:
        folder = path / f"seed-{seed}"
        trunk = {
            step: {"val_loss": 5.0 - step / 50, "val_loss/a": 5.0 - step / 50, "train_loss": 4.0}
            for step in (0, 40, 100)
        }
        write_run(folder / "trunk", "pretrain", [("a", 100), ("b", 120)], trunk, seed=seed, stop=100)
        for (start, arm), finals in FINAL.items():
            if (start, arm, seed) in skip:
                continue
            at = 100 if start == "100" else 40 + 10 * seed
            first = 9.0 if arm == "reset" else 4.0
            lines = {
                at: {"val_loss": first, "val_loss/a": first - 1},
                at + 10: {"val_loss": finals[seed] - 0.5, "val_loss/a": 3.0, "train_loss": 3.3},
                at + 20: {"val_loss": finals[seed], "val_loss/a": 3.5, "train_loss": 3.1, "model/srank": 7.0},
            }
            if (start, arm, seed) in short:
                del lines[at + 20]
            event = {**EVENT, "step": at, "change": {"sfe": 1.0 + seed}}
            write_run(
                folder / Point(arm, {"start": start}).folder, "pretrain", [("a", at), ("b", at + 20)], lines,
                seed=seed, start=at, arm=arm, variant={"start": start}, events=[event] if arm == "fire" else (),
            )  # fmt: skip
    return path


def body_of(*paths):
    return json.loads(json.dumps(compose(*paths).scores, allow_nan=False))


def printed_report(*paths):
    console = Console(width=250, record=True, file=io.StringIO())
    console.print(summary_table(*paths))
    return console.export_text()


def test_the_first_final_and_best_loss_of_every_arm_and_start_are_reported(tmp_path):
    best, late = body_of(warm_start(tmp_path / "c"))["variants"]
    assert (best["variant"], late["variant"]) == ({"start": "best"}, {"start": "100"})
    fire = late["arms"]["fire"]
    assert fire["val_loss"]["final"]["per_seed"] == pytest.approx([2.9, 3.1])
    assert fire["val_loss"]["final"]["mean"] == pytest.approx(3.0)
    assert fire["val_loss"]["final"]["sd"] == pytest.approx(np.std([2.9, 3.1], ddof=1))
    assert fire["val_loss"]["best"]["per_seed"] == pytest.approx([2.4, 2.6])
    assert late["arms"]["reset"]["val_loss"]["first"]["per_seed"] == [9.0, 9.0]
    assert best["arms"]["none"]["start_step"] == [40, 50]
    assert best["arms"]["none"]["updates"] == [20, 20]
    assert best["arms"]["fire"]["val_loss"]["minus_none"]["per_seed"] == pytest.approx([-0.1, -0.2])
    reset = best["arms"]["reset"]["val_loss/a"]
    assert reset["base"]["per_seed"] == [3.0, 3.0]  # of the model before interventions
    assert reset["first"]["per_seed"] == [8.0, 8.0]
    assert reset["gain"]["per_seed"] == pytest.approx([0.5, 0.5])
    assert best["arms"]["fire"]["at_interventions"]["sfe"] == pytest.approx(1.5)
    assert best["arms"]["none"]["interventions"] == 0


def test_a_run_alone_counts_its_steps_from_its_start(tmp_path):
    run = warm_start(tmp_path / "c") / "seed-0" / "start=100" / "fire"
    (variant,) = body_of(run)["variants"]
    assert variant["arms"]["fire"]["updates"] == [20]
    assert variant["arms"]["fire"]["val_loss"]["first"]["per_seed"] == [4.0]


def test_arms_are_compared_within_their_start_and_the_best_one_with_none(tmp_path):
    path = warm_start(tmp_path / "c")
    gaps, text = body_of(path)["gaps"], printed_report(path)
    assert [gap["best_arm"] for gap in gaps] == ["fire", "fire"]
    assert [gap["mean"] for gap in gaps] == pytest.approx([0.15, 0.45])
    assert "start best: 0.150 [−0.485, 0.785] (fire); start 100: 0.450 [−0.185, 1.085] (fire)." in text
    assert "start best: fire against none, 2 seeds: no significant difference in final val loss" in text
    assert text.count("reset against none") == 2
    assert "2 → 0.5" in text  # DfI at interventions


@pytest.mark.usefixtures("without_figures")
def test_variants_with_one_arm_each_are_compared_with_the_first(tmp_path):
    path, variants = tmp_path / "c", [{"learning_rate": rate} for rate in (1e-5, 1e-4)]
    records.write_plan(path, "sft", ["none"], [0], variants=variants)
    for variant, learn in zip(variants, (0.5, 0.75), strict=True):
        folder = path / "seed-0" / Point("none", variant).folder
        sft(folder, variant["learning_rate"], learn=learn, variant=variant)
    (row, *_) = json.loads(build_report(path).scores.read_text())["differences"]
    assert (row["arm"], row["baseline"]) == ("learning rate 0.0001", "learning rate 1e-05")
    assert (row["measure"], row["per_seed"], row["interval"]) == ("final learn accuracy", [0.25], None)


def test_unfinished_runs_and_missing_seeds_are_named_and_enter_no_final_number(tmp_path):
    path = warm_start(tmp_path / "c", skip={("best", "reset", 1)}, short={("100", "fire", 0)})
    body = body_of(path)
    assert "start best, reset: no run yet for seed 1" in body["notes"]
    (unfinished,) = (note for note in body["notes"] if "unfinished" in note)
    assert unfinished.startswith("start 100, fire, seed 0: unfinished, its logs end at step 10 of 20")
    fire = body["variants"][1]["arms"]["fire"]
    assert fire["finished"] == [False, True]
    assert fire["val_loss"]["final"]["per_seed"] == [None, 3.1]
    assert fire["val_loss"]["best"]["per_seed"] == [None, 2.6]
    assert unfinished in printed_report(path)


def test_until_an_arm_starts_the_report_is_of_the_trunks(tmp_path):
    path = warm_start(tmp_path / "c", skip={(start, arm, seed) for start, arm in FINAL for seed in (0, 1)})
    assert build_report(path).html.is_file()
    assert body_of(path)["variants"][0]["arms"]["trunk"]["seeds"] == [0, 1]
    records.write_plan(tmp_path / "empty", "sft", ["none"], [0])
    with pytest.raises(ValueError, match="no run has started yet"):
        build_report(tmp_path / "empty")


def test_losses_are_drawn_by_start_over_the_updates_since(tmp_path):
    figure = plot_validation_loss(compose(warm_start(tmp_path / "c")).data).figure
    assert [axes.get_title("left") for axes in figure.axes] == ["start best", "start 100"]
    for axes in figure.axes:
        assert [line.get_xdata().tolist() for line in axes.lines] == [[0, 10, 20]] * 3
    assert figure.axes[1].lines[0].get_ydata()[-1] == pytest.approx(3.45)
    assert figure.axes[0].get_ylim()[1] < 9  # what a reset begins with does not flatten the rest


def test_each_arm_has_one_colour_at_all_starts_though_one_has_not_begun_at_the_first(tmp_path):
    skip = {("best", "fire", seed) for seed in (0, 1)}
    figure = plot_validation_loss(compose(warm_start(tmp_path / "c", skip=skip)).data).figure
    named = {text.get_text(): line.get_color() for legend in figure.legends
             for text, line in zip(legend.get_texts(), legend.get_lines(), strict=True)}  # fmt: skip
    colours = [[line.get_color() for line in axes.lines[:3]] for axes in figure.axes]
    assert colours == [[named["none"], named["reset"]], [named["none"], named["fire"], named["reset"]]]


def test_the_first_phase_shows_where_second_phases_start(tmp_path):
    axes = plot_first_phase(compose(warm_start(tmp_path / "c")).data).figure.axes[0]
    starts = {float(line.get_xdata()[0]) for line in axes.lines if len(set(line.get_xdata())) == 1}
    assert starts == {40.0, 50.0, 100.0}
    assert axes.lines[0].get_xdata().max() == 100


def test_there_is_no_picture_of_the_first_phase_if_variants_have_their_own(tmp_path):
    data = compose(warm_start(tmp_path / "c")).data
    assert plot_first_phase(replace(data, trunks=[*data.trunks, *data.trunks])) is None


def test_the_first_phase_names_variants_with_the_same_start_beside_each_other(tmp_path):
    data = compose(warm_start(tmp_path / "c")).data
    late = {label: runs for label, runs in data.arms.items() if data.point(label).variant == {"start": "100"}}
    data = replace(data, arms=late, points={label: Point(label, {"rate": i}) for i, label in enumerate(late)})
    assert [text.get_text() for text in plot_first_phase(data).figure.axes[0].texts] == ["rate 0, rate 1, rate 2"]


def test_a_report_of_a_comparison_has_page_figures_and_strict_scores(tmp_path):
    paths = build_report(warm_start(tmp_path / "c"))
    names = {figure.stem for figure in paths.figures}
    assert {"validation_loss", "first_phase", "evaluations_start_best", "evaluations_start_100"} <= names
    assert all(figure.stat().st_size > 1000 for figure in paths.figures)
    page = paths.html.read_text()
    assert all(words in page for words in ("of pretraining on a → b", "Gap of none", "made orthogonal"))
    assert json.loads(paths.scores.read_text())["algorithm"] == "pretrain"


def test_corpora_from_files_are_labelled_by_distinct_file_names():
    assert short_names(["val_loss", "val_loss/kjv", "val_loss//data/a.txt"]) == {
        "val_loss/kjv": "kjv", "val_loss//data/a.txt": "a.txt"
    }  # fmt: skip
    both = ["val_loss/x/a.txt", "val_loss/y/a.txt"]
    assert list(short_names(both).values()) == ["x/a.txt", "y/a.txt"]


def sft(path, rate, arm="none", seed=0, learn=0.8, retain=0.5, **more):
    lines = {
        0: {"learn_accuracy": 0.4, "learn_loss": 2.0, "retain_accuracy": 0.7, "retain_loss": 1.0},
        9: {
            "learn_accuracy": learn,
            "learn_loss": 0.5,
            "retain_accuracy": retain,
            "retain_loss": 1.5,
            "train_loss": 0.7,
        },
    }
    return write_run(path, "sft", [("chem", 9)], lines, seed=seed, learning_rate=rate, arm=arm, **more)


@pytest.mark.usefixtures("without_figures")
def test_fine_tuning_is_told_against_the_base_model_by_learning_rate(tmp_path):
    path = tmp_path / "c"
    variants = [{"learning_rate": rate} for rate in (1e-5, 1e-4)]
    records.write_plan(path, "sft", ["none", "sib@start"], [0], variants=variants)
    for variant in variants:
        rate = variant["learning_rate"]
        for arm, retain in (("none", 0.5), ("sib@start", 0.6)):
            sft(
                path / "seed-0" / Point(arm, variant).folder,
                rate,
                arm,
                retain=retain - 1000 * rate,
                variant=variant,
            )
    body = body_of(path)
    sib = body["variants"][1]["arms"]["sib@start"]
    assert sib["retain_accuracy"]["final"]["mean"] == pytest.approx(0.5)
    assert sib["retain_accuracy"]["gain"]["mean"] == pytest.approx(-0.2)
    assert sib["retain_accuracy"]["minus_none"]["mean"] == pytest.approx(0.1)
    text = printed_report(path)
    assert all(words in text for words in ("learning rate", "1e−05", "80.00", "−20.00"))
    assert {"fronts", "evaluations"} <= {figure.stem for figure in build_report(path).figures}


@pytest.mark.usefixtures("without_figures")
def test_single_runs_go_side_by_side_named_after_what_differs(tmp_path):
    a = sft(tmp_path / "a", 1e-5, None)
    b = sft(tmp_path / "b", 1e-5, None, seed=1, learn=0.6)
    c = sft(tmp_path / "c", 1e-4, None)
    (variant,) = body_of(a, b, c)["variants"]
    assert list(variant["arms"]) == ["none, learning_rate 1e-05", "none, learning_rate 0.0001"]
    assert variant["arms"]["none, learning_rate 1e-05"]["learn_accuracy"]["final"]["per_seed"] == [0.8, 0.6]
    assert build_report(a, b, c, out=tmp_path / "out").html.exists()


def test_a_single_run_has_curves_of_all_it_evaluated_and_measured(tmp_path):
    lines = {
        step: {"val_loss": 2.0 - step / 10, "zero_shot_accuracy": step / 10, "model/srank": 3.0} for step in (0, 2, 5)
    }
    run = write_run(tmp_path / "clip", "clip", [("mnist", 5)], lines)
    plots = {plot.name: plot for plot in plot_views(compose(run).data)}
    assert [axes.get_title("left") for axes in plots["evaluations"].figure.axes] == [
        "val loss",
        "zero shot accuracy (%)",
    ]
    assert "metrics" in plots
    assert plots["evaluations"].figure.axes[1].lines[0].get_ydata().tolist() == [0, 20, 50]
    assert "50.00" in printed_report(run)


A = [[0.9, 0.2, 0.1], [0.7, 0.8, 0.3], [0.5, 0.6, 0.9]]


def continual(path, matrix, rows=3, before=(0.1, 0.2, 0.3), method="moram", tasks="xyz", **more):
    outcomes = [
        {"step": 5 * (i + 1), "task": i, "name": tasks[i], "seed": 0, "updates": 5, "score": 0.5, "scores": matrix[i]}
        for i in range(rows)
    ]
    outcomes[0]["before"] = list(before)
    lines = {5 * i: {"score": 0.1 * i, "train_loss": 1.0} for i in range(rows + 1)}
    names = [(name, 5 * (i + 1)) for i, name in enumerate(tasks)]
    return write_run(path, "continual", names, lines, outcomes=outcomes, method=method, **more)


def measures_of(path):
    (learned,) = collect_scores(read_cells(compose(path).data))
    return {name: spread.mean for name, spread in learned.measures().items()}


def test_continual_learning_has_op_bwt_transfer_average_and_last(tmp_path):
    measures = measures_of(continual(tmp_path / "r", A))
    assert measures["op"] == pytest.approx((0.5 + 0.6 + 0.9) / 3) == measures["last"]
    assert measures["bwt"] == pytest.approx(((0.9 - 0.5) + (0.8 - 0.6)) / 2)  # eq. 10: positive is forgotten
    assert measures["transfer"] == pytest.approx((0.2 + (0.1 + 0.3) / 2) / 2)
    assert measures["average"] == pytest.approx(np.mean(A))
    assert measures["before"] == pytest.approx(0.2)


def test_arms_that_were_forked_after_a_task_have_the_scores_of_the_whole_sequence(tmp_path):
    records.write_plan(tmp_path, "continual", ["none", "fire"], [0], 5)
    names, scores = [(name, 5 * (i + 1)) for i, name in enumerate("xyz")], {"none": A, "fire": [A[0], A[1], [0.9] * 3]}
    rows = {i: {"step": 5 * (i + 1), "task": i, "seed": 0, "updates": 5} for i in range(3)}
    first = {**rows[0], "scores": A[0], "before": [0.1, 0.2, 0.3]}
    write_run(tmp_path / "seed-0/trunk", "continual", names, {5: {"score": 0.1}}, outcomes=[first], stop=5)
    for arm, matrix in scores.items():
        own = [{**rows[i], "scores": matrix[i]} for i in (1, 2)]
        lines = {5: {"score": 0.1}, 15: {"score": 0.3}}
        write_run(tmp_path / "seed-0" / arm, "continual", names, lines, outcomes=own, start=5, arm=arm)
    none = collect_scores(read_cells((content := compose(tmp_path)).data))[0]
    assert none.tasks == ("x", "y", "z")
    assert none.scores[0].tolist() == A
    assert none.measures()["bwt"].mean == pytest.approx(((0.9 - 0.5) + (0.8 - 0.6)) / 2)
    (old,) = content.parts["continual"].old_tasks
    assert old.arms["fire"].spread("new tasks").mean == pytest.approx((0.8 + 0.9) / 2)  # not x, before the fork


def test_the_declared_measure_of_a_sequence_leads_its_report(tmp_path):
    path = continual(tmp_path / "r", A)
    assert compose(path).measures[0].name == "OP"
    records.relabel(path, leads="Average")
    content = compose(path)
    assert content.measures[0].name == "Average"
    assert next(str(heading) for heading in content.tables[0].header if "%" in str(heading)) == "Average (%)"


@pytest.mark.usefixtures("without_figures")
def test_an_unfinished_continual_run_has_no_transfer_and_forgetting(tmp_path):
    path = continual(tmp_path / "r", A, rows=2)
    measures = measures_of(path)
    assert np.isnan([measures[name] for name in ("op", "bwt", "transfer", "average", "last")]).all()
    paths = build_report(path)
    (variant,) = json.loads(paths.scores.read_text())["variants"]
    assert variant["arms"]["moram"]["scores"] == [[A[0], A[1], [None] * 3]]
    assert "unfinished" in paths.html.read_text()


@pytest.mark.usefixtures("without_figures")
def test_methods_share_the_panels_and_orders_have_a_disparity(tmp_path):
    path, variants = tmp_path / "c", [{"method": m, "order": o} for m in ("moram", "ewc") for o in ("", "1,0")]
    records.write_plan(path, "continual", ["none"], [0], variants=variants)
    ops = {"moram": (0.6, 0.8), "ewc": (0.5, 0.5)}
    for variant in variants:
        turned = variant["order"] != ""
        matrix = [[0.9, 0.1], [ops[variant["method"]][turned]] * 2]
        folder = path / "seed-0" / Point("none", variant).folder
        continual(
            folder, matrix, rows=2, before=(0.0, 0.0), method=variant["method"], tasks="yx" if turned else "xy",
            arm="none", variant=variant,
        )  # fmt: skip
    disparity = 100 * np.std(ops["moram"], ddof=1)
    assert f"{disparity:.2f} (method moram, none); 0.00 (method ewc, none)" in printed_report(path)
    paths = build_report(path)
    assert {"score_matrix", "scores_by_task", "evaluations"} <= {figure.stem for figure in paths.figures}
    arms = [variant["arms"]["none"] for variant in json.loads(paths.scores.read_text())["variants"]]
    assert [arm["op"]["mean"] for arm in arms] == pytest.approx([0.6, 0.8, 0.5, 0.5])
    assert arms[1]["tasks"] == ["y", "x"]


def test_old_tasks_of_every_order_are_in_one_table(tmp_path):
    path, variants = tmp_path / "c", [{"order": order} for order in ("", "1,0")]
    records.write_plan(path, "continual", ["none", "fire"], [0], variants=variants)
    matrices = {"none": [[0.9, 0.1], [0.5, 0.7]], "fire": [[0.9, 0.1], [0.2, 0.9]]}
    for variant in variants:
        for arm, matrix in matrices.items():
            tasks = "yx" if variant["order"] else "xy"
            folder = path / "seed-0" / Point(arm, variant).folder
            continual(folder, matrix, rows=2, before=(0.0, 0.0), tasks=tasks, arm=arm, variant=variant)
    content = compose(path)
    (table,) = (table for table in content.tables if table.title == "Old tasks")
    assert [[str(cell) for cell in row[:2]] for row in table.rows] == [
        ["none", "order "], ["fire", "order "], ["none", "order 1,0"], ["fire", "order 1,0"],
    ]  # fmt: skip
    fire = content.scores["variants"][1]["arms"]["fire"]["old_tasks"]
    assert (fire["forgetting"]["mean"], fire["new_tasks"]["mean"]) == pytest.approx((0.7, 0.9))
