"""Users' environments in whole runs: their rewards, infos, spaces and keyword arguments."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from supple.agents.ppo.update import normalize
from supple.agents.trained import Trained
from supple.envs import ExplosionInfo, make_env
from supple.registry.errors import UsageError
from tests.agents.small import KINDS, lines, train

ID = "Own-v0"
COMMON: dict[str, Any] = {
    "env": ID, "cycles": 1, "steps_per_task": 80, "checkpoint_every": 80, "measure_every": 80, "eval_episodes": 1,
}  # fmt: skip
WORDS = {  # of ours and of others, as an environment may use them for itself
    "explosion": 1.0, "explosion_cause": "none", "exploded": True, "repeated": 99, "taken": 7, "final_obs": None,
    "final_info": {}, "episode": "x", "TimeLimit.truncated": True, "reward_forward": "fast", 3: object(),
}  # fmt: skip


class Own(gym.Env):
    """An environment with given observations and episodes of ten steps, which records its actions and arguments."""

    shown: spaces.Space = spaces.Box(-1, 1, (2,), np.float32)
    acted: spaces.Space = spaces.Discrete(2)
    reward: float = 1.0
    info: dict[Any, Any] = {}  # noqa: RUF012
    actions: list[Any] = []  # noqa: RUF012
    given: list[Any] = []  # noqa: RUF012

    def __init__(self, **options: Any) -> None:
        self.observation_space, self.action_space = self.shown, self.acted
        self.given.append(options)
        options.get("list", []).append(0)  # an argument that is shared would grow

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        self.t = 0
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), dict(self.info)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.t += 1
        self.actions.append(action)
        return self.observation_space.sample(), self.reward, self.t == 10, False, dict(self.info)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> type[Own]:
    monkeypatch.setitem(gym.registry, ID, gym.envs.registration.EnvSpec(ID, Own))
    for name in ("shown", "acted", "reward", "info"):
        monkeypatch.setattr(Own, name, getattr(Own, name))
    for name in ("actions", "given"):
        monkeypatch.setattr(Own, name, [])
    return Own


def trained(folder: Path, agent: str, **own: Any) -> Path:
    return train(agent, folder, **COMMON | ({"action_repeat": 1} if agent == "sac" else {}) | own)


def actions_for(agent: str) -> spaces.Space:
    return spaces.Box(-1, 1, (1,), np.float32) if agent == "sac" else spaces.Discrete(2)


@pytest.mark.parametrize("agent", KINDS)
def test_observations_of_parts_large_rewards_and_any_info_and_arguments_are_taken_as_they_are(
    tmp_path: Path, own: type[Own], agent: str
) -> None:
    own.shown = spaces.Dict({"a": spaces.Box(-1, 1, (2, 2)), "b": spaces.Tuple([spaces.Discrete(3)])})
    own.reward, own.info, own.acted = -2.5e6, WORDS, actions_for(agent)
    run = trained(tmp_path / "run", agent, env_kwargs='{"list": [], "size": 8}')
    episodes = lines(run, "episodes")
    assert {(e["return"], e["length"], "exploded" in e) for e in episodes} == {(-2.5e7, 10, False)}
    assert not [e for e in lines(run, "events") if e["event"] == "explosion"]
    predictor, seen = Trained(run), own.shown.sample()
    assert predictor.predict(seen) in own.acted
    assert len(predictor.predict([seen, seen, seen])) == 3
    assert len(own.given) >= 5
    assert own.given == [{"list": [0], "size": 8}] * len(own.given)  # every copy has its own


def test_with_mujoco_a_reward_below_the_floor_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make_env("halfcheetah")
    env.reset(seed=0)
    monkeypatch.setattr(env.unwrapped, "_get_rew", lambda *_: (-1.1e6, {}))
    _, reward, terminated, _, info = env.step(np.zeros(6))
    assert (reward, terminated) == (0.0, True)
    assert isinstance(info, ExplosionInfo)
    assert (info.reward, info.cause) == (-1.1e6, "reward")


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiBinary([2, 3]),
        spaces.MultiDiscrete([[2, 5], [3, 1]]),
        spaces.Box(-1, 1, (2,), np.float64),
        spaces.Box(-1, 1, (2,), np.float16),
    ],
)
def test_actions_have_the_shape_and_type_of_their_space(tmp_path: Path, own: type[Own], space: spaces.Space) -> None:
    own.acted = space
    trained(tmp_path / "run", "ppo")
    assert len(own.actions) >= 80
    assert all(action in space for action in own.actions)


@pytest.mark.slow
def test_a_replay_memory_keeps_many_actions(tmp_path: Path, own: type[Own]) -> None:
    own.acted = spaces.Discrete(40_000)
    run = trained(tmp_path / "run", "dqn")
    assert max(own.actions) > 2**15
    agent = Trained(run)._work.agent
    kept = agent.experience.memory.action  # type: ignore[attr-defined]
    assert (kept.min(), kept.max()) == (0, max(own.actions[:80]))


def test_a_batch_of_one_row_is_not_normalised() -> None:
    assert normalize(torch.tensor([3.0])).tolist() == [3.0]


@pytest.mark.parametrize("agent", KINDS)
def test_large_offsets_keep_all_values_to_the_network(
    tmp_path: Path, own: type[Own], monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    """Of replay memories also if `reset` returns what is unlike all others."""
    offset, start = 5.4e6, Own.reset
    own.shown, own.acted = spaces.Box(offset - 1, offset + 1, (1,), np.float64), actions_for(agent)
    if agent != "ppo":
        monkeypatch.setattr(Own, "reset", lambda self, **given: (np.zeros(1), start(self, **given)[1]))
    learner: Any = Trained(trained(tmp_path / "run", agent, eval_episodes=0))._work.agent
    seen = np.linspace(offset - 1, offset + 1, 200)[:, None]
    if agent == "ppo":
        read = learner.normalizers.normalize(seen, ID)
        assert 0.8 < learner.normalizers.observations[ID].variance[0] ** 0.5 * 3**0.5 < 1.2
    else:
        centre = learner.centre if agent == "dqn" else learner.inputs.centres["all"]
        read = centre(seen).astype(np.float32)
        memory = learner.experience.memory
        kept = memory.frames[memory.acted]
        later = kept[np.abs(kept) <= 2]
        assert len(np.unique(later)) == len(later) > 30
    assert len(np.unique(read)) == 200


@pytest.mark.parametrize(
    ("space", "wrong"),
    [
        (spaces.Discrete(5, start=3), [0, (1,), 99, None, np.zeros(4), []]),
        (spaces.Dict({"a": spaces.Discrete(4, start=-2)}), [{"a": 99}, {"b": 0}, None, [{"a": 9}], []]),
    ],
)
def test_only_observations_of_its_space_are_given_to_a_trained_agent(
    tmp_path: Path, own: type[Own], space: spaces.Space, wrong: list[Any]
) -> None:
    own.shown = space
    agent = Trained(trained(tmp_path / "run", "ppo", eval_episodes=0))
    assert agent.predict(space.sample()) in own.acted
    for observation in wrong:
        with pytest.raises(UsageError, match=ID) as refusal:
            agent.predict(observation)
        assert "\n" not in str(refusal.value)
