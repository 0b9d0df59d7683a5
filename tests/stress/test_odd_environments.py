"""PPO, DQN and SAC on odd environments, beside Stable-Baselines3: each trains, or is refused in one line at the start.

    pytest tests/stress/test_odd_environments.py
    python tests/stress/test_odd_environments.py        # the table and its counts

`make test` leaves this folder out. What an environment that trains must receive: every action lies in its space, with
its shape and a type that casts to the space's. What PPO and SAC must know: mean and deviation of what was shown.
"""

import json
import shutil
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.sac import SACSettings
from supple.agents.trained import Trained
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import RunError, UsageError

STEPS, LENGTH = 80, 9
F32, F64, BIG = np.float32, np.float64, float(np.finfo(np.float32).max)
COMMON: dict[str, Any] = {
    "num_envs": 2, "steps": STEPS, "measure_every": STEPS, "eval_episodes": 1, "max_episode_steps": 50,
}  # fmt: skip
REPLAY: dict[str, Any] = {
    "learning_starts": 20, "replay_size": 100, "batch_size": 8, "replay_ratio": 0.2, "device": "cpu",
}  # fmt: skip
PPO_ = {"rollout_steps": 20, "minibatch_size": 20, "epochs": 1, "hidden": (8,), "compile": "off"}
SAC_ = {"actor_width": 8, "critic_width": 8, "critic_blocks": 1, "compile": "off"}
AGENTS: dict[str, Callable[..., Any]] = {
    "ppo": lambda **own: PPOSettings(**COMMON | PPO_ | own),
    "dqn": lambda **own: DQNSettings(**COMMON | REPLAY | {"widths": (8,), "clip_rewards": False} | own),
    "sac": lambda **own: SACSettings(**COMMON | REPLAY | SAC_ | own),
}
ANY = spaces.Box(-1, 1, (2,), F32)


@dataclass
class Odd:
    """What is odd about an environment. acts: its action space; by default, one that the agent supports."""

    shown: spaces.Space = field(default_factory=lambda: ANY)
    acts: spaces.Space | None = None
    reward: Callable[[int], Any] = lambda t: 1.0
    info: dict[Any, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)  # settings of the run
    flags: Callable[[bool], Any] = bool
    show: Callable[[Any], Any] = lambda observation: observation


class OddEnv(gym.Env):
    """An environment of `Odd`, which notes what it shows and what it gets."""

    odd = Odd()
    agent = "ppo"
    got: list[Any] = []  # noqa: RUF012
    seen: list[Any] = []  # noqa: RUF012

    def __init__(self, **options: Any) -> None:
        self.observation_space = self.odd.shown
        usual = ANY if self.agent == "sac" else spaces.Discrete(3)
        self.action_space = self.odd.acts if self.odd.acts is not None else usual

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self._look(), dict(self.odd.info)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict]:
        self.t += 1
        self.got.append(action)
        ends = self.t == LENGTH
        return self._look(), self.odd.reward(self.t), self.odd.flags(ends), self.odd.flags(False), dict(self.odd.info)

    def _look(self) -> Any:
        shown = self.observation_space.sample()
        self.seen.append(shown)
        return self.odd.show(shown)


def around(offset: float, spread: float = 1.0, dtype: Any = F64, n: int = 2) -> spaces.Box:
    return spaces.Box(offset - spread, offset + spread, (n,), dtype)


