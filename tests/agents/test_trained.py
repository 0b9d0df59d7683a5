"""Trained agents in Python, which act as in the evaluations of their runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents.evaluate import play
from supple.agents.trained import Trained
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs import Shifted
from supple.registry.errors import RunError, UsageError
from supple.tracks.linear.settings import LinearSettings
from tests.agents.small import lines, train

KINDS: dict[str, dict[str, Any]] = {
    "ppo": {"env": "Pendulum-v1"}, "ppo, discrete": {"env": "FrozenLake-v1"}, "dqn": {}, "sac": {},
}  # fmt: skip


def run(folder: Path, name: str, *seeds: int) -> Path:
    kind, _, _ = name.partition(",")
    return train(kind, folder / "run", seeds or (0,), cycles=1, max_episode_steps=30, **KINDS[name])


def returns(path: Path) -> list[dict[str, Any]]:
    return [row for row in lines(path, "metrics") if "eval/return" in row]


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_trained_agent_acts_as_in_the_runs_evaluation(name: str, tmp_path: Path) -> None:
    path = run(tmp_path, name)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    agent = Trained(path)
    assert agent.step == 120
    assert [agent._work.evaluate(agent._work.task)["eval/return"]] == [row["eval/return"] for row in returns(path)]
    found = [agent.evaluate(episodes=4, seed=s) for s in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0][1:] == found[2][:-1]
    env = gym.make(agent.env)
    observation, _ = env.reset(seed=3)
    one, several = agent.predict(observation), agent.predict(np.stack([observation] * 3))
    assert env.action_space.contains(np.asarray(one, env.action_space.dtype)[()])
    assert all(np.allclose(each, one) for each in several)  # batches round differently
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


@pytest.mark.slow
def test_each_checkpoint_has_its_agent_and_other_requests_are_refused_in_one_line(tmp_path: Path) -> None:
    path = run(tmp_path, "ppo")
    agent, early = Trained(path), Trained(path, 80)
    observation = np.array([1.0, 0.0, 0.5], np.float32)
    assert not np.array_equal(early.predict(observation), agent.predict(observation))
    prepare(RunSpec("linear", LinearSettings(tasks="semantic", updates_per_task=10)), tmp_path / "linear").train()
    asked: list[tuple[Callable[[], Any], str]] = [
        (lambda: Trained(path, 7), "has no checkpoint at step 7, only at 80, 120"),
        (lambda: Trained(path, seed=4), "has no seed 4, only 0$"),
        (lambda: agent.predict(np.zeros(4)), r"Pendulum-v1 have shape \(3,\), got \(4,\)"),
        (lambda: agent.predict(np.zeros(3), env="CartPole-v1"), "CartPole-v1: .* only trained on Pendulum-v1"),
        (lambda: agent.evaluate(episodes=0), "episodes must be 1 or more"),
        (lambda: Trained(tmp_path / "linear"), "does not train an agent"),
    ]
    for ask, message in asked:
        with pytest.raises((RunError, UsageError), match=message):
            ask()


def test_an_evaluation_during_a_gradual_change_sees_what_the_checkpoint_saw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = train("ppo", tmp_path / "run", shift="offset(over=120)", eval_episodes=0, keep_checkpoints=9)
    agent, told = Trained(path, 200), set[int]()
    monkeypatch.setattr(Shifted, "progress", lambda env, steps, slide=True: told.add(steps))
    agent.evaluate(episodes=2)
    assert told == {80}
    agent.evaluate(episodes=2, task=1)
    assert told == {80, 120}


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_member_of_a_stack_acts_as_it_does_in_the_stack(name: str, tmp_path: Path) -> None:
    path = run(tmp_path, name, 3, 8)
    last = {row["seed"]: row["eval/return"] for row in returns(path)}
    assert Trained(path).seed == 3
    for member, seed in enumerate((3, 8)):
        agent = Trained(path, seed=seed)
        work = agent._work
        episodes = [work.evaluation_seeds(seed, work.task, 2)]
        envs = work.envs(work.settings, agent.env, work.worlds(work.task, 2)[2 * member : 2 * member + 2])
        envs.progress(work.task.end - work.task.start)
        if name != "dqn":  # whose policy for evaluations draws, once for each call
            with agent._agent.greedy(agent.env) as policy:
                assert np.mean(play(policy, agent.env, envs, *episodes)) == last[seed]
        observations = np.stack([gym.make(agent.env).reset(seed=i)[0] for i in range(3)])
        seen, _ = agent._prepare(observations, agent.env)
        with work.agent.greedy(agent.env) as policy:
            stacked = policy(np.concatenate([seen, seen]))
        np.testing.assert_array_equal(agent.predict(observations), stacked[3 * member : 3 * member + 3])
