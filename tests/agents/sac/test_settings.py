"""Environments and settings that SAC cannot work with."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from supple.agents.sac import SACSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import UsageError


class Strange(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)


class Unbounded(Strange):
    action_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)


class HalfBounded(Strange):
    action_space = gym.spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32))


class Images(Strange):
    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)


class Wider(Strange):
    action_space = gym.spaces.Box(-2, 2, (2,), np.float32)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> Iterator[None]:
    kinds = (Strange, Unbounded, HalfBounded, Images, Wider)
    for kind in kinds:
        gym.register(f"{kind.__name__}-v0", kind)
    yield
    for kind in kinds:
        del gym.registry[f"{kind.__name__}-v0"]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unbounded actions": ({"env": "Unbounded-v0"}, "Unbounded-v0: SAC needs bounded actions"),
    "half-bounded actions": ({"env": "HalfBounded-v0"}, "SAC needs bounded actions"),
    "too small images": (
        {"env": "Images-v0", "encoder": "nature"}, "images of 8 × 8 pixels are too small for --encoder nature"),
    "discrete actions": ({"env": "CartPole-v1"}, "CartPole-v1: sac needs Box actions, but they are Discrete(2): use"),
    "β of 1": ({"adam_betas": (1.0, 0.9)}, "--adam-betas must lie in [0, 1), got 1.0"),
    "another normalisation of SimBa": (
        {"normalization": "spectral"}, "--normalization spectral needs --network mlp"),
    "another size in a sequence": (
        {"env": None, "steps": None, "sequence": "Strange-v0,Pendulum-v1", "steps_per_task": 1_000},
        "SAC has one network for all tasks and needs equal spaces, but Strange-v0 has",
    ),
    "other bounds in a sequence": (
        {"env": None, "steps": None, "sequence": "Strange-v0,Wider-v0", "steps_per_task": 1_000},
        "SAC has one network for all tasks and needs equal spaces, but Strange-v0 has",
    ),
    "heads for other sizes": (
        {"env": None, "steps": None, "sequence": "Strange-v0,Pendulum-v1", "steps_per_task": 1_000, "heads": "one-hot"},
        "--heads one-hot needs as many observations and actions in all environments, but Strange-v0 has",
    ),
    "heads for one environment": (
        {"heads": "environment"},
        "--heads environment needs several environments (--sequence), but there is only Pendulum-v1",
    ),
    "nothing left to learn in": (
        {"learning_starts": 500, "action_repeat": 2}, "--learning-starts is 500, but the agent has only 500 decisions"),
    "no whole decision": ({"action_repeat": 3, "num_envs": 2}, "--steps is 1000, which is not a multiple of 6"),
    "no whole vector step": ({"num_envs": 3}, "--steps is 1000, which is not a multiple of --num-envs 3"),
    "no repeat": ({"action_repeat": 0}, "--action-repeat must be a positive number, got 0"),
    "no gradient step": ({"replay_ratio": 0.0}, "--replay-ratio must be a positive number, got 0"),
    "a batch larger than the memory": ({"replay_size": 100}, "--replay-size is 100, but must be at least --batch-size"),
    "no temperature": ({"temperature": 0.0}, "--temperature must be a positive number"),
    "a discount above 1": ({"gamma": 1.5}, "--gamma must lie in [0, 1], got 1.5"),
    "no layers": ({"hidden": ()}, "--hidden must be one width or more"),
    "an unknown activation": ({"activation": "relo"}, "relo"),
    "no GPU": ({"device": "cuda"}, "--device cuda: PyTorch finds no CUDA GPU here"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_settings_that_cannot_work_are_refused_in_one_line(case: str, tmp_path: Path) -> None:
    if case == "no GPU" and torch.cuda.is_available():
        pytest.skip("there is one")
    changes, line = WRONG[case]
    values = {"env": "Pendulum-v1", "steps": 1_000, "action_repeat": 1, "learning_starts": 100, "replay_size": 1_000}
    with pytest.raises(UsageError) as error:
        prepare(RunSpec("sac", SACSettings(**{**values, "device": "cpu", **changes})), tmp_path / "run").close()
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({}, False),  # SimBa with critics of 512
        ({"critic_width": 128}, True),
        ({"network": "mlp", "hidden": (64, 64)}, True),
        ({"network": "mlp", "hidden": (64, 256)}, False),
    ],
)
def test_seeds_with_small_networks_are_stacked_on_a_cpu(changes: dict[str, Any], worth: bool) -> None:
    settings = SACSettings(env="Pendulum-v1", steps=20_000, device="cpu", **changes)
    assert settings.group((0, 1, 2)) == (((0, 1, 2),) if worth else ((0,), (1,), (2,)))


def test_a_stack_that_draws_activations_for_each_seed_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.agents.offpolicy.settings.compile_problem", lambda: None)

    def resolved(activation: str, *seeds: int) -> tuple[str, str | None]:
        own: dict[str, Any] = {"env": "Pendulum-v1", "steps": 20_000, "device": "cpu", "compile": "on"}
        settings = SACSettings(**own, activation=activation, seeds=seeds)
        note = settings.resolve()
        return settings.compile, note

    assert resolved("rand_smooth_leaky", 0, 1) == (
        "off", "--activation rand_smooth_leaky draws for each seed of a stack: updates run in eager mode, slower",
    )  # fmt: skip
    assert resolved("rand_smooth_leaky")[0] == "on"
    assert resolved("relu", 0, 1)[0] == "on"
