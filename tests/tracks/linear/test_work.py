"""`supple train linear`: the loop's gradient descent, tasks that change, hooks, the same bytes after a kill."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from supple.engine.kinds import find_kind
from supple.engine.runs import build
from supple.engine.seeding import derive
from supple.scripts.main import dispatch
from supple.tracks.linear import (
    balance_residual,
    balanced_init,
    gradient_descent,
    gram,
    ntk,
    random_regression,
    reversal,
    semantic_hierarchy,
)
from supple.tracks.linear.settings import LinearSettings
from tests.tracks.logs import read_log, refusal

pytestmark = pytest.mark.slow

SMALL = "--n-in 3 --n-hidden 3 --n-out 3 --samples 6 --updates-per-task 12 --init-scale 0.5"
OFTEN = "--eval-every 4 --measure-every 9 --checkpoint-every 7"
HOOKS = shlex.split(
    "--hook fire@task --hook snp(lam=0.9)@task --hook l2_init(strength=1e-3) "
    "--hook cbp(replacement_rate=0.1,maturity=0)"  # units are replaced in float64 too
)


def words(out: Path, *more: str, command: str = "train") -> list[str]:
    return [command, "linear", *f"--tasks random,reversal,random {SMALL} {OFTEN}".split(), *more, "--out", str(out)]


def made(**changes: Any) -> Any:
    small = {"n_in": 4, "n_hidden": 3, "n_out": 5, "tasks": "random"}
    return build(find_kind("linear"), LinearSettings(**small | changes))


def weights(work: Any) -> list[np.ndarray]:
    return [parameter.detach().numpy().copy() for parameter in work.network.parameters()]


def test_what_would_make_the_network_nonlinear_is_refused(tmp_path: Path) -> None:
    refused = refusal(dispatch, words(tmp_path / "run", "--hook", "nap"))
    assert "'model' has no hidden units with a nonlinearity; use normalize=false" in refused
    dispatch(words(tmp_path / "run", "--hook", "nap(normalize=false)"))


def test_the_loop_is_gradient_descent_on_whitened_inputs(tmp_path: Path) -> None:
    settings = "--tasks semantic,reversal --lam 2 --updates-per-task 100 --eval-every 10 --learning-rate 0.05"
    dispatch(["train", "linear", *settings.split(), "--out", str(tmp_path / "run")])
    lines = [line for line in read_log(tmp_path / "run", "metrics") if "loss" in line]
    first, second = weights(made(tasks="semantic", n_in=8, n_hidden=8, n_out=8, lam=2))
    for index, task in enumerate((semantic_hierarchy(), reversal(semantic_hierarchy()))):
        firsts, seconds = gradient_descent(first, second, task.sigma_yx, 100, 0.05, every=10)
        ours = [line["loss"] for line in lines if line["task"] == index]
        assert_allclose(ours, task.loss(seconds @ firsts), rtol=0, atol=1e-12)
        first, second = firsts[-1], seconds[-1]


def test_the_network_begins_as_algorithm_one_draws_it_and_is_drawn_again_otherwise() -> None:
    """The draws are those of seeds that belong to the network, to a task, and to interventions alone."""
    work, same = (made(lam=0.5, seed=7) for _ in range(2))
    drawn = balanced_init(0.5, 4, 3, 5, 0.1, derive(7, "network"))
    assert all(map(np.array_equal, weights(work), drawn))
    assert random_regression(4, 5, 32, rng=derive(7, "task", 0)).y.tolist() == work.data[0].y.tolist()
    first, second, again = work.learner.redraw(), work.learner.redraw(), same.learner.redraw()
    assert balance_residual(*(weight.numpy() for weight in first.values()), 0.5) < 1e-12
    assert torch.equal(first["first.weight"], again["first.weight"])
    assert not torch.equal(first["first.weight"], second["first.weight"])


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
        first, second = weights(work)
        expected = pytest.approx(float(work.data[task.index].loss(second @ first)), abs=1e-12)
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


def test_a_run_logs_forgetting_distances_hooks_and_metrics_of_the_hidden_units(tmp_path: Path) -> None:
    dispatch(words(run := tmp_path / "run", "--lam", "1", *HOOKS))
    first, second, third = read_log(run, "tasks")
    assert first["losses"] == [first["loss"]] == [first["loss/0-random"]]
    assert "forgetting" not in first
    assert second["forgetting"] == pytest.approx(second["losses"][0] - first["loss"])
    rises = [third["losses"][0] - first["loss"], third["losses"][1] - second["loss"]]
    assert third["forgetting"] == pytest.approx(sum(rises) / 2)

    metrics = read_log(run, "metrics")
    begun = [line for line in metrics if "loss" in line and line["step"] in (0, 12)]
    assert (begun[0]["kernel_distance"], begun[2]["kernel_distance_task"]) == (0.0, 0.0)
    assert begun[1]["kernel_distance"] == begun[1]["kernel_distance_task"] > 0
    measured = [line for line in metrics if "model/srank" in line]
    assert [line["step"] for line in measured] == [9, 12, 18, 24, 27, 36]
    assert measured[-1]["model/numerical_rank"] == 3
    assert metrics[-2]["model/cbp_replaced"] > 0

    events = [event for event in read_log(run, "events") if event["event"] == "intervention"]
    assert [(event["step"], event["hook"]) for event in events] == [
        (step, hook) for step in (12, 24) for hook in ("fire@task", "snp(lam=0.9)@task")
    ]
    assert all(event[side].keys() >= {"dfi", "lambda_balance"} for event in events for side in ("before", "after"))


def test_the_kernel_distance_is_that_of_the_tangent_kernels() -> None:
    work = made(lam=1.0)
    work.loss(work.tasks[0], 0, 0)
    before = gram(*weights(work))
    with torch.no_grad():
        work.network.first.weight.mul_(1.7).add_(0.1)
    a, b = [ntk(each.w1tw1, each.w2w2t, work.data[0].x) for each in (before, gram(*weights(work)))]
    cosine = (a * b).sum() / np.linalg.norm(a) / np.linalg.norm(b)
    assert work.evaluate(work.tasks[0])["kernel_distance_task"] == pytest.approx(1 - cosine)


def test_arms_and_variants_are_compared_and_reported(
    tmp_path: Path, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.reports.studies.evaluation_figures.plot_views", lambda *_: [])  # which take seconds

    out = tmp_path / "compared"
    arms = ("--arm", "none", "--arm", "fire@task", "--vary", "lam=0,1", "--jobs", "1")
    with here():
        dispatch(words(out, *arms, command="compare"))
    dispatch(["report", str(out)])
    page = (out / "report/index.html").read_text()
    assert "deep linear networks on random → reversal → random" in page
    for expected in ("Difference to none", "forgetting", "1 reversal", "lam 1.0, fire@task", "Interventions", "≈ λI"):
        assert expected in page
    scores = json.loads((out / "report/scores.json").read_text())
    assert [each["variant"] for each in scores["variants"]] == [{"lam": 0.0}, {"lam": 1.0}]
