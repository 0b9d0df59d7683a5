"""Hooks of a run whose agent has two learners: what is refused before it begins."""

import pytest
from torch import nn

from supple.engine.hooks.event import ExtraMeasurements
from supple.engine.hooks.parsing import read_hooks
from supple.engine.work import Task
from supple.interventions import Learner, learner_for
from supple.registry.errors import UsageError

TASKS = [Task(0, 0, 1000, "Pendulum-v1")]


def learners() -> dict[str, Learner]:
    actor = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 2))
    critic = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
    return {name: learner_for(module, name=name) for name, module in (("actor", actor), ("critic", critic))}


@pytest.mark.parametrize(
    "text",
    [
        "fire@when:srank<20",
        "fire@when:critic/srank<20",
        "actor/fire@when:critic/srank<20",
        "fire@when:dormant_fraction/3>0.5",  # a layer of the critic alone
        "critic/fire@when:dormant_fraction/3>0.5",
        "actor/fire@when:critic/dormant_fraction/3>0.5",
    ],
)
def test_conditions_can_use_the_measured_metrics(text):
    assert [hook.learner for hook in read_hooks([text], TASKS, learners()).hooks] == [
        text.split("/")[0] if text.startswith(("actor", "critic")) else None
    ]


def test_conditions_can_use_optional_metrics_that_the_run_measures():
    texts = ["fire@when:policy/entropy<0.1", "critic/fire@when:trainability<0.5", "fire@when:actor/lambda_max>9"]
    extras = ExtraMeasurements(costly=True, trainability=True, learning=("policy/entropy",))
    assert len(read_hooks(texts, TASKS, learners(), extras=extras).hooks) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fire@when:srnk<20", "--hook: fire@when:srnk<20.0: unknown metric 'srnk': did you mean 'srank'?"),
        ("fire@when:q/srank<20", "unknown metric 'q/srank'"),
        ("fire@when:policy/entrpy<0.1", "unknown metric 'policy/entrpy': did you mean 'policy/entropy'?"),
        (
            "fire@when:actor/trainability<0.5",
            "trainability is measured only with --trainability-every",
        ),
        ("fire@when:lambda_max>100", "lambda_max is measured only with --curvature"),
        ("actor/fire@when:dormant_fraction/3>0.5", "unknown metric 'dormant_fraction/3'"),
        (
            "critc/fire@when:srnk<20",
            "--hook: critc/fire@when:srnk<20.0: unknown learner 'critc': did you mean 'critic'",
        ),
        ("critic/fire@2000", "--hook: critic/fire@2000 never fires: the run has 1000 steps"),
        ("actor/reset(what=layer,layer='3')@0.5", "--hook: actor/reset"),  # a layer of the critic
        ("injection@0.5", "--hook: injection@0.5: 'actor' has no part to duplicate"),
    ],
)
def test_hooks_that_would_never_fire_are_refused_in_one_line(text, message):
    with pytest.raises(UsageError) as refusal:
        read_hooks([text], TASKS, learners(), extras=ExtraMeasurements(learning=("policy/entropy",)))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_the_same_hook_can_be_given_for_two_learners():
    texts = ["actor/fire@0.5", "critic/fire@0.5"]
    assert [hook.text for hook in read_hooks(texts, TASKS, learners()).hooks] == texts
    with pytest.raises(UsageError, match=r"critic/fire@0\.5 is given twice"):
        read_hooks([*texts, "critic/fire@0.5"], TASKS, learners())


def test_in_a_fork_a_hook_of_one_learner_begins_at_the_fork():
    assert read_hooks(["critic/fire"], TASKS, learners(), start=500).hooks[0].text == "critic/fire@start"
