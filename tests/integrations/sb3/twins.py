"""Runs of SB3 with and without `SuppleCallback`, and everything in them that must be equal."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3

from supple.integrations.sb3 import SuppleCallback, learners_of
from supple.metrics import diagnose, trainability
from tests.envs.worlds import Toy

ALGORITHMS: dict[str, Any] = {kind.__name__: kind for kind in (PPO, A2C, DQN, SAC, TD3, DDPG)}
POLICIES = ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
IMAGE, VECTOR = spaces.Box(0, 255, (36, 36, 1), np.uint8), spaces.Box(-1, 1, (3,), np.float32)
SEEN: dict[str, spaces.Space] = {
    "MlpPolicy": VECTOR, "CnnPolicy": IMAGE, "MultiInputPolicy": spaces.Dict({"image": IMAGE, "vector": VECTOR})
}  # fmt: skip


def env_for(algorithm: str, policy: str, action_space: spaces.Space | None = None) -> Toy:
    if action_space is None:
        action_space = spaces.Discrete(3) if algorithm in ("PPO", "A2C", "DQN") else spaces.Box(-1, 1, (2,), np.float32)
    return Toy(SEEN[policy], action_space)


def model_of(algorithm: str, policy: str, action_space: spaces.Space | None = None, **more: Any) -> Any:
    """Return a model of SB3's default network."""
    env = env_for(algorithm, policy, action_space)
    return small(ALGORITHMS[algorithm], env, policy, policy_kwargs={"net_arch": None}, **more)


IDS = {kind: "CartPole-v1" if kind in (PPO, DQN) else "Pendulum-v1" for kind in ALGORITHMS.values()}


def small(kind: Any, env: Any = None, policy: str = "MlpPolicy", **settings: Any) -> Any:
    """Return a model of a small network, which learns from 16 steps on."""
    off_policy = {
        "learning_starts": 16, "train_freq": 8, "gradient_steps": 2, "batch_size": 16, "buffer_size": 200,
        **({"max_grad_norm": 10.0} if kind is DQN else {}),
    }  # fmt: skip
    own = {PPO: {"n_steps": 32, "batch_size": 16, "n_epochs": 2}, A2C: {"n_steps": 16}}.get(kind, off_policy)
    net = {"net_arch": [8, 8], **settings.pop("policy_kwargs", {})}
    return kind(policy, env or IDS[kind], policy_kwargs=net, seed=0, device="cpu", **(own | settings))


def tensors(tree: Any) -> list[torch.Tensor]:
    """Return all tensors in a tree, copied."""
    if isinstance(tree, torch.Tensor):
        return [tree.detach().clone()]
    branches = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, (list, tuple)) else ()
    return [tensor for branch in branches for tensor in tensors(branch)]


def optimizers_of(model: Any) -> list[torch.optim.Optimizer]:
    return [part.optimizer for part in model.policy.modules() if hasattr(part, "optimizer")]


def result(model: Any) -> list[torch.Tensor]:
    """Return the state after a run: weights, optimizers, generators, the last observation, gradients."""
    generators = torch.get_rng_state(), torch.as_tensor(np.random.get_state()[1])  # noqa: NPY002
    last = tensors(torch.utils._pytree.tree_map(torch.as_tensor, dict(enumerate([model._last_obs]))))
    gradients = [p.grad for p in model.policy.parameters() if p.grad is not None]
    return [*tensors(model.get_parameters()), *generators, *last, *tensors(gradients)]


def objects(model: Any) -> list[int]:
    """Return what must stay the same object: parameters by all their names, and those that optimizers step."""
    named = model.policy.named_parameters(remove_duplicate=False)
    steps = [p for optimizer in optimizers_of(model) for group in optimizer.param_groups for p in group["params"]]
    return [*(id(p) for _, p in named), *(id(p) for p in model.policy.buffers()), *map(id, steps)]


def assert_same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> None:
    assert len(ours) == len(theirs)
    assert all(map(torch.equal, ours, theirs))


def loaded(algorithm: str, policy: str, file: Path) -> Any:
    return ALGORITHMS[algorithm].load(file, env=env_for(algorithm, policy), device="cpu")


def require_unharmed(algorithm: str, policy: str, folder: Path) -> None:
    """Assert that measuring changes nothing of a run, nor of its continuation after saving and loading."""
    ends = []
    for callback in (None, SuppleCallback(measure_every=8)):
        model = model_of(algorithm, policy)
        before = objects(model)
        model.learn(32, callback=callback)
        assert objects(model) == before
        ends.append(result(model))
        model.save(folder / "model")
        model = loaded(algorithm, policy, folder / "model")
        ends.append(result(model.learn(32, callback=callback, reset_num_timesteps=False)))
    assert_same(ends[0], ends[2])
    assert_same(ends[1], ends[3])


def require_undisturbed(algorithm: str, policy: str) -> Any:
    """Assert that a diagnosis changes nothing of a model, which is returned."""
    model = model_of(algorithm, policy).learn(32)
    before, ids = result(model), objects(model)
    for learner in learners_of(model).values():
        fit = trainability(learner, updates=2)
        assert fit is not None
        assert 0 < float(fit.loss) < 1.5
        assert diagnose(learner, updates=3).now.units
    assert_same(result(model), before)
    assert objects(model) == ids
    return model
