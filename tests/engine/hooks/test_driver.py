"""The driver of hooks: when they act, on which learners, what an event says of it, and what a checkpoint keeps."""

import json
import math
from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.engine.hooks.driver import HookDriver
from supple.interventions import Hook, Injectable, Intervention, Learner, learner_for, parse_hook, snapshot
from supple.metrics import cheap_metrics, feature_covariance_distance, record, sfe
from supple.registry.errors import RunError

FIELDS = {
    "event", "step", "hook", "intervention", "learner", "written", "contract", "before", "after", "change", "seconds",
}  # fmt: skip


def trained(name: str, *layers: nn.Module, capabilities: tuple[object, ...] = ()) -> Learner:
    """A learner after three updates."""
    x, module = torch.randn(16, 3), nn.Sequential(OrderedDict(net=nn.Sequential(*layers)))
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    loss = lambda: module(x).square().mean()  # noqa: E731
    learner = learner_for(module, optimizer, probe=lambda: (x,), loss=loss, capabilities=capabilities, name=name)
    for _ in range(3):
        learner.loss().backward()
        optimizer.step()
    return learner


def pair() -> dict[str, Learner]:
    """An actor, and a critic with one more layer, of which injection can duplicate a part."""
    torch.manual_seed(0)
    actor = trained("actor", nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    layers = nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)
    return {"actor": actor, "critic": trained("critic", *layers, capabilities=(Injectable("net"),))}


def critic() -> dict[str, Learner]:
    return {"critic": pair()["critic"]}


