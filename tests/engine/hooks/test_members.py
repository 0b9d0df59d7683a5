"""A condition on a stack of seeds fires for the seeds that meet it, as in their runs alone."""

import copy
from typing import Any

import pytest
import torch
from torch import nn

from supple.engine.hooks.driver import HookDriver
from supple.engine.hooks.members import acting_on
from supple.experiments.conformance import train
from supple.experiments.conformance_networks import network
from supple.interventions import Hook, Intervention, Learner, parse_hook
from supple.interventions.base import Reinitialization
from supple.registry.errors import RunError

SEEDS = (5, 7, 9)
HIGH, LOW = {"model/dormant_fraction": 0.9}, {"model/dormant_fraction": 0.1}
TEXTS = ["fire@when:dormant_fraction>0.5", "snp(toward=fresh,noise=0.1)@when:dormant_fraction>0.5"]


def trained(seed: int | None, networks: int = 0) -> Learner:
    learner = network(seed, networks, target=True)
    train(learner, Intervention(), 0, 3)
    return learner


def drive(learner: Learner, *texts: str) -> tuple[HookDriver, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    hooks = [hook for text in texts if (hook := parse_hook(text))]
    return HookDriver(hooks, {"model": learner}, lambda **e: events.append(e), 100, seeds=SEEDS), events


@pytest.mark.parametrize("networks", [0, 2])
@pytest.mark.parametrize("text", TEXTS)
def test_it_fires_for_the_seeds_that_meet_it_with_the_numbers_of_their_runs_alone(text: str, networks: int) -> None:
    """That it leaves the others alone, the conformance kit tests of every intervention."""
    driver, events = drive(trained(None, networks), text)
    driver.after_measurement(10, HIGH, LOW, HIGH)
    driver.after_measurement(20, HIGH, HIGH, LOW)
    driver.after_measurement(30, HIGH, LOW, HIGH)
    assert [(event["step"], event["seeds"]) for event in events] == [(10, [5, 9]), (20, [7]), (30, [9])]
    for seed, steps in ((0, [10]), (1, [20]), (2, [10, 30])):
        other, own = drive(trained(seed, networks), text)
        for step in steps:
            other.after_measurement(step, HIGH)
            other.after_measurement(step + 1, LOW)
        assert [event["step"] for event in own] == steps
        (first, *_) = [event for event in events if SEEDS[seed] in event["seeds"]]
        place = first["seeds"].index(SEEDS[seed])
        for moment in ("before", "after", "change"):
            found = {name: values[place] for name, values in first[moment].items()}
            assert found == pytest.approx(own[0][moment], rel=1e-9)


def test_a_resumed_stack_remembers_which_seeds_have_fired() -> None:
    driver, _ = drive(trained(None), TEXTS[0])
    driver.after_measurement(10, HIGH, LOW, LOW)
    state = copy.deepcopy(driver.state_dict())
    assert state[TEXTS[0]]["memory"]["model/0"] == {"measured": True, "held": True, "fired": True}
    resumed, events = drive(trained(None), TEXTS[0])
    resumed.load_state_dict(state)
    resumed.after_measurement(20, HIGH, HIGH, LOW)
    assert [event["seeds"] for event in events] == [[7]]
    (hook,) = resumed.hooks
    assert [hook.waits(seed) for seed in range(3)] == [False, False, True]
    assert hook.obstacle(2) == "its condition was never met"


def test_at_a_step_it_fires_for_all_seeds_but_those_that_have_ended() -> None:
    stack = trained(None)
    driver, events = drive(stack, "fire@10")
    driver.frozen.add(1)
    driver.after_steps(9, 10)
    assert [event["seeds"] for event in events] == [[5, 9]]


@pytest.mark.parametrize("name", ["injection", "swap(activation=elu)", "muon", "nap"])
def test_what_changes_the_structure_is_refused_with_a_condition(name: str) -> None:
    with pytest.raises(ValueError, match="changes the structure of the networks, which the seeds of a stack share"):
        drive(trained(None), f"{name}@when:dormant_fraction>0.5")


def test_another_seeds_dead_layer_does_not_refuse_it() -> None:
    stack = trained(None)
    with torch.no_grad():
        stack.module.get_parameter("head.weight")[1].zero_()  # fire refuses a matrix of zeros
    driver, events = drive(stack, TEXTS[0])
    driver.after_measurement(10, HIGH, LOW, LOW)
    assert [event["seeds"] for event in events] == [[5]]
    assert not stack.module.get_parameter("head.weight")[1].any()


class Counting(Reinitialization):
    """Shrink by the number of applications so far."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__("all", "uniform")
        self.count = {"model": {"count": torch.zeros(shape)}}

    @torch.no_grad()
    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        self.count["model"]["count"] += 1
        return []

    def state_dict(self) -> dict[str, Any]:
        return self.count

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state


def test_its_own_state_is_put_back_for_the_others_and_must_be_by_member() -> None:
    stack = network(None, networks=2)
    for shape, expected in (((3, 2), [1, 0, 1]), ((6,), [1, 1, 0, 0, 1, 1])):
        it = Counting(shape)
        with acting_on(Hook("counting", it, None), stack, (0, 2)):
            it.apply(stack)
        assert it.count["model"]["count"].view(len(expected), -1)[:, 0].tolist() == expected
    it.count["model"]["count"] = 0  # type: ignore[assignment]
    with (
        pytest.raises(RunError, match="'apply' changes 'count' of its state"),
        acting_on(Hook("counting", it, None), stack, (0, 2)),
    ):
        it.apply(stack)
