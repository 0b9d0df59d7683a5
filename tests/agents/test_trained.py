"""Trained agents in Python, which act as in the evaluations of their runs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.evaluate import evaluate
from supple.agents.ppo import PPOSettings
from supple.agents.sac import SACSettings
from supple.agents.trained import Trained
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import RunError, UsageError
from supple.tracks.linear.settings import LinearSettings

COMMON: dict[str, Any] = {
    "steps": 120,
    "num_envs": 2,
    "checkpoint_every": 60,
    "eval_episodes": 2,
    "max_episode_steps": 30,
}
REPLAY: dict[str, Any] = {
    "learning_starts": 20,
    "replay_size": 100,
    "batch_size": 4,
    "replay_ratio": 0.2,
    "device": "cpu",
}
SMALL: dict[str, Any] = {"rollout_steps": 15, "minibatch_size": 15, "epochs": 1, "hidden": (8,), "adapter": 4}
KINDS = {
    "ppo": lambda: PPOSettings(env="Pendulum-v1", compile="off", **SMALL, **COMMON),
    "ppo, discrete": lambda: PPOSettings(env="FrozenLake-v1", compile="off", **SMALL, **COMMON),
    "dqn": lambda: DQNSettings(env="CartPole-v1", hidden=(8,), **REPLAY, **COMMON),
    "sac": lambda: SACSettings(env="Pendulum-v1", actor_width=8, critic_width=8, compile="off", **REPLAY, **COMMON),
}


def run(folder: Path, name: str) -> Path:
    prepare(RunSpec(name.split(",")[0], KINDS[name]()), folder / "run", lambda line: None).train(lambda step: None)
    return folder / "run"


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_trained_agent_acts_as_in_the_runs_evaluation(name: str, tmp_path: Path) -> None:
    path = run(tmp_path, name)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    agent = Trained(path)
    assert agent.step == 120
    logged = [row["eval/return"] for row in map(json.loads, (path / "metrics.jsonl").open()) if "eval/return" in row]
    assert [agent._work.evaluate(agent._work.task)["eval/return"]] == logged
    found = [agent.evaluate(episodes=4, seed=s) for s in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0][1:] == found[2][:-1]
    env = gym.make(agent.env)
    observation, _ = env.reset(seed=3)
    one, several = agent.predict(observation), agent.predict(np.stack([observation] * 3))
    assert env.action_space.contains(np.asarray(one, env.action_space.dtype)[()])
    assert all(np.allclose(each, one) for each in several)  # batches round differently
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_each_checkpoint_has_its_agent(tmp_path: Path) -> None:
    path = run(tmp_path, "ppo")
    early, late = Trained(path, 60), Trained(path)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    assert not np.array_equal(early.predict(observation), late.predict(observation))
    with pytest.raises(RunError, match="has no checkpoint at step 7, only at 60, 120"):
        Trained(path, 7)


@pytest.mark.slow
def test_invalid_uses_of_a_trained_agent_are_refused_in_one_line(tmp_path: Path) -> None:
    agent = Trained(run(tmp_path, "ppo"))
    for ask, message in (
        (lambda: agent.predict(np.zeros(4)), r"Pendulum-v1 have shape \(3,\), got \(4,\)"),
        (lambda: agent.predict(np.zeros(3), env="CartPole-v1"), "CartPole-v1: .* only trained on Pendulum-v1"),
        (lambda: agent.evaluate(episodes=0), "episodes must be 1 or more"),
    ):
        with pytest.raises(UsageError, match=message):
            ask()
    prepare(RunSpec("linear", LinearSettings(tasks="semantic", updates_per_task=10)), tmp_path / "linear").close()
    with pytest.raises(RunError, match="has no checkpoint yet"):
        Trained(tmp_path / "linear")
    open_run(tmp_path / "linear", lambda line: None).train(lambda step: None)
    with pytest.raises(RunError, match="does not train an agent"):
        Trained(tmp_path / "linear")


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_member_of_a_stack_acts_as_it_does_in_the_stack(name: str, tmp_path: Path) -> None:
    seeds = (3, 8)
    settings = replace(KINDS[name](), seed=3, seeds=seeds)
    path = tmp_path / "run"
    prepare(RunSpec(name.split(",")[0], settings), path, lambda line: None).train(lambda step: None)
    last = {
        row["seed"]: row["eval/return"]
        for row in map(json.loads, (path / "metrics.jsonl").open())
        if "eval/return" in row
    }
    assert Trained(path).seed == 3
    for member, seed in enumerate(seeds):
        agent = Trained(path, seed=seed)
        work = agent._work
        episodes = [work.evaluation_seeds(seed, work.task, 2)]
        envs = work.envs(work.settings, agent.env, work.worlds(work.task, 2)[2 * member : 2 * member + 2])
        envs.progress(work.task.end - work.task.start)
        if name != "dqn":  # whose policy for evaluations draws, once for each call
            assert np.mean(evaluate(agent._agent, agent.env, envs, *episodes)) == last[seed]
        observations = np.stack([gym.make(agent.env).reset(seed=i)[0] for i in range(3)])
        seen, _ = agent._prepare(observations, agent.env)
        with work.agent.greedy(agent.env) as policy:
            stacked = policy(np.concatenate([seen, seen]))
        np.testing.assert_array_equal(agent.predict(observations), stacked[3 * member : 3 * member + 3])
    with pytest.raises(RunError, match=r"has no seed 4, only 3, 8$"):
        Trained(path, seed=4)
