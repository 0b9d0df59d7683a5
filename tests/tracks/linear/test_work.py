"""`supple train linear`: the loop's gradient descent, tasks that change, hooks, the same bytes after a kill."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from supple.engine.kinds import find_kind
from supple.engine.runs import build
from supple.scripts.main import dispatch
from supple.tracks.linear import balanced_init
from supple.tracks.linear.flow import gradient_descent
from supple.tracks.linear.settings import LinearSettings
from supple.tracks.linear.tasks import random_regression, reversal, semantic_hierarchy
from supple.tracks.linear.weights import balance_residual
from supple.tracks.linear.work import LinearWork
from tests.tracks.logs import read_log, state

pytestmark = pytest.mark.slow

SMALL = "--n-in 3 --n-hidden 3 --n-out 3 --samples 6 --updates-per-task 12 --init-scale 0.5"
OFTEN = "--eval-every 4 --measure-every 9 --checkpoint-every 7"
HOOKS = ("--hook", "fire@task", "--hook", "snp(lam=0.9)@task", "--hook", "l2_init(strength=1e-3)")


LINEAR = find_kind("linear")


def words(out: Path, *more: str, command: str = "train") -> list[str]:
    return [command, "linear", *["--tasks", "random,reversal,random", "--lam", "1"], *f"{SMALL} {OFTEN}".split(), *more,
            "--out", str(out)]  # fmt: skip


def made(**changes: Any) -> LinearWork:
    work = build(
        find_kind("linear"), LinearSettings(**{"n_in": 4, "n_hidden": 3, "n_out": 5, "tasks": "random"} | changes)
    )
    assert isinstance(work, LinearWork)
    return work


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("linear") / "whole"
    dispatch(words(out, *HOOKS))
    return out


def test_the_loop_is_gradient_descent_on_whitened_inputs(tmp_path: Path) -> None:
    settings = "--tasks semantic,reversal --lam 2 --updates-per-task 100 --eval-every 10 --learning-rate 0.05"
    dispatch(["train", "linear", *settings.split(), "--out", str(tmp_path / "run")])
    lines = [line for line in read_log(tmp_path / "run", "metrics") if "loss" in line]
    weights: Any = [
        parameter.detach().numpy() for parameter in build(LINEAR, LinearSettings(lam=2)).learner.module.parameters()
    ]
    for index, task in enumerate((semantic_hierarchy(), reversal(semantic_hierarchy()))):
        firsts, seconds = gradient_descent(*weights, task.sigma_yx, 100, 0.05, every=10)
        ours = [line["loss"] for line in lines if line["task"] == index]
        np.testing.assert_allclose(ours, task.loss(seconds @ firsts), rtol=0, atol=1e-12)
        weights = firsts[-1], seconds[-1]


def test_the_network_begins_balanced_and_is_drawn_again_balanced() -> None:
    work = made(lam=1.5, init_scale=0.3)
    for draw in ([p.detach() for p in work.network.parameters()], list(work.learner.redraw().values())):
        assert balance_residual(*(w.numpy() for w in draw), 1.5) < 1e-12
    first, again = work.learner.redraw(), made(lam=1.5, init_scale=0.3).learner.redraw()
    assert not torch.equal(first["first.weight"], again["first.weight"]), "the second draw of a run is another one"
    assert torch.equal(made(lam=1.5, init_scale=0.3).learner.redraw()["first.weight"], again["first.weight"])


def test_random_tasks_are_new_each_time_and_the_others_change_the_one_before() -> None:
    first, turned, doubled, fresh = made(tasks="random,reversal,scaled,random").data
    assert np.allclose(turned.sigma_yx, reversal(first).sigma_yx)
    assert np.allclose(doubled.y, 2 * turned.y)
    assert not np.allclose(fresh.sigma_yx, first.sigma_yx)
    plain, added = made(n_in=8, n_hidden=8, n_out=8, tasks="semantic,feature").data
    assert np.count_nonzero(added.y != plain.y) == 1
    assert plain.y[added.y != plain.y] == 0


def test_the_learners_losses_are_those_of_the_task_at_hand() -> None:
    work = made(tasks="random,random", lam=0.5)
    for task in work.tasks:
        work.place = task, 0
        (losses,) = work.learner.batches(None)
        function = (work.network.second.weight @ work.network.first.weight).detach().numpy()
        expected = pytest.approx(float(work.data[task.index].loss(function)), abs=1e-12)
        assert losses.shape == (32,)
        assert losses.mean().item() == work.learner.loss().item() == expected


def test_no_loss_is_below_zero_where_all_is_learned() -> None:
    work = made(n_in=8, n_hidden=8, n_out=8, tasks="semantic,reversal,random")
    for task, data in zip(work.tasks, work.data, strict=True):
        with torch.no_grad():
            work.network.first.weight.copy_(torch.eye(8))
            work.network.second.weight.copy_(torch.from_numpy(data.sigma_yx))
        numbers = work.evaluate(task)
        assert numbers["excess_loss"] == 0.0
        assert numbers["loss"] == data.least_loss >= 0.0
        work.finish(task, numbers)
    assert work.data[0].least_loss < 1e-28
    assert work.data[2].least_loss == pytest.approx(
        (np.square(data.y).sum() / data.samples - np.square(data.sigma_yx).sum()) / 2
    )


def test_units_are_replaced_in_float64(tmp_path: Path) -> None:
    dispatch(words(tmp_path / "run", "--hook", "cbp(replacement_rate=0.1,maturity=0)"))
    assert read_log(tmp_path / "run", "metrics")[-2]["model/cbp_replaced"] > 0


def test_forgetting_is_what_earlier_losses_rose_since_their_end(whole: Path) -> None:
    first, second, third = read_log(whole, "tasks")
    assert [len(line["losses"]) for line in (first, second, third)] == [1, 2, 3]
    assert first["losses"] == [first["loss"]] == [first["loss/0-random"]]
    assert second["forgetting"] == pytest.approx(second["losses"][0] - first["loss"])
    rises = [third["losses"][0] - first["loss"], third["losses"][1] - second["loss"]]
    assert third["forgetting"] == pytest.approx(sum(rises) / 2)
    assert "forgetting" not in first


def test_the_kernel_distance_is_measured_from_the_first_update_of_run_and_task(whole: Path) -> None:
    from supple.tracks.linear.representations import gram, kernel_distance, ntk

    begun = [line for line in read_log(whole, "metrics") if "loss" in line and line["step"] in (0, 12)]
    assert (begun[0]["kernel_distance"], begun[2]["kernel_distance_task"]) == (0.0, 0.0)
    assert begun[1]["kernel_distance"] == begun[1]["kernel_distance_task"] > 0
    work = made(lam=1.0)
    work.loss(work.tasks[0], 0, 0)
    before = [p.detach().clone().numpy() for p in work.network.parameters()]
    with torch.no_grad():
        work.network.first.weight.mul_(1.7).add_(0.1)
    after = [p.detach().numpy() for p in work.network.parameters()]
    x = work.data[0].x
    kernels = [ntk(each.w1tw1, each.w2w2t, x) for each in (gram(*before), gram(*after))]
    assert work.evaluate(work.tasks[0])["kernel_distance_task"] == pytest.approx(float(kernel_distance(*kernels)))


def test_hooks_fire_where_tasks_begin_and_metrics_see_the_hidden_units(whole: Path) -> None:
    events = [event for event in read_log(whole, "events") if event["event"] == "intervention"]
    assert [(event["step"], event["hook"]) for event in events] == [
        (12, "fire@task"), (12, "snp(lam=0.9)@task"), (24, "fire@task"), (24, "snp(lam=0.9)@task"),
    ]  # fmt: skip
    assert all(event["written"] == 2 for event in events)
    assert all(event[side].keys() >= {"dfi", "lambda_balance"} for event in events for side in ("before", "after"))
    measured = [line for line in read_log(whole, "metrics") if "model/srank" in line]
    assert [line["step"] for line in measured] == [9, 12, 18, 24, 27, 36]
    assert measured[-1]["model/numerical_rank"] == 3


def test_arms_and_variants_are_compared_and_reported(
    tmp_path: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.reports.study_report._plots", lambda *_: [])  # which take seconds

    out = tmp_path / "compared"
    arms = ("--arm", "none", "--arm", "fire@task", "--vary", "lam=0,1", "--seeds", "0", "1", "--jobs", "1")
    line = [word for word in words(out, *arms, command="compare") if word not in ("--lam",)]
    line.remove("1")
    with here():
        dispatch(line)
    runs = sorted(str(path.parent.relative_to(out)) for path in out.rglob("config.json"))
    assert len(runs) == 12  # four trunks, up to the task switch where fire@task can act first
    assert "seed-1/lam=1.0/fire_task-efebf3" in runs
    alone = tmp_path / "alone"
    dispatch(words(alone, "--hook", "fire@task"))
    assert state(out / "seed-0/lam=1.0/fire_task-efebf3", 36) == state(alone, 36)
    dispatch(["report", str(out)])
    page = (out / "report/index.html").read_text()
    assert "deep linear networks on random → reversal → random" in page
    for expected in ("Difference to none", "forgetting", "1 reversal", "lam 1.0, fire@task", "Interventions", "≈ λI"):
        assert expected in page
    scores = json.loads((out / "report/scores.json").read_text())
    assert [each["variant"] for each in scores["variants"]] == [{"lam": 0.0}, {"lam": 1.0}]


def test_weights_are_those_of_algorithm_one_at_every_seed() -> None:
    """The draw of the network is balanced_init's own, of a seed that belongs to it alone."""
    from supple.engine.seeding import derive

    drawn = balanced_init(0.5, 4, 3, 5, 0.1, derive(7, "network"))
    ours = [p.detach().numpy() for p in made(lam=0.5, seed=7).network.parameters()]
    assert all(np.array_equal(a, b) for a, b in zip(ours, drawn, strict=True))
    assert random_regression(4, 5, 32, rng=derive(7, "task", 0)).y.tolist() == made(seed=7).data[0].y.tolist()
