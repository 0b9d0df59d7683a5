import json
import math
from typing import Any

import pytest
import torch
from torch import nn

from supple.interventions import (
    AtStart,
    Fire,
    L2Init,
    Learner,
    Moment,
    Reset,
    learner_for,
    make,
    parse_hook,
)
from supple.interventions.schedule import At, AtTask


def test_none_is_no_hook():
    assert parse_hook("none") is None
    assert parse_hook("none", default=AtStart()) is None


def test_a_hook_is_an_intervention_and_a_schedule():
    hook = parse_hook("fire(steps=5,scope=[conv,head])@0.5")
    assert isinstance(hook.intervention, Fire)
    assert (hook.intervention.steps, hook.intervention.scope) == (5, ("conv", "head"))
    assert hook.schedule == At(0.5)
    assert hook.memory == {}
    assert isinstance(parse_hook("reset(what=layer,layer='body.0')@task").intervention, Reset)


def test_a_continuous_intervention_has_no_schedule_even_where_there_is_a_default():
    hook = parse_hook("l2_init(strength=1e-2)", default=AtStart())
    assert isinstance(hook.intervention, L2Init)
    assert hook.schedule is None
    assert hook.text == "l2_init(strength=0.01)"


def test_a_hook_without_a_schedule_has_the_default():
    assert parse_hook("fire", default=AtStart()).text == "fire@start"
    assert parse_hook("critic/fire", default=AtStart()).text == "critic/fire@start"
    assert parse_hook("fire@task", default=AtStart()).schedule == AtTask()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fire", "'fire' needs a schedule"),
        ("q/fire", r"'q/fire' needs a schedule, for example q/fire@0.5 or q/fire@task"),
        ("q/l2_init@0.5", "'q/l2_init@0.5': l2_init acts continuously"),
        ("q/fier@0.5", "unknown intervention 'fier': did you mean 'fire'"),
        ("snp(lam=0.5)", "needs a schedule"),
        ("l2_init@0.5", "l2_init .* leave out @0.5"),
        ("fier@0.5", "unknown intervention 'fier': did you mean 'fire'"),
        ("fire(step=5)@0.5", "fire has no parameter 'step': did you mean 'steps'"),
        ("fire(steps=many)@0.5", 'fire: steps should be an integer, but is "many"'),
        ("fire(method=polr)@0.5", "did you mean 'polar'"),
        ("reset(what=haed)@0.5", "did you mean 'head'"),
        ("snp(toward=freh)@0.5", "did you mean 'fresh'"),
        ("fire@when:dormant", "expected"),
    ],
)
def test_a_wrong_text_is_answered_with_one_line(text, message):
    with pytest.raises(ValueError, match=message) as refusal:
        parse_hook(text)
    assert "\n" not in str(refusal.value)


def model(name: str, **settings: Any) -> Learner:
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    return learner_for(module, name=name, **settings)


def test_a_hook_acts_on_the_learner_that_it_names_or_on_all():
    actor, critic = model("actor"), model("critic")
    assert [parse_hook("critic/fire@task").concerns(learner) for learner in (actor, critic)] == [False, True]
    assert [parse_hook("fire@task").concerns(learner) for learner in (actor, critic)] == [True, True]


def test_a_hook_has_a_memory_for_each_learner():
    actor, critic = model("actor"), model("critic")
    hook = parse_hook("fire@when:dormant_fraction>0.3")

    def due(actors: float, critics: float) -> list[bool]:
        metrics = {"actor/dormant_fraction": actors, "critic/dormant_fraction": critics}
        return [hook.due(Moment(10, 10, 100, metrics=metrics), learner) for learner in (actor, critic)]

    assert due(0.4, 0.1) == [True, False]
    assert due(0.4, 0.4) == [False, True]
    assert due(0.1, 0.4) == [False, False]
    assert due(0.4, math.nan) == [True, False]


def test_a_hook_keeps_what_its_schedule_remembers_in_its_state():
    q = model("q")

    def moment(value: float) -> Moment:
        return Moment(10, 10, 100, metrics={"q/dormant_fraction": value})

    hook = parse_hook("fire@when:dormant_fraction>0.3")
    assert hook.due(moment(0.4), q)
    state = hook.state_dict()
    restored, fresh = (parse_hook(hook.text) for _ in range(2))
    restored.load_state_dict(json.loads(json.dumps(state)))
    assert not restored.due(moment(0.4), q)
    assert fresh.due(moment(0.4), q)
    # neither side's later moments reach into the saved state
    again = parse_hook(hook.text)
    again.load_state_dict(state)
    hook.due(moment(0.1), q)
    again.due(moment(0.1), q)
    assert state == {"memory": {"q": {"measured": True, "held": True, "fired": True}}, "intervention": {}}


def test_a_condition_waits_until_it_has_become_true_for_a_learner():
    hook, q = parse_hook("fire@when:dormant_fraction>0.3"), model("q")
    for value, waits in [(0.1, True), (0.4, False), (0.1, False)]:
        hook.due(Moment(10, 10, 100, metrics={"q/dormant_fraction": value}), q)
        assert hook.waits() == waits
    assert not any(parse_hook(text).waits() for text in ("fire@0.5", "fire@task", "l2_init"))


def test_a_condition_on_what_was_never_measured_is_told_from_one_that_was_never_met():
    hook, actor, critic = parse_hook("fire@when:srank<3"), model("actor"), model("critic")
    full = parse_hook("fire@when:critic/srank<3")

    def measure(metrics: dict[str, float]) -> None:
        moment = Moment(10, 10, 100, metrics=metrics)
        assert not any(each.due(moment, learner) for each in (hook, full) for learner in (actor, critic))

    measure({"actor/weight_norm": 1.0})
    assert hook.obstacle() == "srank was never measured on 'actor' and 'critic'"
    assert full.obstacle() == "critic/srank was never measured"
    measure({"critic/srank": math.nan})
    assert hook.obstacle() == full.obstacle() == "its condition was never met"


def test_making_an_intervention_twice_shares_nothing():
    one, other = make("fire", scope="head"), make("fire")
    assert (str(one), str(other)) == ("fire(scope=head)", "fire")
    assert one.params is not other.params
    assert torch.is_grad_enabled()
