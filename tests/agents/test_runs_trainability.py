"""`--trainability-every` of agents: measured through tasks and interventions, and nothing else is any different."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.sac import SACSettings
from supple.engine.runs import open_run, prepare
from supple.engine.settings import RunSettings
from supple.engine.spec import RunSpec
from supple.metrics import trainability
from supple.registry.errors import UsageError

NAMES = {"trainability", "trainability/initial", "trainability/loss", "trainability/initial_loss"}
LEARNERS = {"ppo": ["agent"], "dqn": ["q"], "sac": ["actor", "critic"]}
CHURN = {
    "ppo": ["agent/policy_churn", "agent/value_churn"],
    "dqn": ["q/policy_churn", "q/value_churn"],
    "sac": ["actor/policy_churn", "critic/value_churn"],
}


def settings(name: str, **more: Any) -> RunSettings:
    common: dict[str, Any] = {
        "hook": ("snp(toward=fresh)@task",), "num_envs": 2, "cycles": 2, "steps_per_task": 80, "checkpoint_every": 60,
        "measure_every": 40, "keep_checkpoints": 9, "eval_episodes": 0,
    }  # fmt: skip
    if name == "ppo":
        return PPOSettings(
            env="CartPole-v1", rollout_steps=10, minibatch_size=10, epochs=2, hidden=(8, 8), adapter=8, compile="off",
            **common, **more,
        )  # fmt: skip
    off_policy: dict[str, Any] = {"learning_starts": 20, "replay_size": 400, "batch_size": 8, "device": "cpu"}
    if name == "dqn":
        return DQNSettings(env="CartPole-v1", hidden=(8,), replay_ratio=0.5, **off_policy, **common, **more)
    return SACSettings(
        env="Pendulum-v1", action_repeat=1, actor_width=8, critic_width=8, critic_blocks=1, replay_ratio=0.5,
        compile="off", **off_policy, **common, **more,
    )  # fmt: skip


def finish(run: Path) -> None:
    open_run(run, print).train(lambda *_: None)


def lines(run: Path, log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{log}.jsonl").read_text().splitlines()]


def last_state(run: Path) -> bytes:
    newest = max((run / "checkpoints").iterdir(), key=lambda folder: int(folder.name))
    return (newest / "state.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo", "dqn", "sac"])
def test_trainability_is_measured_around_a_switch_and_leaves_no_trace(
    name: str, same: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (3, 1e-3))  # updates, learning rate
    run, again, without = tmp_path / "run", tmp_path / "again", tmp_path / "without"
    prepare(RunSpec(name, settings(name, trainability_every=40)), run).close()
    finish(run)
    prepare(RunSpec(name, settings(name)), without).close()
    finish(without)
    assert last_state(run) == last_state(without)
    shutil.copytree(run, again)
    for folder in (again / "checkpoints").iterdir():
        if int(folder.name) > 60:
            shutil.rmtree(folder)
    finish(again)
    same.assert_runs(again, run)

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


def test_a_negative_period_is_refused() -> None:
    with pytest.raises(UsageError, match="--trainability-every must be 0 or more, got -1"):
        settings("ppo", trainability_every=-1).check()
