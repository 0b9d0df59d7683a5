"""Settings and environments that agents cannot work with are refused in one line, before anything is written."""

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Space, Text

from supple.engine.kinds import find_kind
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import UsageError
from tests.agents.ppo import pictured

VECTOR, TWO, IMAGE = Box(-1, 1, (3,), np.float32), Box(-1, 1, (2,), np.float32), Box(0, 255, (8, 8, 3), np.uint8)
SPACES: dict[str, tuple[Space, Space]] = {  # what environments show, and their actions
    "Strange": (VECTOR, TWO),
    "Unbounded": (VECTOR, Box(-np.inf, np.inf, (2,), np.float32)),
    "Huge": (VECTOR, Box(0, 1e300, (2,), np.float64)),
    "Whole": (VECTOR, Box(0, 3, (2,), np.int64)),
    "FromOne": (VECTOR, MultiDiscrete([2, 2], start=[1, 0])),
    "Idle": (VECTOR, Box(-1, 1, (0,), np.float32)),
    "Entries": (VECTOR, MultiDiscrete([2, 2])),
    "Images": (IMAGE, TWO),
    "Words": (VECTOR, Text(3)),
    "Later": (VECTOR, Discrete(2, start=1)),
    "Grid": (VECTOR, Box(-1, 1, (2, 2), np.float32)),
    "Pair": (Dict({"left": IMAGE, "right": IMAGE}), Discrete(2)),
}
REPLAY: dict[str, Any] = {"steps": 1_000, "learning_starts": 100, "replay_size": 1_000, "device": "cpu"}
RIGHT: dict[str, dict[str, Any]] = {
    "ppo": {"env": "CartPole-v1", "steps": 4_096},
    "dqn": {"env": "CartPole-v1", **REPLAY},
    "sac": {"env": "Pendulum-v1", "action_repeat": 1, **REPLAY},
}
PIXELS = "Column-v0 shows images of 6 × 6 pixels and 2 channels (channels last), "


def several(names: str, **own: Any) -> dict[str, Any]:
    return {"env": None, "steps": None, "sequence": names, "steps_per_task": 4_000, **own}


