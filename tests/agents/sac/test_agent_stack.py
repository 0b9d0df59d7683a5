"""A stack of SAC agents: each member draws, acts and learns as its run alone."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.agents.sac.networks import Actor, Critics
from supple.engine.divergence import members_not_finite, return_to_start
from supple.engine.hooks.driver import HookDriver
from supple.envs import Picture, StepResult
from supple.interventions import Learner
from tests.agents.lives import ENVS, SEEDS, Lives, images, of_seeds, vectors
from tests.agents.sac.conftest import CONTROL, NO_HOOKS, agent_with

D, A = 5, 2
KINDS: dict[str, dict[str, Any]] = {
    "simba": {"network": "simba", "target_entropy": -1.0},
    "mlp": {"network": "mlp", "normalization": "layer", "critics": 3, "replay_ratio": 1.5, "priming_updates": 20},
    "spectral": {"network": "mlp", "normalization": "spectral", "critics": 1, "log_std": "clipped"},
    "random": {"network": "mlp", "activation": "rand_smooth_leaky", "normalize_observations": False},
    "images": {"network": "mlp", "hidden": (8,), "encoder": "minatar(channels=[4])"},
    "residual": {"network": "simba", "encoder": "impala(channels=[4])"},
}
IMAGE = Picture(3, 8, 8)
SEEN = Control(IMAGE.size, (-1.0,) * A, (1.0,) * A, IMAGE, "uint8")


def agent(kind: str, *seeds: int, **changes: Any) -> SAC:
    own = {**KINDS[kind], **of_seeds(*seeds), **changes}
    control = SEEN if "encoder" in own else CONTROL
    made = agent_with(control, **{"num_envs": ENVS, "learning_starts": 6, **own})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    return made


class SACLives(Lives):
    """Lives that also compare the temperature, the last losses and the running statistics."""

    def learners(self, one: SAC) -> Mapping[str, Learner]:
        return one._all_learners()

    def pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        yield from super().pairs()
        for member, one in enumerate(self.alone):
            for name, loss in one.soft_update.latest.items():
                yield f"loss {member} {name}", self.stack.soft_update.latest[name][member], loss

    def compare(self, tolerance: float) -> None:
        super().compare(tolerance)
        for member, one in enumerate(self.alone):
            np.testing.assert_array_equal(
                self.stack.inputs.statistics["all"].mean[member], one.inputs.statistics["all"].mean
            )
            np.testing.assert_array_equal(
                self.stack.inputs.centres["all"].offset[member], one.inputs.centres["all"].offset
            )


def lives_of(kind: str, **changes: Any) -> Lives:
    world = images(IMAGE.size) if "encoder" in KINDS[kind] else vectors(D)
    return SACLives(partial(agent, kind, **changes), world)


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute in double precision also where acting and the memory have single precision."""
    actor, critics = Actor.forward, Critics.forward
    monkeypatch.setattr(Actor, "forward", lambda network, x: actor(network, x.double()))
    monkeypatch.setattr(Critics, "forward", lambda network, x, a: critics(network, x.double(), a.double()))
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def live_once(one: SAC, result: StepResult, hooks: HookDriver) -> None:
    one.act()
    one.remember(result)
    one.update(hooks, last=False)
    hooks.after_steps(one.experience.decisions - ENVS, one.experience.decisions)


@pytest.mark.slow
def test_a_member_that_diverges_leaves_the_others_alone() -> None:
    stack, spoiled = (agent("simba", *SEEDS) for _ in range(2))
    for one in (stack, spoiled):
        steps = vectors(D)
        one.begin_episodes(next(steps).obs)
        for step in range(14):
            if step == 8 and one is spoiled:
                with torch.no_grad():
                    one.actor.mean.weight[1, 0] = float("nan")
                live_once(one, next(steps), NO_HOOKS)
                assert members_not_finite(one.learners) == [1]
                assert one.sound().tolist() == [True, False, True]
                for learner in one.learners.values():
                    return_to_start(learner, [1])
                one.numbers()
            else:
                live_once(one, next(steps), NO_HOOKS)
    for name, learner in stack._all_learners().items():
        module = spoiled._all_learners()[name].module
        rows = learner.networks_of([0, 2])
        for key, parameter in learner.module.named_parameters():
            assert torch.equal(parameter[rows], module.get_parameter(key)[rows]), (name, key)
