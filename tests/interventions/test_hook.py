import json
import math

import pytest
from torch import nn

from supple.interventions import AtStart, Fire, L2Init, Learner, Moment, learner_for, make, parse_hook
from supple.interventions.schedule import At, AtTask
from tests.interventions.common import refused


def test_none_is_no_hook():
    assert parse_hook("none", default=AtStart()) is None


def test_a_hook_is_an_intervention_and_a_schedule():
    hook = parse_hook("fire(steps=5,scope=[conv,head])@0.5")
    assert isinstance(hook.intervention, Fire)
    assert (hook.intervention.steps, hook.intervention.scope) == (5, ("conv", "head"))
    assert hook.schedule == At(0.5)
    assert hook.memory == {}


def test_a_hook_that_counts_updates_waits_for_them():
    hook, learner = parse_hook("fire@update:9"), learner_for(nn.Linear(2, 2))
    for updates, waits in [((0, 8), True), ((8, 12), False)]:
        hook.due(Moment(0, 100, total=200, updates=updates), learner)
        assert hook.waits() == waits
    assert "after the fork" in hook.obstacle()


def test_a_continuous_intervention_has_no_schedule_even_where_there_is_a_default():
    hook = parse_hook("l2_init(strength=1e-2)", default=AtStart())
    assert isinstance(hook.intervention, L2Init)
    assert hook.schedule is None
    assert hook.text == "l2_init(strength=0.01)"


def test_a_hook_without_a_schedule_has_the_default_or_begins_at_the_start_if_it_can():
    assert parse_hook("critic/fire", default=AtStart()).text == "critic/fire@start"
    assert parse_hook("fire@task", default=AtStart()).schedule == AtTask()
    for name in ("muon", "nap", "rebalance", "sib"):
        assert parse_hook(name).text == f"{name}@start"
        assert parse_hook(f"{name}@task").schedule == AtTask()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q/fire", r"'q/fire' needs a schedule, for example q/fire@0.5 or q/fire@task"),
        ("hare_tortoise", "'hare_tortoise' needs a schedule"),
        ("q/l2_init@0.5", "'q/l2_init@0.5': l2_init acts continuously.* leave out @0.5"),
        ("q/fier@0.5", "unknown intervention 'fier': did you mean 'fire'"),
        ("fire(step=5)@0.5", "fire has no parameter 'step': did you mean 'steps'"),
        ("fire(steps=many)@0.5", 'fire: steps should be an integer, but is "many"'),
        ("reset(what=haed)@0.5", "did you mean 'head'"),
        ("fire@when:dormant", "expected"),
    ],
)
def test_a_wrong_text_is_answered_with_one_line(text, message):
    with refused(message):
        parse_hook(text)


def model(name: str) -> Learner:
    return learner_for(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)), name=name)


def test_a_hook_acts_on_the_learner_that_it_names_or_on_all():
    for text, expected in (("critic/fire@task", [False, True]), ("fire@task", [True, True])):
        assert [parse_hook(text).concerns(model(name)) for name in ("actor", "critic")] == expected


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


def moment(value: float) -> Moment:
    return Moment(10, 10, 100, metrics={"q/dormant_fraction": value})


def test_a_hook_keeps_what_its_schedule_remembers_in_its_state():
    hook, q = parse_hook("fire@when:dormant_fraction>0.3"), model("q")
    assert hook.due(moment(0.4), q)
    state = hook.state_dict()
    restored, fresh, again = (parse_hook(hook.text) for _ in range(3))
    restored.load_state_dict(json.loads(json.dumps(state)))
    assert not restored.due(moment(0.4), q)
    assert fresh.due(moment(0.4), q)
    # neither side's later moments reach into the saved state
    again.load_state_dict(state)
    for each in (hook, again):
        each.due(moment(0.1), q)
    assert state == {"memory": {"q": {"measured": True, "held": True, "fired": True}}, "intervention": {}}


def test_a_condition_waits_until_it_has_become_true_for_a_learner():
    hook, q = parse_hook("fire@when:dormant_fraction>0.3"), model("q")
    for value, waits in [(0.1, True), (0.4, False), (0.1, False)]:
        hook.due(moment(value), q)
        assert hook.waits() == waits
    assert not any(parse_hook(text).waits() for text in ("fire@0.5", "fire@task", "l2_init"))


def test_a_condition_on_what_was_never_measured_is_told_from_one_that_was_never_met():
    hook, full = parse_hook("fire@when:srank<3"), parse_hook("fire@when:critic/srank<3")
    learners = model("actor"), model("critic")

    def measure(metrics: dict[str, float]) -> None:
        at = Moment(10, 10, 100, metrics=metrics)
        assert not any(each.due(at, learner) for each in (hook, full) for learner in learners)

    measure({"actor/weight_norm": 1.0})
    assert hook.obstacle() == "srank was never measured on 'actor' and 'critic'"
    assert full.obstacle() == "critic/srank was never measured"
    measure({"critic/srank": math.nan})
    assert hook.obstacle() == full.obstacle() == "its condition was never met"


def test_making_an_intervention_twice_shares_nothing():
    one, other = make("fire", scope="head"), make("fire")
    assert (str(one), str(other)) == ("fire(scope=head)", "fire")
    assert one.params is not other.params
