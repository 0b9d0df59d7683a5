"""SAC with normalised hidden layers, other settings of AdamW, and discrete observations."""

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from supple.agents.sac import SACSettings
from supple.agents.sac.inputs import Control
from supple.agents.sac.work import SACWork
from supple.networks import SpectralLinear, StackedSpectralLinear, trace_wiring

NORMALIZED = pytest.mark.parametrize("normalization", ["layer", "spectral"])


@pytest.mark.slow
@NORMALIZED
@pytest.mark.parametrize("name", ["fire", "snp", "reset", "redo", "injection"])
def test_interventions_work_and_learning_goes_on(small: Any, name: str, normalization: str) -> None:
    agent, steps = small.trained(network="mlp", normalization=normalization)
    small.apply(agent, name)
    small.live(agent, steps, 5)
    assert np.isfinite(list(agent.numbers().values())).all()


@NORMALIZED
def test_the_wiring_that_is_named_is_the_one_that_tracing_finds(small: Any, normalization: str) -> None:
    agent = small.agent_with(network="mlp", normalization=normalization)
    learner = agent.learners["critic"]
    found, _ = trace_wiring(agent.critics.net, [unit.removeprefix("net.") for unit in learner.units])
    for unit, wires in found.items():
        named = learner.wiring[f"net.{unit}"]
        for names, ours in zip(
            (wires.incoming, wires.outgoing, wires.norms), (named.incoming, named.outgoing, named.norms), strict=True
        ):
            assert ours == tuple(f"net.{name}" for name in names)
    assert all(bool(wires.norms) == (normalization == "layer") for wires in found.values())


@pytest.mark.slow
def test_spectral_layers_are_the_hidden_ones_and_targets_take_their_vectors(small: Any) -> None:
    agent, _ = small.trained(network="mlp", normalization="spectral")
    kinds = {name: type(module) for name, module in agent.actor.named_modules() if hasattr(module, "weight")}
    assert kinds["body.linears.0"] is kinds["body.linears.1"] is SpectralLinear
    assert kinds["mean"] is kinds["log_std"] is torch.nn.Linear
    for target, online in zip(agent.target.modules(), agent.critics.modules(), strict=True):
        if isinstance(online, StackedSpectralLinear):
            assert torch.equal(target.u, online.u)
            assert not torch.equal(online.u, StackedSpectralLinear(2, *online.weight.shape[:0:-1]).u)


def test_the_settings_of_adamw_are_those_of_every_optimizer(small: Any) -> None:
    agent = small.agent_with(adam_betas=(0.95, 0.99), adam_epsilon=1e-5)
    for learner in agent._all_learners().values():
        assert learner.optimizer.defaults["betas"] == (0.95, 0.99)
        assert learner.optimizer.defaults["eps"] == 1e-5


class Rooms(gym.Env):
    observation_space = spaces.Discrete(6)
    action_space = spaces.Box(-1, 2, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict]:
        return 3, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict]:
        return 4, 0.0, False, True, {}


@pytest.fixture(scope="module", autouse=True)
def _rooms() -> Iterator[None]:
    gym.register("Rooms-v0", Rooms)
    yield
    del gym.registry["Rooms-v0"]


@pytest.mark.slow
def test_discrete_observations_become_one_hot() -> None:
    work = SACWork(SACSettings(env="Rooms-v0", steps=10_000, learning_starts=0, replay_size=300, device="cpu"))
    assert work.agent.control == Control(6, (-1.0, -1.0), (2.0, 2.0))
    envs = work.envs(work.settings, "Rooms-v0", [{}, {}])
    np.testing.assert_array_equal(envs.reset([0, 1]), np.eye(6)[[3, 3]])
    result = envs.step(np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(result.final_obs, np.eye(6)[[4, 4]])
    envs.close()
