"""Stacks of agents: each member draws, acts and learns as its run alone."""

from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.interventions import OtherMinibatch
from supple.networks import evaluating
from tests.agents.dqn import test_agent_stack as dqn
from tests.agents.lives import ENVS, SEEDS, part
from tests.agents.ppo import test_agent_stack as ppo
from tests.agents.sac import test_agent_stack as sac

AGENTS: dict[str, Any] = {"ppo": ppo, "dqn": dqn, "sac": sac}
ppo_in_float64, dqn_in_float64, sac_in_float64 = ppo.in_float64, dqn.in_float64, sac.in_float64
kinds = pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in AGENTS for kind in AGENTS[name].KINDS])
some_kinds = pytest.mark.parametrize(
    ("name", "kind"),
    [("ppo", "gaussian"), ("ppo", "random"), ("dqn", "random"), ("dqn", "images"), ("sac", "mlp"), ("sac", "random")],
)


@pytest.fixture
def in_float64(request: pytest.FixtureRequest) -> None:
    """Compute in double precision, also where an agent would not."""
    request.getfixturevalue(f"{request.node.callspec.params['name']}_in_float64")


@kinds
def test_first_weights_are_those_of_the_members_alone(name: str, kind: str) -> None:
    for what, ours, theirs in AGENTS[name].lives_of(kind).pairs():
        assert torch.equal(ours, theirs), what


@pytest.mark.slow
@kinds
def test_a_member_learns_as_alone_in_float64(name: str, kind: str, in_float64: None) -> None:
    lives = AGENTS[name].lives_of(kind)
    lives.live({"ppo": 65, "dqn": 33, "sac": 28}[name])  # of PPO 13 updates of four gradient steps each
    assert name == "ppo" or lives.stack.experience.taken >= 50
    lives.compare(1e-10)
    lives.compare_numbers(1e-10)


@some_kinds
def test_first_updates_are_those_alone(name: str, kind: str) -> None:
    lives = AGENTS[name].lives_of(kind, **({"priming_updates": 0, "learning_rate": 1e-4} if name == "sac" else {}))
    lives.live(4 if name == "sac" else 5, tolerance=1e-5)
    assert name == "ppo" or lives.stack.experience.taken >= 2
    lives.compare(1e-5)
    lives.compare_numbers(1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind", "hooks"),
    [
        ("ppo", "layer", ("fire@0.4", "l2_init(strength=0.01)")),
        ("ppo", "gaussian", ("cbp(replacement_rate=0.05,maturity=2)",)),
        ("dqn", "images", ("cbp(replacement_rate=0.05,maturity=2)",)),
        ("dqn", "minatar", ("fire@0.4", "redo(tau=0.9)@every:12", "l2_init(strength=0.01)")),
        ("dqn", "rmsprop", ("redo(tau=0.9)@every:12", "injection@0.4", "reset(toward=fresh)@0.6")),
        ("sac", "simba", ("fire(contract=as_released)@0.4", "reset(what=head,contract=as_released)@0.5")),
        ("sac", "mlp", ("snp(noise=0.01)@0.4", "l2_init(strength=0.01)")),
        ("sac", "simba_v2", ("fire@0.4", "redo(tau=0.9)@every:12", "reset(toward=fresh)@0.6")),
        ("sac", "flash", ("snp@0.4", "critic/cbp(replacement_rate=0.05,maturity=2)")),
        ("sac", "crossq", ("redo(tau=0.9)@every:12", "l2_init(strength=0.01)")),
        ("sac", "simba", ("redo(tau=0.9)@every:12", "critic/cbp(replacement_rate=0.05,maturity=2)")),
    ],
)
def test_hooks_do_to_a_member_what_they_do_alone(
    name: str, kind: str, hooks: tuple[str, ...], in_float64: None
) -> None:
    lives = AGENTS[name].lives_of(kind, **({"replay_ratio": 0.5, "priming_updates": 2} if name == "sac" else {}))
    lives.live({"ppo": 20, "dqn": 12, "sac": 14}[name], *hooks)
    lives.compare(1e-8)


@pytest.mark.slow
@some_kinds
def test_evaluation_policies_and_measured_losses_are_those_alone(name: str, kind: str, in_float64: None) -> None:
    lives = AGENTS[name].lives_of(kind)
    lives.live(10)
    rows = np.stack([next(lives.world).obs[::ENVS] for _ in range(3)], 1)  # three episodes of each member
    with lives.stack.greedy("a") as policy:
        chosen = policy(rows.reshape(-1, *rows.shape[2:])).reshape(len(SEEDS), 3, -1)
    for member, one in enumerate(lives.alone):
        with one.greedy("a") as policy:
            np.testing.assert_allclose(policy(rows[member]).reshape(3, -1), chosen[member], rtol=0, atol=1e-8)
    for of, learner in lives.stack.learners.items():
        losses, another = list(learner.batches(2)), learner.offers(OtherMinibatch).inputs()
        assert (another is None) == (name == "ppo")  # of which no update is running
        total = 0.0
        for member, one in enumerate(lives.alone):
            own = one.learners[of]
            for ours, theirs in zip(losses, own.batches(2), strict=True):
                torch.testing.assert_close(part(ours, member, theirs), theirs, rtol=1e-10, atol=1e-10)
            inputs = *(another or ()), *learner.probe()
            for ours, theirs in zip(inputs, (*(own.offers(OtherMinibatch).inputs() or ()), *own.probe()), strict=True):
                assert torch.equal(ours[member], theirs) if isinstance(ours, Tensor) else ours == theirs
            total += evaluated(one, of)
        assert evaluated(lives.stack, of) == pytest.approx(total, rel=1e-10)


def evaluated(one: Any, name: str) -> float:
    """Return the loss of a learner with all networks in evaluation mode."""
    with ExitStack() as stack:
        for learner in one.learners.values():
            stack.enter_context(evaluating(learner.module))
        return float(one.learners[name].loss().detach())


@pytest.mark.slow
@some_kinds
def test_redrawn_networks_are_those_alone(name: str, kind: str) -> None:
    lives = AGENTS[name].lives_of(kind)
    for of, learner in lives.stack.learners.items():
        drawn = learner.redraw()
        for member, one in enumerate(lives.alone):
            for key, value in lives.as_member(member, one.learners[of].redraw).items():
                assert torch.equal(part(drawn[key], member, value), value)
    lives.compare(0.0)