def scheduled(**own: Any) -> dict[str, Any]:
    return {"steps": None, "cycles": 2, "steps_per_task": 32_000, **own}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    # environments
    ("sac", {"env": "Unbounded-v0"}, "Unbounded-v0: SAC needs bounded actions"),
    ("sac", {"env": "Huge-v0"}, "SAC needs bounded actions"),
    ("ppo", {"env": "Whole-v0"}, "Whole-v0: ppo needs actions of real numbers"),
    ("ppo", {"env": "FromOne-v0"}, "ppo needs actions numbered from 0"),
    ("ppo", {"env": "Idle-v0"}, "ppo needs at least one action"),
    ("dqn", {"env": "Entries-v0"}, "dqn needs Discrete actions"),
    ("dqn", {"env": "Pendulum-v1"}, "but they are Box(-2.0, 2.0, (1,), float32): use ppo or sac"),
    ("ppo", {"env": "Words-v0"}, "Box, Discrete, MultiBinary or MultiDiscrete actions, but they are Text("),
    ("dqn", {"env": "Later-v0"}, "dqn needs actions numbered from 0, but they are Discrete(2, start=1)"),
    ("sac", {"env": "Grid-v0"}, "sac needs actions that are vectors, but they are Box(-1.0, 1.0, (2, 2), float32)"),
    ("ppo", {"env": "Pair-v0"}, "Pair-v0: observations of Dict("),
    ("dqn", several("CartPole-v1,Acrobot-v1"), "equal spaces, but CartPole-v1 has vectors of 4 numbers and 2 actions"),
    ("sac", several("Strange-v0,Pendulum-v1"), "SAC has one network for all tasks and needs equal spaces"),
    (
        "sac", several("Strange-v0,Pendulum-v1", heads="one-hot"),
        "--heads one-hot needs as many observations and actions in all environments, but Strange-v0 has",
    ),
    ("sac", {"heads": "environment"}, "--heads environment needs 2 to 256 environments (--sequence)"),
    ("ppo", several("Column-v0,CartPole-v1"), PIXELS),
    ("ppo", {"env_kwargs": '{"colour": 3}'}, """--env-kwargs {"colour": 3}: CartPole-v1: making it"""),
    ("ppo", {"env_kwargs": "{"}, "--env-kwargs is not JSON"),
    ("ppo", {"env_kwargs": "[1]"}, "--env-kwargs must be a JSON object such as"),
    ("ppo", {"env_workers": 9}, "--num-envs (8) at most, got 9"),
    ("dqn", {"env_workers": 1, "sticky_per": "step"}, "--sticky-per step"),
    ("ppo", {"sticky": 0.0, "max_frames": 9}, "--sticky, --max-frames have no effect with environments"),
    # images
    ("ppo", {"env": "Column-v0", "encoder": "nature"}, "images of 6 × 6 pixels are too small for --encoder nature"),
    ("sac", {"env": "Images-v0", "encoder": "nature"}, "images of 8 × 8 pixels are too small for --encoder nature"),
    ("ppo", {"env": "Column-v0", "encoder": "minatar(channels=[8.5])"}, "channels[0] should be an integer"),
    ("ppo", {"env": "Column-v0", "adapter": 8}, "--adapter 8 is for vectors, and Column-v0 shows images of 6 × 6"),
    ("ppo", {"observations": "image"}, "CartPole-v1: --observations image needs images, but observations are"),
    ("ppo", {"encoder": "impala"}, "--encoder impala reads images, but CartPole-v1 is read as vectors"),
    # networks and learning
    ("ppo", {"init_lambda": float("nan")}, "--init-lambda must be a finite number, got nan"),
    ("dqn", {"hidden": (8, 0)}, "--hidden must be a positive number"),
    ("sac", {"activation": "relo"}, "relo"),
    ("sac", {"normalization": "spectral"}, "--normalization has no effect with --network simba"),
    ("sac", {"network": "crossq", "hidden": (64, 64)}, "--hidden has no effect with --network crossq"),
    ("sac", {"network": "mlp", "actor_width": 64, "critic_blocks": 1}, "--actor-width, --critic-blocks have no effect"),
    ("sac", {"network": "simba_v2"}, "--weight-decay is 0.01, but weights of --network simba_v2 keep their length"),
    ("sac", {"network": "crossq", "tau": 0.1}, "--tau has no effect with --network crossq"),
    ("dqn", {"adam_betas": (0.9, 1.0)}, "--adam-betas must lie in"),
    ("dqn", {"rmsprop_decay": 0.9}, "--rmsprop-decay has no effect with --optimizer adam"),
    ("dqn", {"optimizer": "rmsprop", "adam_epsilon": 1e-8}, "--adam-epsilon has no effect with --optimizer rmsprop"),
    ("dqn", {"critic_head": "categorical"}, "--critic-head categorical needs a range: give --value-range LOW HIGH, or"),
    ("dqn", {"value_range": (0.0, 1.0)}, "--value-range has no effect with --critic-head mse"),
    ("dqn", {"critic_head": "hl_gauss", "value_range": (1.0, 1.0)}, "the smaller one first, got 1.0 1.0"),
    ("dqn", {"critic_head": "hl_gauss", "scale_rewards": 5.0, "atoms": 1}, "--atoms must be 2 or more"),
    ("dqn", {"atoms": 7}, "--atoms has no effect with --critic-head mse"),
    ("dqn", {"critic_head": "quantile", "loss": "mse"}, "--loss mse needs single values, --critic-head mse"),
    ("dqn", {"critic_head": "quantile", "softmax_values": True}, "--softmax-values True needs single values"),
    ("sac", {"n_step": 1_001, "num_envs": 1}, "--n-step is 1001, but the replay memory has only 1000 steps"),
    ("dqn", {"n_step": 3, "replay_sampling": "reservoir"}, "--n-step 3 needs the steps after a transition"),
    ("dqn", {"max_grad_norm": -1.0}, "--max-grad-norm must be 0 or more"),
    ("sac", {"gamma": 1.5}, "--gamma must lie in [0, 1], got 1.5"),
    ("sac", {"replay_size": 100}, "--replay-size is 100, but must be at least --batch-size"),
    ("dqn", scheduled(schedule="linear", schedule_over="run", fresh=True), "--schedule-over run cannot be combined"),
    ("dqn", scheduled(schedule_over="run"), "--schedule-over run has no effect"),
    ("dqn", scheduled(min_rate=0.1), "--min-rate has no effect"),
    # steps, evaluations, devices
    ("sac", {"learning_starts": 500, "action_repeat": 2}, "--learning-starts is 500, but the agent has only 500"),
    ("sac", {"action_repeat": 3, "num_envs": 2}, "--steps is 1000, which is not a multiple of 6"),
    ("ppo", {"eval_tasks": "past", "eval_episodes": 0}, "--eval-tasks past needs evaluations: use --eval-episodes 5"),
    ("ppo", {"eval_episodes": -1}, "--eval-episodes must be 0 or more, got -1"),
    ("ppo", {"keep_at": (10, 10**7)}, "--keep-at 10000000: the run ends at step"),
    ("ppo", {"keep_best": True, "eval_episodes": 0}, "--keep-best: there are no evaluations"),
    (
        "ppo", several("inverted_pendulum,inverted_double_pendulum", keep_best=True),
        "--keep-best: returns in different environments",
    ),
    ("ppo", {"device": "cuda"}, "--device cuda: PyTorch finds no CUDA GPU here; use --device cpu"),
]  # fmt: skip


class Shown(gym.Env):
    """An environment with these spaces."""

    def __init__(self, name: str) -> None:
        self.observation_space, self.action_space = SPACES[name]


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    pictured.register()
    for name in SPACES:
        gym.register(f"{name}-v0", Shown, kwargs={"name": name})


@pytest.mark.parametrize(("kind", "changes", "line"), WRONG)
def test_what_cannot_work_is_refused_in_one_line(kind: str, changes: dict[str, Any], line: str, tmp_path: Path) -> None:
    if changes.get("device") == "cuda" and torch.cuda.is_available():
        pytest.skip("there is one")
    settings = find_kind(kind).settings_class()(**{**RIGHT[kind], **changes})
    with pytest.raises(UsageError) as error:
        prepare(RunSpec(kind, settings), tmp_path / "run", print).close()
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()