ODD: dict[str, Odd] = {
    # offsets
    "position of 5,400,000 m": Odd(around(5.4e6)),
    "time since 1970": Odd(around(1.7e9, 500.0)),
    "pressure in Pa": Odd(around(101_325.0, 5.0)),
    "1e12 ± 1": Odd(around(1e12)),
    "−3e7 ± 0.01": Odd(around(-3e7, 0.01)),
    "offset in float32": Odd(around(5.4e6, 100.0, F32)),
    "offset as integers": Odd(spaces.Box(10**9, 10**9 + 1000, (2,), np.int64)),
    "one constant": Odd(spaces.Box(np.array([3.0, -1]), np.array([3.0, 1]), dtype=F64)),
    "tiny numbers": Odd(around(0.0, 1e-6)),
    "huge numbers": Odd(around(0.0, 1e30)),
    # types and shapes of observations
    "half precision": Odd(around(0.0, 1.0, np.float16)),
    "a single number": Odd(spaces.Box(-1, 1, (), F32)),
    "a matrix": Odd(spaces.Box(-1, 1, (5, 7), F64)),
    "a board of int64": Odd(spaces.Box(0, 11, (4, 4), np.int64)),
    "a board of uint8": Odd(spaces.Box(0, 3, (6, 7), np.uint8)),
    "signed bytes": Odd(spaces.Box(-128, 127, (3,), np.int8)),
    "booleans": Odd(spaces.Box(0, 1, (4,), np.bool_)),
    "bits, 2 × 3": Odd(spaces.MultiBinary([2, 3])),
    "discrete from −5": Odd(spaces.Discrete(7, start=-5)),
    "multi-discrete, 2 × 2": Odd(spaces.MultiDiscrete([[2, 3], [4, 1]])),
    "dict": Odd(spaces.Dict({"b": spaces.Discrete(3), "a": spaces.Box(-1, 1, (2, 2), F64)})),
    "dict of dicts": Odd(spaces.Dict({"x": spaces.Dict({"y": spaces.MultiBinary(2)}), "z": around(1e7)})),
    "tuple": Odd(spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (3,), F32)])),
    "dict with a text": Odd(spaces.Dict({"task": spaces.Text(5), "x": ANY})),
    "dict with an image": Odd(spaces.Dict({"eye": spaces.Box(0, 255, (16, 16, 3), np.uint8), "x": ANY})),
    "a sequence": Odd(spaces.Sequence(spaces.Discrete(2))),
    "one of two": Odd(spaces.OneOf([ANY, spaces.Discrete(2)])),
    "nothing": Odd(spaces.Box(-1, 1, (0,), F32)),
    "float image": Odd(spaces.Box(0, 1, (3, 64, 64), F32)),
    "float image, last": Odd(spaces.Box(0, 1, (64, 64, 3), F64)),
    "byte image, colour": Odd(spaces.Box(0, 255, (40, 40, 3), np.uint8)),
    "byte image, channels first": Odd(spaces.Box(0, 255, (3, 40, 40), np.uint8)),
    "byte image, grey": Odd(spaces.Box(0, 255, (40, 40), np.uint8)),
    "planes of booleans": Odd(spaces.Box(0, 1, (10, 10, 4), np.bool_)),
    "list for an array": Odd(ANY, show=lambda seen: seen.tolist()),
    "float64 for float32": Odd(ANY, show=lambda seen: seen.astype(F64)),
    # actions
    "bits as actions, 2 × 3": Odd(acts=spaces.MultiBinary([2, 3])),
    "integer box": Odd(acts=spaces.Box(0, 3, (2,), np.int64)),
    "byte box": Odd(acts=spaces.Box(0, 255, (3,), np.uint8)),
    "bounds of the largest float32": Odd(acts=spaces.Box(-BIG, BIG, (2,), F32)),
    "one bound": Odd(acts=spaces.Box(0, np.inf, (2,), F32)),
    "no bounds": Odd(acts=spaces.Box(-np.inf, np.inf, (2,), F32)),
    "bounds of the largest float64": Odd(acts=spaces.Box(-1e308, 1e308, (2,), F64)),
    "asymmetric bounds": Odd(acts=spaces.Box(np.array([0, -5]), np.array([1e-3, 500]), dtype=F64)),
    "half-precision actions": Odd(acts=spaces.Box(-1, 1, (2,), np.float16)),
    "a matrix as action": Odd(acts=spaces.Box(-1, 1, (2, 2), F32)),
    "a number as action": Odd(acts=spaces.Box(-1, 1, (), F32)),
    "no action": Odd(acts=spaces.Box(-1, 1, (0,), F32)),
    "multi-discrete": Odd(acts=spaces.MultiDiscrete([2, 5, 3])),
    "multi-discrete, 2 × 2 ": Odd(acts=spaces.MultiDiscrete([[2, 2], [3, 1]])),
    "multi-discrete from 1": Odd(acts=spaces.MultiDiscrete([2, 2], start=[1, 1])),
    "40,000 actions": Odd(acts=spaces.Discrete(40_000)),
    "one action": Odd(acts=spaces.Discrete(1)),
    "actions from 3": Odd(acts=spaces.Discrete(2, start=3)),
    "dict as action": Odd(acts=spaces.Dict({"a": spaces.Discrete(2)})),
    # rewards, infos, flags
    "rewards of −2.5e6": Odd(reward=lambda t: -2.5e6),
    "rewards of 1e9 ± 1": Odd(reward=lambda t: 1e9 + (-1) ** t),
    "rewards of −1e15": Odd(reward=lambda t: -1e15),
    "rewards as float32": Odd(reward=lambda t: F32(-3e7)),
    "rewards as integers": Odd(reward=lambda t: -2_500_000),
    "rewards as booleans": Odd(reward=lambda t: t % 2 == 0),
    "rewards as arrays": Odd(reward=lambda t: np.array(1.0)),
    "info: explosion": Odd(info={"explosion": -1.0, "explosion_cause": "reward", "exploded": True}),
    "info: repeated": Odd(info={"repeated": 50, "taken": 3, "steps": 7}),
    "info: Gymnasium's": Odd(info={"final_obs": 1, "final_info": {}, "TimeLimit.truncated": True, "_final_obs": [1]}),
    "info: odd keys": Odd(info={3: object(), None: lambda: 0, ("a",): {1, 2}, "reward_forward": "fast"}),
    "flags of NumPy": Odd(flags=np.bool_),
    "flags as integers": Odd(flags=int),
    # settings
    "a batch of one row": Odd(own={"num_envs": 1, "steps": STEPS + 2}),
    "action repeat": Odd(info={"repeated": 1}, own={"max_episode_steps": 4}),
}


