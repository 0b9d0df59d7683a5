"""`--trainability-every` of agents: measured through tasks and interventions, and nothing else is any different."""

from pathlib import Path
from typing import Any

import pytest

from supple.metrics import trainability
from tests.agents.small import lines, train

NAMES = {"trainability", "trainability/initial", "trainability/loss", "trainability/initial_loss"}
LEARNERS = {"ppo": ["agent"], "dqn": ["q"], "sac": ["actor", "critic"]}
CHURN = {
    "ppo": ["agent/policy_churn", "agent/value_churn"],
    "dqn": ["q/policy_churn", "q/value_churn"],
    "sac": ["actor/policy_churn", "critic/value_churn"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_trainability_is_measured_around_a_switch_and_leaves_no_trace(
    name: str, same: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (3, 1e-3))  # updates, learning rate
    own: dict[str, Any] = {"hook": ("snp(toward=fresh)@task",), "steps_per_task": 80, "measure_every": 40}
    own |= {} if name == "ppo" else {"learning_starts": 10}
    run = train(name, tmp_path / "run", **own, trainability_every=40)
    ours, plain = (
        same.last_state(each) for each in (run, train(name, tmp_path / "without", **own | {"measure_every": 160}))
    )
    assert [key for key in plain if "/marked/" not in key and ours[key] != plain[key]] == []

    measured = [line for line in lines(run, "metrics") if f"{LEARNERS[name][0]}/trainability" in line]
    assert [(line["step"], line["task"]) for line in measured] == [(40, 0), (80, 0), (80, 1), (120, 1), (160, 1)]
    for line in measured:
        for learner in LEARNERS[name]:
            assert {f"{learner}/{each}" for each in NAMES} <= line.keys()
            assert 0 < line[f"{learner}/trainability/loss"] < 2
    events = [event for event in lines(run, "events") if event["event"] == "intervention"]
    assert [event["learner"] for event in events] == LEARNERS[name]
    for event in events:
        assert event["before"].keys() >= NAMES
        assert event["before"]["trainability"] != event["after"]["trainability"]
        assert event["before"]["trainability/initial"] == event["after"]["trainability/initial"]

    numbers = [line for line in lines(run, "metrics") if f"{LEARNERS[name][0]}/update_ratio" in line]
    assert [line["step"] for line in numbers] == [40, 80, 120, 160]
    for line in numbers:
        for learner in LEARNERS[name]:
            assert line[f"{learner}/update_ratio"] > 0
            assert 0 <= line[f"{learner}/small_gradient_fraction"] <= 1
        assert all(0 <= line[each] < float("inf") for each in CHURN[name])
