"""Hooks on an agent with two learners: on which ones a hook acts, and whose measurement a condition uses."""

import copy
import math
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.engine.hooks.driver import HookDriver
from supple.engine.storage import checkpoint
from supple.interventions import (
    EntropyTemperature,
    Injectable,
    Intervention,
    Learner,
    ReleasedCode,
    learner_for,
    parse_hook,
)
from supple.interventions.schedule import Moment


def pair() -> dict[str, Learner]:
    """An actor and a critic with a target network, both of one temperature, after a few updates."""
    torch.manual_seed(0)
    alpha = nn.Linear(1, 1)
    temperature = learner_for(alpha, torch.optim.Adam(alpha.parameters()), name="temperature")
    actor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    critic = nn.Sequential(OrderedDict(net=net))
    learners = {"actor": trainable("actor", actor), "critic": trainable("critic", critic, Injectable("net"))}
    learners["critic"].followers = (copy.deepcopy(critic).requires_grad_(False),)
    for learner in (temperature, *learners.values()):
        if learner is not temperature:
            learner.offer(ReleasedCode("sac"))
            learner.offer(EntropyTemperature(temperature))
        for _ in range(3):
            sum(p.square().sum() for p in learner.module.parameters()).backward()
            learner.optimizer.step()
    return learners


def trainable(name: str, module: nn.Module, *capabilities: object) -> Learner:
    x = torch.randn(16, 3)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    loss = lambda: F.mse_loss(module(x), torch.zeros(()).expand_as(module(x)))  # noqa: E731
    return learner_for(module, optimizer, probe=lambda: (x,), loss=loss, capabilities=capabilities, name=name)


