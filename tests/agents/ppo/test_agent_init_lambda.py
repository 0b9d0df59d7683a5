"""PPO with λ-balanced initial weights."""

from itertools import pairwise
from typing import Any

import pytest
import torch

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.metrics import measure


def agent(**changes: Any) -> PPO:
    small: dict[str, Any] = {
        "env": "a",
        "steps": 1_000,
        "num_envs": 2,
        "hidden": (8, 8),
        "adapter": 6,
        "compile": "off",
    }
    return PPO(PPOSettings(**small, **changes), {"a": PolicySpace(4, Gaussian(2)), "b": PolicySpace(3, Gaussian(1))})


@pytest.mark.slow
def test_the_network_and_its_fresh_draws_begin_with_the_balance() -> None:
    learner = agent(activation="relu", init_lambda=1.5).learners["agent"]
    assert measure(learner)["lambda_balance"] == pytest.approx(1.5, abs=1e-5)
    assert measure(learner)["lambda_residual"] < 1e-5
    fresh = learner.redraw()
    assert not torch.equal(fresh["body.0.weight"], learner.module.get_parameter("body.0.weight"))
    for first, second in pairwise(("body.0", "body.2")):
        out, into = fresh[f"{second}.weight"].square().sum(0), fresh[f"{first}.weight"].square().sum(1)
        torch.testing.assert_close(out - into - fresh[f"{first}.bias"].square(), torch.full((8,), 1.5))


def test_without_init_lambda_weights_are_orthogonal() -> None:
    weight = agent().network.get_parameter("body.2.weight").detach()
    torch.testing.assert_close(weight @ weight.T, 2 * torch.eye(8))
