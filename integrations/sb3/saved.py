"""Learners of a model that Stable-Baselines3 saved. Only the weights are read, and no pickle is loaded."""

import copy
import io
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.vec_env import VecEnv

from supple.interventions import Learner
from supple.networks.state_dicts import bare_name, fit_state
from supple.registry import describe_unknown, one_line

from .learners import learners_of

ALGORITHMS: dict[str, type[BaseAlgorithm]] = {a.__name__: a for a in (A2C, DDPG, DQN, PPO, SAC, TD3)}
WEIGHTS = "policy.pth"


def learners_of_saved(
    file: Path, algorithm: str, env: str, policy: str = "MlpPolicy", steps: int = 1000, **settings: Any
) -> dict[str, Learner]:
    """Return the learners of a saved model, with data from steps of the model in the environment.

    `initial` has the parameters of a new network, because the file does not contain the initial ones. Observations are
    not normalised, so the inputs of a model that was trained with `VecNormalize` differ from those in training.

    Args:
        file: The saved model.
        algorithm: PPO, A2C, DQN, SAC, TD3 or DDPG.
        env: The Gymnasium id of the environment.
        policy: The policy with which the model was made. It is not read from the file.
        steps: The number of environment steps.
        settings: Further arguments with which the model was made, such as policy_kwargs. They are not read either,
            except for `use_sde`.

    Raises:
        ValueError: The algorithm is unknown, the environment cannot be made, the file is not one of SB3's, the
            weights do not fit, or the model cannot act in the environment; in one line.
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(describe_unknown("algorithm", algorithm, ALGORITHMS))
    weights, kind = _read_weights(file), ALGORITHMS[algorithm]
    settings = copy.deepcopy(settings)  # SB3 writes into them
    if any(weights[name].ndim == 2 for name in ("log_std", "actor.log_std") if name in weights):
        settings.setdefault("use_sde", True)
    memory = {"n_steps": steps} if issubclass(kind, OnPolicyAlgorithm) else {"buffer_size": steps}
    if kind is PPO:
        memory["batch_size"] = steps  # it never learns, but SB3 would warn of minibatches that do not fit
    try:
        model = kind(policy, gym.make(env), device="cpu", seed=0, **memory | settings)
    except Exception as error:  # of the environment, or of a features extractor of the user
        raise ValueError(f"{algorithm} with {policy} on {env} cannot be made: {one_line(error)}") from error
    learners = learners_of(model)
    try:
        fitting = fit_state(weights, model.policy, "the file")
    except ValueError as error:
        reason = str(error).partition(": ")[2] or str(error)
        raise ValueError(f"{file}: its weights do not fit {algorithm} with {policy}: {reason}") from error
    model.policy.load_state_dict(fitting, strict=False)  # counters of batches may be missing
    try:
        _collect(model, steps)
    except Exception as error:
        raise ValueError(f"{file}: {algorithm} with {policy} cannot act in {env}: {one_line(error)}") from error
    return learners


def _read_weights(file: Path) -> dict[str, torch.Tensor]:
    """Return the parameters and buffers in a file."""
    try:
        with zipfile.ZipFile(file) as archive:
            stored = io.BytesIO(archive.read(WEIGHTS))
        weights = torch.load(stored, map_location="cpu", weights_only=True)  # noqa: TID251
        if flawed := [name for name, value in weights.items() if not value.isfinite().all()]:
            raise ValueError(f"'{flawed[0]}' in it has NaN or infinity")
        return {bare_name(name): value for name, value in weights.items()}
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror or error}") from error
    except Exception as error:  # for pickles with more than tensors, and for other files
        why = f"{WEIGHTS} in it is no file of finite weights ({one_line(error)})"
        raise ValueError(f"{file} is not a model of Stable-Baselines3: {why}") from error


def _collect(model: BaseAlgorithm, steps: int) -> None:
    """Let the model act, and store the transitions as in training, without training."""
    _, callback = model._setup_learn(steps)
    env = model.env
    assert isinstance(env, VecEnv)
    callback.on_training_start(locals(), globals())
    if isinstance(model, OnPolicyAlgorithm):
        model.collect_rollouts(env, callback, model.rollout_buffer, model.n_steps)
    elif isinstance(model, OffPolicyAlgorithm):
        assert model.replay_buffer is not None
        if isinstance(model, DQN):
            model.exploration_rate = model.exploration_final_eps
        frequency = TrainFreq(steps, TrainFrequencyUnit.STEP)
        model.collect_rollouts(env, callback, frequency, model.replay_buffer, learning_starts=0)