def drive(*texts: str, learners: dict[str, Learner] | None = None) -> tuple[HookDriver, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    hooks = [hook for text in texts if (hook := parse_hook(text))]
    return HookDriver(hooks, learners or pair(), lambda **fields: events.append(fields), 1000), events


def where(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(event["step"], event["learner"]) for event in events]


def state_of(learner: Learner) -> list[Tensor]:
    slots = [value for state in learner.optimizer.state.values() for value in state.values()]
    return [t.clone() for t in (*learner.module.parameters(), *slots)]


def equal(before: list[Tensor], after: list[Tensor]) -> bool:
    return len(before) == len(after) and all(map(torch.equal, before, after))


class Recorder(Intervention):
    """Records every moment at which it is called."""

    name = "recorder"

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self.calls: list[str] = []

    def attach(self, learner: Learner) -> None:
        self.calls.append(f"attach {learner.name}")

    def penalty(self, learner: Learner) -> Tensor:
        self.calls.append(f"penalty {learner.name}")
        return torch.ones(())

    def after_update(self, learner: Learner) -> None:
        self.calls.append(f"update {learner.name}")

    def apply(self, learner: Learner) -> list[str]:
        self.calls.append(f"apply {learner.name}")
        return []


# -- a hook that names its learner -----------------------------------------------------------------------------


@pytest.mark.parametrize(("prefix", "names"), [("", ["actor", "critic"]), ("critic/", ["critic"])])
def test_all_four_moments_reach_the_learners_that_a_hook_is_for(prefix, names):
    learners, recorder = pair(), Recorder()
    hook = parse_hook(f"{prefix}fire@0.5")
    hook.intervention = recorder
    driver = HookDriver([hook], learners, lambda **_: None, 1000)
    assert driver.penalizes
    assert driver.follows_updates
    penalties = {name: float(driver.penalty(learner)) for name, learner in learners.items()}
    assert penalties == {name: float(name in names) for name in learners}
    for learner in learners.values():
        driver.after_update(learner)
    driver.after_steps(499, 500)
    assert recorder.calls == [f"{moment} {n}" for moment in ("attach", "penalty", "update", "apply") for n in names]


def test_the_other_learner_does_not_change_by_a_bit():
    learners = pair()
    actor, critic = (state_of(learner) for learner in learners.values())
    driver, events = drive("critic/fire@0.5", learners=learners)
    driver.after_steps(499, 500)
    assert equal(actor, state_of(learners["actor"]))
    assert not equal(critic, state_of(learners["critic"]))
    assert [(event["hook"], event["intervention"]) for event in events] == [("critic/fire@0.5", "fire")]


def test_a_penalty_for_one_learner_adds_nothing_to_the_loss_of_the_other():
    learners = pair()
    driver, _ = drive("critic/l2_init(strength=0.5)", "l2_init(strength=0.25)", learners=learners)
    for name, strength in (("actor", 0.25), ("critic", 0.75)):
        learner = learners[name]
        distance = sum((p - learner.initial[n]).square().sum() for n, p in learner.module.named_parameters())
        torch.testing.assert_close(driver.penalty(learner), strength * distance)


def test_an_unknown_learner_is_refused_with_a_near_name_and_the_list():
    with pytest.raises(ValueError, match="unknown learner") as refusal:
        drive("critc/fire@0.5")
    expected = "critc/fire@0.5: unknown learner 'critc': did you mean 'critic'? (known: actor, critic)"
    assert str(refusal.value) == expected


# -- an intervention that has no place in a learner ------------------------------------------------------------


def test_injection_acts_on_the_learner_with_an_injectable_part():
    learners = pair()
    actor = state_of(learners["actor"])
    driver, events = drive("injection@0.5", learners=learners)
    driver.after_steps(499, 500)
    assert where(events) == [(500, "critic")]
    assert equal(actor, state_of(learners["actor"]))
    assert [len(learner.changes) for learner in learners.values()] == [0, 1]


def test_injection_is_refused_if_the_learner_has_no_injectable_part():
    with pytest.raises(ValueError, match=r"^actor/injection@0.5: 'actor' has no part to duplicate"):
        drive("actor/injection@0.5")
    with pytest.raises(ValueError, match=r"^injection@0.5: 'actor' has no part to duplicate"):
        drive("injection@0.5", learners={"actor": pair()["actor"]})


def test_other_refusals_of_one_learner_stay_refusals():
    with pytest.raises(ValueError, match="actor"):
        drive("reset(what=layer,layer='net.2')@0.5")  # a layer of the critic
    driver, events = drive("critic/reset(what=layer,layer='net.2')@0.5")
    driver.after_steps(499, 500)
    assert where(events) == [(500, "critic")]


# -- conditions ------------------------------------------------------------------------------------------------


def measure(driver: HookDriver, *rows: tuple[float, float]) -> None:
    """Measurements of (actor, critic) at steps 10, 20, …"""
    for i, (actor, critic) in enumerate(rows, 1):
        driver.after_measurement(10 * i, {"actor/srank": actor, "critic/srank": critic, "loss/actor": 0.0})


def test_a_condition_without_a_learner_uses_each_learners_own_value():
    driver, events = drive("reset@when:srank<20")
    measure(driver, (30, 30), (10, 30), (10, 10), (30, 10), (10, math.nan), (10, 30), (30, 10))
    assert where(events) == [(20, "actor"), (30, "critic"), (50, "actor"), (70, "critic")]


def test_a_condition_on_one_learner_applies_to_all_learners_of_the_hook():
    driver, events = drive("reset@when:critic/srank<20", "actor/snp@when:critic/srank<20")
    measure(driver, (10, 30), (30, 10), (10, 10), (30, 30), (30, 10))
    assert [(event["step"], event["learner"]) for event in events if event["hook"].startswith("reset")] == [
        (20, "actor"), (20, "critic"), (50, "actor"), (50, "critic"),
    ]  # fmt: skip
    assert where([event for event in events if event["hook"].startswith("actor/snp")]) == [(20, "actor"), (50, "actor")]


def test_a_hook_of_one_learner_uses_the_value_of_that_learner():
    driver, events = drive("critic/reset@when:srank<20")
    measure(driver, (10, 30), (10, 10))
    assert where(events) == [(20, "critic")]


def test_a_condition_on_a_layer_applies_to_the_learner_that_has_it():
    driver, events = drive("reset@when:dormant_fraction/net.1>0.5")
    driver.after_measurement(10, {"actor/dormant_fraction/1": 0.9, "critic/dormant_fraction/net.1": 0.9})
    assert where(events) == [(10, "critic")]


@pytest.mark.slow
def test_the_memory_of_a_condition_by_learner_is_part_of_the_checkpoint(tmp_path):
    driver, _ = drive("reset@when:srank<20")
    measure(driver, (10, 30))
    folder = checkpoint.save(tmp_path, 10, {"hooks": driver.state_dict()}, "run")
    restored, events = drive("reset@when:srank<20")
    restored.load_state_dict(checkpoint.load(folder, "run")["hooks"])
    measure(restored, (10, 10))
    assert where(events) == [(10, "critic")]


@pytest.mark.parametrize("text", ["reset@0.5", "reset@when:srank<20", "reset@when:critic/srank<20"])
def test_a_schedule_is_asked_once_for_each_moment_and_memory(text, monkeypatch):
    hook, asked = parse_hook(text), []
    original = type(hook.schedule).due

    def due(self: Any, moment: Moment, memory: dict[str, bool]) -> bool:
        asked.append((moment.step, id(memory)))
        return original(self, moment, memory)

    monkeypatch.setattr(type(hook.schedule), "due", due)
    driver = HookDriver([hook], pair(), lambda **_: None, 1000)
    driver.after_steps(10, 20)
    measure(driver, (10, 10))
    driver.after_switch(500, 1)
    assert len(asked) == len(set(asked)) == 6


# -- the temperature that both share ---------------------------------------------------------------------------


def test_the_shared_temperature_is_reset_once_for_all_learners():
    learners = pair()
    temperature = learners["actor"].offers(EntropyTemperature).learner
    seen = []
    start, later = temperature.initial, dict(temperature.module.named_parameters())
    assert not any(torch.equal(start[name], value) for name, value in later.items())
    hook = parse_hook("fire(contract=as_released)@0.5")
    HookDriver([hook], learners, lambda **_: seen.append(state_of(temperature)), 1000).after_steps(499, 500)
    once, twice = seen
    assert equal(once, twice)
    assert all(torch.equal(start[name], value) for name, value in temperature.module.named_parameters())
    assert all(not value.any() for slots in temperature.optimizer.state.values() for value in slots.values())
