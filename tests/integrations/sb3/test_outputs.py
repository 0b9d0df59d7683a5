"""Outputs of SB3's networks before they become actions, for every algorithm and action space."""

from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("stable_baselines3")

from gymnasium import spaces
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

from supple.integrations.sb3 import learners_of
from supple.metrics import diagnose, measure
from tests.integrations.sb3.twins import env_for, small

pytestmark = pytest.mark.slow

SPACES: dict[str, spaces.Space] = {
    "discrete": spaces.Discrete(3),
    "choices": spaces.MultiDiscrete([3, 2, 4]),
    "bits": spaces.MultiBinary(4),
    "box": spaces.Box(-1, 1, (2,)),
}
GSDE: dict[str, Any] = {"use_sde": True}
SQUASHED = {**GSDE, "policy_kwargs": {"squash_output": True, "full_std": False}}
CASES = [
    *[(kind, space, {}) for kind in (PPO, A2C) for space in ("discrete", "choices", "bits", "box")],
    *[(kind, "box", settings) for kind in (PPO, A2C) for settings in (GSDE, SQUASHED)],
    (DQN, "discrete", {}), (SAC, "box", {}), (SAC, "box", GSDE), (TD3, "box", {}), (DDPG, "box", {}),
]  # fmt: skip
NAMES = [f"{kind.__name__}-{space}-{'-'.join(more)}" for kind, space, more in CASES]


def trained(kind: Any, space: str, settings: dict[str, Any]) -> Any:
    net = {"net_arch": [16, 16], "activation_fn": torch.nn.ReLU, **settings.get("policy_kwargs", {})}
    return small(kind, env_for("", "MlpPolicy", SPACES[space]), **{**settings, "policy_kwargs": net}).learn(64)


def tensors(outputs: Any) -> list[torch.Tensor]:
    return [outputs] if isinstance(outputs, torch.Tensor) else [t for t in outputs if isinstance(t, torch.Tensor)]


@pytest.mark.parametrize(("kind", "space", "settings"), CASES, ids=NAMES)
def test_outputs_change_with_every_weight_and_measure_the_policy(kind: Any, space: str, settings: dict) -> None:
    for learner in learners_of(trained(kind, space, settings)).values():
        values = {name: p.detach().clone().requires_grad_() for name, p in learner.trained().items()}
        inputs = learner.probe()
        assert inputs is not None
        outputs = learner.outputs(values, inputs)
        for each in tensors(outputs):
            assert each.requires_grad
            assert (each.detach() - each.detach()[0]).any()  # rows differ: there is something to fit
        sum(each.square().sum() for each in tensors(outputs)).backward()
        reached = {name for name, value in values.items() if value.grad is not None and value.grad.any()}
        assert {name for name in values if name.endswith("weight")} <= reached
        learner.mark()
        same = measure(learner)
        with torch.no_grad():
            for p in learner.module.parameters():
                p.mul_(1.5)
        moved = measure(learner)
        for churn in ("policy_churn", "value_churn"):
            assert (churn in same) == (churn in moved)
            if churn in same:
                assert same[churn] == pytest.approx(0, abs=1e-9)
                assert 0 < moved[churn] < np.inf
        assert ("policy_churn" in same) == (learner.policy is not None)


def lost(kind: Any, space: str) -> Any:
    """Return a learner whose hidden units have died but whose policy is the same."""
    model = trained(kind, space, {})
    learner = next(iter(learners_of(model).values()))
    with torch.no_grad():
        for name, p in learner.module.named_parameters():
            if name.endswith(".2.bias"):
                p.fill_(-100.0)
    return learner


@pytest.mark.parametrize("space", ["discrete", "choices", "bits", "box"])
@pytest.mark.parametrize("kind", [PPO, A2C])
def test_a_network_that_cannot_learn_is_lost_whatever_its_actions_are(kind: Any, space: str) -> None:
    found = diagnose(lost(kind, space), updates=50)
    assert found.state == "lost"
    assert (found.now.entropy is None) == (space == "box")


@pytest.mark.parametrize("space", ["discrete", "choices", "bits"])
def test_the_entropy_of_a_policy_is_a_share_of_the_greatest(space: str) -> None:
    model = trained(PPO, space, {})
    learner = learners_of(model)["policy"]
    found = diagnose(learner, updates=1)
    assert found.now.entropy is not None
    assert 0.9 < found.now.entropy <= 1 + 1e-6
    (observations, _), actions = learner.probe(), {"discrete": 3, "choices": 24, "bits": 16}  # type: ignore[misc]
    own = model.policy.get_distribution(observations).entropy().mean().item()
    assert found.now.entropy == pytest.approx(own / np.log(actions[space]), rel=1e-5)
    with torch.no_grad():
        model.policy.action_net.bias[::2] = 40.0
        model.policy.action_net.bias[1::2] = -40.0
        if space == "choices":  # 3, 2 and 4 options: one of each
            model.policy.action_net.bias.copy_(torch.tensor([40.0, 0, 0, 40, 0, 0, 0, 0, 40]))
        if space == "discrete":
            model.policy.action_net.bias.copy_(torch.tensor([40.0, 0, 0]))
    assert diagnose(learner, updates=1).now.entropy == pytest.approx(0, abs=1e-6)


def test_actors_are_fitted_before_their_actions_are_bounded() -> None:
    for kind, settings in ((SAC, {}), (SAC, GSDE), (TD3, {})):
        learner = learners_of(trained(kind, "box", settings))["actor"]
        with torch.no_grad():
            for name, p in learner.module.named_parameters():
                if name.startswith("mu") and name.endswith("bias"):
                    p.fill_(50.0)
        outputs = learner.outputs(dict(learner.module.named_parameters()), learner.probe())  # type: ignore[arg-type]
        assert tensors(outputs)[0].mean() > 20
        assert diagnose(learner, updates=60).loss < 0.95  # tanh would leave no gradient
