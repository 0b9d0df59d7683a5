import copy
import itertools
import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from supple.engine.hooks.driver import HookDriver
from supple.engine.storage import checkpoint
from supple.interventions import Hook, Intervention, Learner, learner_for, parse_hook, snapshot
from supple.metrics import cheap_metrics, feature_covariance_distance, record, sfe
from supple.registry.errors import RunError

TOTAL = 1000
FIELDS = {
    "event", "step", "hook", "intervention", "learner", "written", "contract", "before", "after", "change", "seconds",
}  # fmt: skip


def learner(data: bool = True, name: str = "model", seed: int = 0) -> Learner:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))
    x, y = torch.randn(32, 4), torch.randn(32, 2)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    target = learner_for(
        module,
        optimizer,
        probe=lambda: (x,) if data else None,
        loss=lambda: F.mse_loss(module(x), y),
        name=name,
    )
    train(target, 3)
    return target


def train(target: Learner, updates: int, driver: HookDriver | None = None) -> None:
    for _ in range(updates):
        loss = target.loss()
        if driver is not None and driver.penalizes:
            loss = loss + driver.penalty(target)
        target.optimizer.zero_grad()
        loss.backward()
        target.optimizer.step()
        if driver is not None:
            driver.after_update(target)


def drive(
    *texts: str, learners: dict[str, Learner] | None = None, total: int = TOTAL, start: int = 0
) -> tuple[HookDriver, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []

    def log(**fields: Any) -> None:
        events.append(fields)

    hooks = [hook for text in texts if (hook := parse_hook(text))]
    return HookDriver(hooks, learners or {"model": learner()}, log, total, start), events


def live(driver: HookDriver, bounds: list[int], switches: dict[int, int], values: dict[int, float]) -> None:
    """Run a loop without training: `bounds` are the steps after which hooks may fire."""
    driver.after_steps(bounds[0] - 1, bounds[0])
    for previous, step in itertools.pairwise(bounds):
        if previous in switches:
            driver.after_switch(previous, switches[previous])
        driver.after_steps(previous, step)
        if step in values:
            driver.after_measurement(step, {"model/dormant_fraction": values[step]})


def fired(events: list[dict[str, Any]], name: str) -> list[int]:
    return [event["step"] for event in events if event["hook"].startswith(name)]


class Poison(Intervention):
    """Writes NaN into the first parameter."""

    name = "poison"

    def apply(self, learner: Learner) -> list[str]:
        name, parameter = next(iter(learner.module.named_parameters()))
        parameter.data[0] = float("nan")
        return [name]


def test_an_intervention_that_writes_nan_is_named_in_the_error():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
    hook = replace(parse_hook("reset@5"), intervention=Poison(), text="poison@5")
    driver = HookDriver([hook], {"model": learner_for(module)}, lambda **_: None, 10)
    with pytest.raises(RunError, match=r"poison@5 on model at step 5: it wrote .* not finite into 0\.weight"):
        driver.after_steps(4, 5)


# -- when ----------------------------------------------------------------------------------------------------


def crossed(bounds: list[int], steps: list[int]) -> list[int]:
    """Return the first check at or after each of `steps`, without repetition, by plain search."""
    found = []
    for previous, now in itertools.pairwise(bounds):
        if any(previous < step <= now for step in steps):
            found.append(now)
    return found


@pytest.mark.slow
@settings(max_examples=12)
@given(
    inner=st.sets(st.integers(1, TOTAL - 1), max_size=12),
    at=st.integers(1, TOTAL),
    percent=st.integers(1, 100),
    period=st.integers(100, 600),
)
def test_hooks_fire_at_the_first_check_after_their_step(inner, at, percent, period):
    bounds = [0, *sorted(inner), TOTAL]
    switches = {step: number for number, step in enumerate(bounds[1:-1:3], 1)}
    held = {step: 0.5 if i % 3 == 2 else 0.1 for i, step in enumerate(bounds)}
    fraction = percent / 100
    texts = [
        f"reset(what=head)@{at}",
        f"reset(what=encoder)@{fraction}",
        f"reset(what=hidden)@every:{period}",
        "reset(what=last)@task",
        "reset(what=linear)@task:2",
        "reset@start",
        "snp(lam=0)@when:dormant_fraction>0.3",
    ]
    driver, events = drive(*texts, learners={"model": learner(data=False)})
    live(driver, bounds, switches, held)
    assert fired(events, "reset(what=head)") == crossed(bounds, [at])
    assert fired(events, "reset(what=encoder)") == crossed(bounds, [round(fraction * TOTAL)])
    assert fired(events, "reset(what=hidden)") == crossed(bounds, list(range(period, TOTAL + 1, period)))
    assert fired(events, "reset(what=last)") == list(switches)
    assert fired(events, "reset(what=linear)") == [step for step, number in switches.items() if number == 2]
    assert fired(events, "reset@start") == [0]
    assert fired(events, "snp") == [step for step in bounds[1:] if held[step] > 0.3]  # never two in a row hold


def test_hooks_without_a_schedule_fire_at_the_fork():
    driver, events = drive("fire@start", "snp@0.5", "reset@every:200", start=500)
    live(driver, [500, 600, 800, 1000], {}, {})
    assert [(event["step"], event["intervention"]) for event in events] == [
        (500, "fire"),
        (500, "snp"),
        (600, "reset"),
        (800, "reset"),
        (1000, "reset"),
    ]


@pytest.mark.slow
def test_hooks_due_at_one_moment_are_applied_in_the_order_given_to_every_learner():
    learners = {name: learner(name=name) for name in ("actor", "critic")}
    driver, events = drive("reset(what=head)@task", "fire(scope=head,method=polar)@task", learners=learners)
    driver.after_switch(100, 1)
    order = [(event["intervention"].split("(")[0], event["learner"]) for event in events]
    assert order == [("reset", "actor"), ("reset", "critic"), ("fire", "actor"), ("fire", "critic")]
    for target in learners.values():
        expected = learner_for(copy.deepcopy(target.module))
        with torch.no_grad():
            expected.module[4].weight.copy_(target.initial["4.weight"])
        drive("fire(scope=head,method=polar)@task", learners={"m": expected})[0].after_switch(1, 1)
        assert torch.equal(target.module[4].weight, expected.module[4].weight)


@pytest.mark.parametrize("name", ["dormant_fraction", "model/dormant_fraction"])
def test_a_condition_may_name_its_metric_with_or_without_the_learner(name):
    driver, events = drive(f"fire@when:{name}>0.3")
    for step, value in [(10, 0.1), (20, 0.4), (30, 0.5), (40, math.nan), (50, 0.2), (60, 0.31)]:
        driver.after_measurement(step, {"model/dormant_fraction": value, "loss": 1.0})
    assert fired(events, "fire") == [20, 60]


# -- what ----------------------------------------------------------------------------------------------------


def test_an_event_records_the_intervention_and_its_changes():
    target = learner()
    (x,) = target.probe()
    weights, features = snapshot(target.module), record(target.module, target.units, (x,)).features
    driver, events = drive("fire(method=polar)@0.5", learners={"model": target})
    driver.after_steps(480, 512)
    (event,) = events
    assert event.keys() == FIELDS
    assert json.loads(json.dumps(event, allow_nan=False)) == event
    assert (event["event"], event["step"], event["learner"]) == ("intervention", 512, "model")
    assert (event["hook"], event["intervention"]) == ("fire(method=polar)@0.5", "fire(method=polar)")
    assert event["written"] == 3
    assert event["contract"]["weights"] == "all"
    assert 0 <= event["seconds"] < 5
    for moment in ("before", "after"):
        assert event[moment].keys() == cheap_metrics().keys() - {"update_ratio", "policy_churn", "value_churn"}
    assert event["before"]["dfi_unscaled"] > 1e-3 > event["after"]["dfi_unscaled"]
    new = record(target.module, target.units, (x,)).features
    assert event["change"] == {
        "sfe": pytest.approx(sfe(weights, target.module)),
        "sfe_normalized": pytest.approx(sfe(weights, target.module, normalized=True)),
        "feature_covariance_distance": pytest.approx(feature_covariance_distance(features, new)),
    }
    assert event["change"]["feature_covariance_distance"] > 0.01


def test_recurring_hooks_do_not_fire_at_the_last_step_but_hooks_for_that_step_do():
    texts = ["reset(what=head)@every:250", "snp(lam=0)@when:dormant_fraction>0.3", "reset@1.0"]
    hooks = [hook for text in texts if (hook := parse_hook(text))]
    events: list[dict[str, Any]] = []
    driver = HookDriver(hooks, {"model": learner()}, lambda **e: events.append(e), total=1000, ends=True)
    live(driver, [0, 250, 500, 750, 1000], {}, {750: 0.1, 1000: 0.5})
    assert fired(events, "reset(what=head)") == [250, 500, 750]
    assert fired(events, "snp") == []
    assert fired(events, "reset@1.0") == [1000]


def test_an_intervention_that_changes_nothing_is_logged_as_no_change():
    driver, events = drive("snp(lam=0)@start")
    driver.after_steps(-1, 0)
    (event,) = events
    assert event["change"] == {"sfe": 0.0, "sfe_normalized": 0.0, "feature_covariance_distance": 0.0}
    assert event["before"] == event["after"]


def test_an_intervention_that_a_layer_refuses_stops_the_run_in_one_line_that_names_it():
    target = learner()
    with torch.no_grad():
        next(target.module.parameters()).zero_()
    before = state_of(target)
    driver, events = drive("fire@start", learners={"model": target})
    with pytest.raises(RunError, match=r"^fire@start on model at step 0: 0\.weight is zero$"):
        driver.after_steps(-1, 0)
    assert not events
    assert all(torch.equal(a, b) for a, b in zip(before, state_of(target), strict=True))


def test_a_learner_without_data_can_be_intervened_on():
    target = learner(data=False)
    driver, events = drive("reset@start", learners={"model": target})
    driver.after_steps(-1, 0)
    (event,) = events
    assert (
        event["before"].keys()
        == event["after"].keys()
        == {name for name, metric in cheap_metrics().items() if metric.needs in ("weights", "matrices", "pairs")}
    )
    assert event["change"].keys() == {"sfe", "sfe_normalized"}
    assert all(torch.equal(p, target.initial[name]) for name, p in target.module.named_parameters())


def test_measuring_around_an_intervention_does_not_change_generators_gradients_and_modes():
    target = learner()
    target.loss().backward()
    gradients = [p.grad.clone() for p in target.module.parameters()]
    state = torch.get_rng_state()
    driver, events = drive("fire@start", learners={"model": target})
    driver.after_steps(-1, 0)
    assert len(events) == 1
    assert torch.equal(torch.get_rng_state(), state)
    assert target.module.training
    assert all(torch.equal(p.grad, g) for p, g in zip(target.module.parameters(), gradients, strict=True))


# -- training ------------------------------------------------------------------------------------------------


def state_of(target: Learner) -> list[Tensor]:
    slots = [value for state in target.optimizer.state.values() for value in state.values()]
    return [*target.module.parameters(), *slots, target.generator.get_state()]


def run_with(*texts: str) -> tuple[list[Tensor], list[dict[str, Any]]]:
    target = learner()
    driver, events = drive(*texts, learners={"model": target})
    for step in range(0, 200, 10):
        train(target, 1, driver)
        driver.after_steps(step, step + 10)
        driver.after_measurement(step + 10, {"model/dormant_fraction": 0.0})
    return state_of(target), events


def test_hooks_that_are_not_due_change_no_bit_of_training():
    plain, _ = run_with()
    idle, events = run_with("fire@900", "snp(noise=0.1)@when:dormant_fraction>0.5", "reset@task")
    assert events == []
    assert all(torch.equal(a, b) for a, b in zip(plain, idle, strict=True))


class Counting(Intervention):
    """Add the number of losses so far."""

    losses = 0

    def before_loss(self, learner: Learner) -> None:
        self.losses += 1

    def penalty(self, learner: Learner) -> Tensor:
        return torch.tensor(float(self.losses))


def test_a_penalty_is_drawn_once_for_every_loss() -> None:
    target = learner()
    driver = HookDriver([Hook("counting", Counting(), None)], {"model": target}, lambda **_: None, 1)
    assert driver.interleaves
    assert not drive("l2_init")[0].interleaves
    assert [float(driver.penalty(target)) for _ in range(2)] == [1, 2]
    driver.before_loss(target)
    assert [float(driver.drawn_penalty(target)) for _ in range(2)] == [3, 3]


# -- checkpoints ---------------------------------------------------------------------------------------------


def test_a_condition_that_has_fired_does_not_fire_again_after_a_restart(tmp_path):
    driver, events = drive("fire@when:dormant_fraction>0.3")
    driver.after_measurement(10, {"dormant_fraction": 0.4})
    folder = checkpoint.save(tmp_path, 10, {"hooks": driver.state_dict()}, "run")
    driver.after_measurement(20, {"dormant_fraction": 0.1})  # later moments do not reach what was saved
    restored, later = drive("fire@when:dormant_fraction>0.3")
    restored.load_state_dict(checkpoint.load(folder, "run")["hooks"])
    restored.after_measurement(20, {"dormant_fraction": 0.4})
    restored.after_measurement(30, {"dormant_fraction": 0.2})
    restored.after_measurement(40, {"dormant_fraction": 0.4})
    assert (fired(events, "fire"), fired(later, "fire")) == ([10], [40])


def test_a_saved_state_is_not_shared_with_the_running_driver():
    driver, _ = drive("fire@when:dormant_fraction>0.3")
    driver.after_measurement(10, {"dormant_fraction": 0.4})
    state = driver.state_dict()
    driver.after_measurement(20, {"dormant_fraction": 0.1})
    restored, events = drive("fire@when:dormant_fraction>0.3")
    restored.load_state_dict(state)
    restored.after_measurement(20, {"dormant_fraction": 0.4})
    assert events == []


def test_a_forks_own_hooks_begin_fresh():
    driver, _ = drive("fire@when:dormant_fraction>0.3")
    driver.after_measurement(10, {"dormant_fraction": 0.4})
    arm, events = drive("snp@when:dormant_fraction>0.3", start=10)
    arm.load_state_dict(driver.state_dict())
    arm.after_measurement(20, {"dormant_fraction": 0.4})
    assert fired(events, "snp") == [20]


def test_the_restored_state_of_a_hook_moves_to_the_device_of_the_learner() -> None:
    class Remembers(Intervention):
        state: dict[str, Any]

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.state = state

    hook, elsewhere = Hook("remembers", Remembers(), None), learner()
    elsewhere.module.to("meta")
    driver = HookDriver([hook], {"model": elsewhere}, lambda **_: None, TOTAL)
    remembered = {"sum": {"model": {"average": torch.zeros(2), "draws": torch.zeros(2, dtype=torch.uint8), "steps": 3}}}
    driver.load_state_dict({"remembers": {"memory": {}, "intervention": remembered}})
    found = hook.intervention.state["sum"]["model"]  # type: ignore[attr-defined]
    assert (found["average"].device.type, found["draws"].device.type, found["steps"]) == ("meta", "cpu", 3)