def drive(
    *hooks: str | Hook | None, learners: dict[str, Learner] | None = None, **more: Any
) -> tuple[HookDriver, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    parsed = [parse_hook(hook) if isinstance(hook, str) else hook for hook in hooks]
    driver = HookDriver(parsed, learners or pair(), lambda **fields: events.append(fields), 1000, **more)
    return driver, events


def where(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(event["step"], event["learner"]) for event in events]


def state_of(learner: Learner) -> list[Tensor]:
    slots = [value for state in learner.optimizer.state.values() for value in state.values()]
    return [t.clone() for t in (*learner.module.parameters(), *slots)]


# -- when ----------------------------------------------------------------------------------------------------


def test_hooks_fire_where_their_schedules_say_but_recurring_ones_not_at_the_last_step():
    steps = {
        "reset@start": [0], "reset@260": [300], "reset@0.5": [500], "reset@every:250": [300, 500, 800],
        "reset@updates:125": [300, 500, 800], "reset@update:125": [300],
        "reset@task": [300, 600], "reset@task:2": [600], "reset@when:srank<20.0": [400], "reset@1.0": [1000],
    }  # fmt: skip
    driver, events = drive(*steps, learners=critic(), ends=True)
    driver.after_steps(-1, 0)
    for step in range(100, 1001, 100):
        driver.after_steps(step - 100, step, ((step - 100) // 2, step // 2))
        if step in (300, 600):
            driver.after_switch(step, step // 300)
        driver.after_measurement(step, {"critic/srank": 10.0 if step in (400, 1000) else 30.0})
    assert {text: [event["step"] for event in events if event["hook"] == text] for text in steps} == steps


def test_hooks_without_a_schedule_fire_at_the_fork():
    driver, events = drive("fire@start", "snp@0.5", "reset@every:200", learners=critic(), start=500)
    for previous, step in ((499, 500), (500, 600), (600, 800)):
        driver.after_steps(previous, step)
    assert [(e["step"], e["intervention"]) for e in events] == [
        (500, "fire"),
        (500, "snp"),
        (600, "reset"),
        (800, "reset"),
    ]


def test_hooks_due_at_one_moment_are_applied_in_the_order_given_to_every_learner():
    driver, events = drive("snp@task", "reset@task")
    driver.after_switch(100, 1)
    order = [(event["intervention"], event["learner"]) for event in events]
    assert order == [("snp", "actor"), ("snp", "critic"), ("reset", "actor"), ("reset", "critic")]


ROWS = [(10, 30), (30, 10), (10, 10), (30, 30), (30, 10)]


@pytest.mark.parametrize(
    ("text", "rows", "fired"),
    [
        (
            "reset@when:srank<20",
            [(30, 30), (10, 30), (10, 10), (30, 10), (10, math.nan), (10, 30), (30, 10)],
            [(20, "actor"), (30, "critic"), (50, "actor"), (70, "critic")],
        ),
        ("reset@when:critic/srank<20", ROWS, [(step, name) for step in (20, 50) for name in ("actor", "critic")]),
        ("actor/reset@when:critic/srank<20", ROWS, [(20, "actor"), (50, "actor")]),
        ("critic/reset@when:srank<20", ROWS, [(20, "critic"), (50, "critic")]),
        ("reset@when:dormant_fraction/net.3<20", [(10, 10)], [(10, "critic")]),  # a layer of the critic alone
    ],
)
def test_a_condition_uses_each_learners_own_value_or_that_of_the_learner_it_names(text, rows, fired):
    driver, events = drive(text)
    for i, (actor, critic) in enumerate(rows, 1):
        layer = {"critic/dormant_fraction/net.3": critic}
        driver.after_measurement(10 * i, {"actor/srank": actor, "critic/srank": critic, "loss": 0.0} | layer)
    assert where(events) == fired


# -- what ----------------------------------------------------------------------------------------------------


def test_an_event_records_the_intervention_and_its_changes():
    learners = critic()
    (target,) = learners.values()
    (x,) = target.probe()
    weights, features = snapshot(target.module), record(target.module, target.units, (x,))[target.units[-1]].output
    driver, events = drive("fire(method=polar)@0.5", learners=learners)
    driver.after_steps(480, 512)
    (event,) = events
    assert event.keys() == FIELDS
    assert json.loads(json.dumps(event, allow_nan=False)) == event
    assert (event["event"], event["step"], event["learner"]) == ("intervention", 512, "critic")
    assert (event["hook"], event["intervention"]) == ("fire(method=polar)@0.5", "fire(method=polar)")
    assert (event["written"], event["contract"]["weights"]) == (3, "all")
    for moment in ("before", "after"):
        assert event[moment].keys() == cheap_metrics().keys() - {"update_ratio", "policy_churn", "value_churn"}
    assert event["before"]["dfi_unscaled"] > 1e-3 > event["after"]["dfi_unscaled"]
    new = record(target.module, target.units, (x,))[target.units[-1]].output
    assert event["change"] == {
        "sfe": pytest.approx(sfe(weights, target.module)),
        "sfe_normalized": pytest.approx(sfe(weights, target.module, normalized=True)),
        "feature_covariance_distance": pytest.approx(feature_covariance_distance(features, new)),
    }


class Poison(Intervention):
    """Writes NaN into the first parameter."""

    def apply(self, learner: Learner) -> list[str]:
        name, parameter = next(iter(learner.module.named_parameters()))
        parameter.data[0] = float("nan")
        return [name]


def test_an_intervention_that_a_layer_refuses_or_that_writes_nan_stops_the_run_in_one_line_that_names_it():
    poison = Hook("poison@5", Poison(), parse_hook("reset@5").schedule)
    for hook, why in (("fire@5", r"net\.0\.weight is zero$"), (poison, r"it wrote .* not finite into net\.0\.weight")):
        learners = critic()
        torch.nn.init.zeros_(next(learners["critic"].module.parameters()))
        driver, events = drive(hook, learners=learners)
        with pytest.raises(
            RunError, match=rf"^{'fire' if hook == 'fire@5' else 'poison'}@5 on critic at step 5: {why}"
        ):
            driver.after_steps(4, 5)
        assert not events


def test_a_learner_without_data_can_be_intervened_on():
    learners = critic()
    learners["critic"].probe = lambda: None
    driver, events = drive("reset@start", learners=learners)
    driver.after_steps(-1, 0)
    (event,) = events
    known = {name for name, metric in cheap_metrics().items() if metric.needs in ("weights", "matrices", "pairs")}
    assert event["before"].keys() == event["after"].keys() == known
    assert event["change"].keys() == {"sfe", "sfe_normalized"}


# -- on whom -------------------------------------------------------------------------------------------------


class Recorder(Intervention):
    """Records every moment at which it is called, and adds the number of losses so far."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.losses = 0

    def attach(self, learner: Learner) -> None:
        self.calls.append(f"attach {learner.name}")

    def before_loss(self, learner: Learner) -> None:
        self.losses += 1

    def penalty(self, learner: Learner) -> Tensor:
        return torch.tensor(float(self.losses))

    def after_update(self, learner: Learner) -> None:
        self.calls.append(f"update {learner.name}")

    def apply(self, learner: Learner) -> list[str]:
        self.calls.append(f"apply {learner.name}")
        return []


@pytest.mark.parametrize("names", [["actor", "critic"], ["critic"]])
def test_all_moments_reach_the_learners_that_a_hook_is_for(names):
    learners, hook = pair(), parse_hook("fire@0.5" if len(names) > 1 else "critic/fire@0.5")
    hook.intervention = recorder = Recorder()
    driver, _ = drive(hook, learners=learners)
    assert driver.penalizes
    assert driver.follows_updates
    assert [float(driver.penalty(learners[name])) for name in names] == [i + 1 for i in range(len(names))]
    if "actor" not in names:
        assert not driver.penalty(learners["actor"])
    for learner in learners.values():
        driver.after_update(learner)
    driver.after_steps(499, 500)
    assert recorder.calls == [f"{moment} {name}" for moment in ("attach", "update", "apply") for name in names]


def test_a_penalty_is_drawn_once_for_every_loss() -> None:
    learners = critic()
    driver, _ = drive(Hook("recorder", Recorder(), None), learners=learners)
    assert driver.interleaves
    assert not drive("l2_init")[0].interleaves
    driver.before_loss(learners["critic"])
    assert [float(driver.drawn_penalty(learners["critic"])) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("text", ["critic/fire@0.5", "injection@0.5"])  # only the critic has a part to duplicate
def test_the_other_learner_does_not_change_by_a_bit(text):
    learners = pair()
    actor, count = state_of(learners["actor"]), len(learners["critic"].changes)
    driver, events = drive(text, learners=learners)
    driver.after_steps(499, 500)
    assert where(events) == [(500, "critic")]
    assert all(map(torch.equal, actor, state_of(learners["actor"])))
    assert (len(learners["critic"].changes) > count) == (text == "injection@0.5")


# -- checkpoints ---------------------------------------------------------------------------------------------


def test_a_saved_condition_remembers_on_which_learner_it_has_fired_and_a_forks_own_hooks_begin_fresh():
    driver, _ = drive("reset@when:srank<20")
    low, high = {"actor/srank": 10.0, "critic/srank": 10.0}, {"actor/srank": 10.0, "critic/srank": 30.0}
    driver.after_measurement(10, high)
    state = driver.state_dict()
    driver.after_measurement(20, {"actor/srank": 30.0, "critic/srank": 30.0})  # does not reach what was saved
    for text, fired in (("reset@when:srank<20", ["critic"]), ("snp@when:srank<20", ["actor", "critic"])):
        restored, events = drive(text)
        restored.load_state_dict(state)
        restored.after_measurement(20, low)
        assert [event["learner"] for event in events] == fired


def test_the_restored_state_of_a_hook_moves_to_the_device_of_the_learner_and_has_to_fit_it() -> None:
    class Remembers(Intervention):
        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.found = state["critic"]

    learners, it = critic(), Remembers()
    learners["critic"].module.to("meta")
    driver, _ = drive(Hook("remembers", it, None), learners=learners)
    state = {"critic": {"average": torch.zeros(2), "draws": torch.zeros(2, dtype=torch.uint8), "steps": 3}}
    driver.load_state_dict({"remembers": {"memory": {}, "intervention": state}})
    devices = it.found["average"].device.type, it.found["draws"].device.type
    assert (*devices, it.found["steps"]) == ("meta", "cpu", 3)
    state["critic"] = {"net.0.weight": torch.zeros(3)}  # an update would read beyond its end
    with pytest.raises(ValueError, match=r"net\.0\.weight of 'critic' should be float32 of shape \(8, 3\)"):
        driver.load_state_dict({"remembers": {"memory": {}, "intervention": state}})
