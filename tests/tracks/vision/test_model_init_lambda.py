"""Networks that begin λ-balanced, and `rebalance` in runs of classifiers."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from supple.metrics import measure_members
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.networks import make_network
from tests.tracks.logs import refusal


def off_balance(weights: dict[str, torch.Tensor], lam: float) -> float:
    """The largest deviation of a hidden unit's balance from λ."""
    layers = [(weights[f"mlp.{i}.weight"], weights[f"mlp.{i}.bias"]) for i in (0, 2, 4)]
    return max(
        float((second.square().sum(1) - first.square().sum(2) - bias.square() - lam).detach().abs().max())
        for (first, bias), (second, _) in pairwise(layers)
    )


@pytest.mark.parametrize("lam", [3.0, 0.0, -2.0])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_network_and_its_fresh_draws_begin_with_the_balance(
    lab: Any, data: DataSet, lam: float, activation: str
) -> None:
    balanced = lab.model(data, width=8, init_lambda=lam, activation=activation)
    assert off_balance(dict(balanced.network.named_parameters()), lam) < 1e-5
    fresh = balanced.learner.redraw()
    assert off_balance(dict(fresh), lam) < 1e-5
    assert not torch.equal(fresh["mlp.0.weight"], balanced.network.get_parameter("mlp.0.weight"))
    if activation == "relu":
        assert [one["lambda_balance"] for one in measure_members(balanced.learner)] == pytest.approx(
            [lam] * 2, abs=1e-5
        )


def test_members_of_a_stack_begin_as_they_would_alone(lab: Any, data: DataSet) -> None:
    stack, alone = (lab.model(data, width=8, init_lambda=1.0, seeds=seeds).network for seeds in ((3, 4), (4,)))
    for name, parameter in alone.named_parameters():
        assert torch.equal(parameter[0], stack.get_parameter(name)[1]), name


def test_every_unit_is_scaled_and_nothing_else(lab: Any, data: DataSet) -> None:
    drawn, balanced = (lab.model(data, width=8, init_lambda=lam).network for lam in (None, 2.0))
    before, after = drawn.get_parameter("mlp.0.weight"), balanced.get_parameter("mlp.0.weight")
    factors = after / before
    torch.testing.assert_close(factors, factors[..., :1].expand_as(factors))
    assert torch.equal(drawn.get_parameter("mlp.4.bias"), balanced.get_parameter("mlp.4.bias"))


def test_other_networks_are_refused(lab: Any, data: DataSet, tmp_path: Path) -> None:
    refused = refusal(lab.run, tmp_path / "run", network="convnet", init_lambda=1.0)
    assert "--network mlp, not convnet" in refused
    assert "not of cnn" in refusal(make_network, "cnn", 1, (1, 16, 16), 10, "relu", None, init_lambda=1.0)
    assert "only units with one feature each" in refusal(lab.model, data, init_lambda=1.0, activation="crelu")


@pytest.mark.slow
def test_a_run_begins_balanced_and_is_rebalanced_where_the_task_switches(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", hook=("rebalance(lam=-1)@task",), seeds=(0, 1), width=8, init_lambda=2.0)
    assert json.loads((run / "config.json").read_text())["settings"]["init_lambda"] == 2.0
    events = [event for event in lab.log(run, "events") if event["event"] == "intervention"]
    assert {event["hook"] for event in events} == {"rebalance(lam=-1)@task"}
    for event in events:
        assert min(event["before"]["lambda_balance"]) > 1.5  # training moves it little
        assert event["after"]["lambda_balance"] == pytest.approx([-1.0, -1.0], abs=1e-5)
        assert max(event["after"]["lambda_residual"]) < 1e-5
        assert min(event["change"]["sfe"]) > 0
