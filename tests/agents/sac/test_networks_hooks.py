"""Every intervention and every metric on the networks of SimBaV2, FlashSAC and CrossQ, with every kind of critic."""

import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.engine.hooks.driver import HookDriver
from supple.engine.hooks.event import Recorder
from supple.interventions import interventions, make
from supple.metrics import METRICS, measure
from supple.networks.unit_vectors import projected
from tests.agents.sac.worlds import agent_with
from tests.agents.states import changed, everything
from tests.agents.test_agent import driver, live

pytestmark = pytest.mark.slow

RANGE: dict[str, Any] = {"value_range": (-5.0, 5.0)}
HEADS: dict[str, dict[str, Any]] = {"mse": {}, "categorical": RANGE, "hl_gauss": RANGE, "quantile": {}}
NETWORKS = ("simba_v2", "flash", "crossq")
CALLS = {  # whose defaults do nothing in a few updates
    "adam_rel": "adam_rel@2", "cbp": "cbp(replacement_rate=0.5,maturity=0)", "cpr": "cpr(period=2)",
    "dash": "dash(batches=2)@2", "ewc": "ewc(samples=8)", "l2_er": "l2_er(period=2)", "redo": "redo(tau=0.9)@2",
    "regrama": "regrama(tau=0.9)@2", "replay": "replay(keep=0)@2", "snr": "snr(eta=0.5,window=1)",
    "swap": "swap(activation=tanh)@2", "weight_clip": "weight_clip(kappa=0.5)",
}  # fmt: skip
PAIRS = {"lambda_balance", "lambda_residual"}  # of consecutive linear maps, of which there are none
ABSENT = {"actor": PAIRS | {"value_churn"}, "critic": PAIRS | {"policy_churn"}}
REFUSED = {"rebalance": "no two consecutive linear maps", "sib": "declares its pairs"}


def pairs(number: int) -> list[tuple[str, str]]:
    """Return each kind of critic with a network, so that all networks occur, with others for the next number."""
    return [(NETWORKS[(number + i) % 3], head) for i, head in enumerate(HEADS)]


def new(network: str, head: str) -> SAC:
    own = {"critic_head": head, "weight_decay": 0.0, "learning_starts": 0, **HEADS[head]}
    return agent_with(network=network, actor_blocks=2, critic_blocks=2, **own)


def trained(network: str, head: str, *hooks: str) -> tuple[SAC, HookDriver]:
    """Return an agent after two updates and what fires after them, at the end of a task, and its hooks."""
    agent = new(network, head)
    driven = driver(agent, *hooks)
    live(agent, driven, steps=2)
    driven.finish_task()
    return agent, driven


@cache
def untouched(network: str, head: str) -> dict[str, Tensor]:
    agent, driven = trained(network, head)
    live(agent, driven, steps=1)
    return everything(agent)


def check_lengths(agent: SAC) -> None:
    for learner in agent.learners.values():
        for parts, length in (part.vectors() for part in projected(learner.module)):
            lengths = torch.cat([part.detach() for part in parts], -1).norm(dim=-1)
            torch.testing.assert_close(lengths, torch.full_like(lengths, length))


@pytest.fixture
def without_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "_measure", lambda recorder, view, hook: {})


CASES = [(name, *pair) for i, name in enumerate(interventions.names()) for pair in pairs(i)]


@pytest.mark.parametrize(("name", "network", "head"), CASES)
def test_an_intervention_acts_or_says_why_not(name: str, network: str, head: str, without_measurements: None) -> None:
    call = CALLS.get(name) or f"{name}@2" * make(name).has("apply") or name
    if name in REFUSED:
        with pytest.raises(ValueError, match=f"^{name}.*{REFUSED[name]}") as refusal:
            trained(network, head, call)
        assert "\n" not in str(refusal.value)
        return
    agent, driven = trained(network, head, call)
    check_lengths(agent)
    live(agent, driven, steps=1)
    check_lengths(agent)
    before, after = untouched(network, head), everything(agent)
    assert any(key not in before or not torch.equal(value, before[key]) for key, value in after.items())
    assert all(p.isfinite().all() for learner in agent.learners.values() for p in learner.module.parameters())


@pytest.mark.parametrize(("network", "head"), pairs(0))
def test_a_metric_is_finite_and_leaves_the_agent_as_it_is(network: str, head: str) -> None:
    agent, driven = trained(network, head)
    for learner in agent.learners.values():
        learner.mark()
    live(agent, driven, steps=2)
    before = everything(agent)
    for name, learner in agent.learners.items():
        numbers = measure(learner, costly=True)
        assert {*METRICS} - numbers.keys() == ABSENT[name]
        assert all(map(math.isfinite, numbers.values())), numbers
    assert changed(before, everything(agent)) == []