@dataclass
class Outcome:
    trains: bool
    words: str  # of the refusal
    got: list[Any] = field(default_factory=list)
    seen: list[Any] = field(default_factory=list)
    run: Path | None = None


def ours(name: str, agent: str, folder: Path) -> Outcome:
    odd = ODD[name]
    settings = dict(odd.own)
    if agent == "ppo" and name == "a batch of one row":
        settings["rollout_steps"] = STEPS + 1
    env_id = "Odd-v0"
    OddEnv.odd, OddEnv.agent, OddEnv.got, OddEnv.seen = odd, agent, [], []
    if env_id not in gym.registry:
        gym.register(env_id, entry_point=OddEnv)
    try:
        prepare(RunSpec(agent, AGENTS[agent](env=env_id, **settings)), folder).close()
    except (UsageError, RunError) as error:
        return Outcome(False, str(error))
    open_run(folder, lambda line: None).train(lambda step: None)
    return Outcome(True, "", OddEnv.got, OddEnv.seen, folder)


def theirs(name: str, agent: str) -> Outcome:
    """Train Stable-Baselines3's agent on the same environment, with normalised observations for PPO."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    OddEnv.odd, OddEnv.agent, OddEnv.got, OddEnv.seen = ODD[name], agent, [], []
    net = {"policy_kwargs": {"net_arch": [8]}, "device": "cpu", "seed": 0}
    replay = {"learning_starts": 20, "buffer_size": 100, "batch_size": 8}
    policy = "MultiInputPolicy" if isinstance(ODD[name].shown, spaces.Dict) else "MlpPolicy"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env: Any = DummyVecEnv([lambda: gym.wrappers.TimeLimit(OddEnv(), 50)] * 2)
            if agent == "ppo":
                if not isinstance(ODD[name].shown, spaces.Dict):
                    env = VecNormalize(env, norm_reward=False)
                model: Any = sb3.PPO(policy, env, n_steps=20, batch_size=20, n_epochs=1, **net)
            else:
                model = (sb3.DQN if agent == "dqn" else sb3.SAC)(policy, env, **replay, **net)
            model.learn(STEPS)
    except Exception as error:  # of any kind, as its users meet them
        return Outcome(False, " ".join(f"{type(error).__name__}: {error}".split()))
    return Outcome(True, "", OddEnv.got, OddEnv.seen)


def check(name: str, agent: str, outcome: Outcome) -> None:
    """Check what a refusal says, or what an environment got and what the agent knows of it."""
    if not outcome.trains:
        assert "\n" not in outcome.words
        assert outcome.words.startswith("Odd-v0: ") or "Odd-v0 has" in outcome.words
        return
    assert outcome.run is not None
    got, seen = list(outcome.got), list(outcome.seen)  # what follows makes environments of its own
    space = ODD[name].acts or (ANY if agent == "sac" else spaces.Discrete(3))
    assert got
    assert all(action in space for action in got)
    episodes = [json.loads(line) for line in (outcome.run / "episodes.jsonl").read_text().splitlines()]
    length = min(LENGTH, ODD[name].own.get("max_episode_steps", LENGTH))
    assert {(e["length"], "exploded" in e) for e in episodes} == {(length, False)}
    want = sum(float(ODD[name].reward(t + 1)) for t in range(length))
    np.testing.assert_allclose([e["return"] for e in episodes], want, rtol=1e-6)
    if agent == "dqn":
        return
    learner: Any = Trained(outcome.run)._work.agent
    running = learner.inputs.statistics["all"] if agent == "sac" else learner.normalizers.observations["Odd-v0"]
    shown = [spaces.flatten(ODD[name].shown, one) for one in seen]
    every = np.array(shown, dtype=np.float64).reshape(len(shown), -1)
    spread = every.std(0)
    assert (np.abs(running.mean - every.mean(0)) <= 0.5 * spread + 1e-6 * np.abs(every.mean(0))).all()
    varied = spread > 1e-9 * np.abs(every).max(0)
    ratio = np.sqrt(running.variance[varied]) / spread[varied]
    assert ((ratio > 0.5) & (ratio < 2.0)).all(), ratio  # the evaluation's observations are not among them


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "run"
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("name", ODD)
def test_it_trains_or_is_refused_in_one_line_before_training(name: str, agent: str, folder: Path) -> None:
    outcome = ours(name, agent, folder)
    check(name, agent, outcome)
    peer = theirs(name, agent)
    if outcome.trains and peer.trains:
        for ours_, theirs_ in zip(outcome.got[:1], peer.got[:1], strict=True):
            assert np.shape(ours_) == np.shape(theirs_)
            assert np.asarray(ours_).dtype.kind == np.asarray(theirs_).dtype.kind


def table() -> None:
    """Print what became of every environment and agent, here and in Stable-Baselines3, and the counts."""
    counts: Counter[str] = Counter()
    for name in ODD:
        for agent in AGENTS:
            folder = Path(tempfile.mkdtemp())
            try:
                outcome = ours(name, agent, folder / "run")
                check(name, agent, outcome)
                mine = "trains" if outcome.trains else "refused"
            except Exception as error:  # counted, and shown
                mine, outcome = "FAILS", Outcome(False, " ".join(f"{type(error).__name__}: {error}".split()))
            peer = theirs(name, agent)
            counts[f"{mine}; Stable-Baselines3 {'trains' if peer.trains else 'raises'}"] += 1
            print(f"{name} | {agent} | {mine} {outcome.words[:230]} | {'trains' if peer.trains else peer.words[:90]}")
            shutil.rmtree(folder, ignore_errors=True)
    print(len(ODD), "environments;", dict(counts))


if __name__ == "__main__":
    table()
