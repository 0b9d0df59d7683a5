"""Recent data of a Stable-Baselines3 model, and its losses on them, without changing the run.

A run with measurements is equal to a run without, bit for bit. Random numbers are drawn from generators whose state is
restored afterwards. Networks are in evaluation mode meanwhile, as in the metrics of supple's own agents. Losses are
those of SB3's `train()`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3, HerReplayBuffer
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples, RolloutBufferSamples
from torch import Tensor
from torch.utils._pytree import tree_map

from supple.networks.unchanged import evaluating, keep_generators

ROWS = 256  # in the probe of metrics and ReDo


@contextmanager
def preserve(model: BaseAlgorithm) -> Iterator[None]:
    """Put a model's networks in evaluation mode, and restore everything that may change at the end of the context.

    This includes the global generators, from which SB3's buffers (NumPy) and policies (PyTorch) draw, the mode of every
    module and the noise of gSDE."""
    distributions = [part.action_dist for part in model.policy.modules() if hasattr(part, "action_dist")]
    noise = [dict(vars(distribution)) for distribution in distributions]
    try:
        with evaluating(model.policy), keep_generators(model.policy):
            yield
    finally:
        for distribution, values in zip(distributions, noise, strict=True):
            vars(distribution).update(values)


class Replay:
    """Transitions from the replay memory, drawn and normalised as in training. They stay fixed until the next step."""

    def __init__(self, model: OffPolicyAlgorithm) -> None:
        self.model = model
        self._kept: tuple[tuple[int, ...], ReplayBufferSamples] | None = None

    def _memory(self) -> ReplayBuffer | None:
        """Return the replay memory, or None if it has nothing to sample."""
        memory = self.model.replay_buffer
        if memory is None or not memory.size():
            return None
        if isinstance(memory, HerReplayBuffer) and not memory.ep_length.any():
            return None  # it only samples finished episodes
        return memory

    def batches(self, count: int | None, draws: torch.Generator) -> Iterator[ReplayBufferSamples]:
        """Return `count` batches as in training, but drawn by another generator."""
        if count is None:
            raise ValueError("a replay memory has no end, so there is no pass over it: give the number of batches")
        if (memory := self._memory()) is None:
            raise ValueError("the replay memory is still empty: schedule it later")
        return (self._sample(memory, draws) for _ in range(count))

    def _sample(self, memory: ReplayBuffer, draws: torch.Generator) -> ReplayBufferSamples:
        with preserve(self.model):
            np.random.seed(int(torch.randint(2**32, (), generator=draws)))  # noqa: NPY002
            return memory.sample(self.model.batch_size, env=self.model.get_vec_normalize_env())

    def __call__(self) -> ReplayBufferSamples | None:
        """Return `ROWS` transitions, or None before there are any."""
        model = self.model
        if (memory := self._memory()) is None:
            return None
        now = (id(memory), memory.pos, model.num_timesteps, model._n_updates)
        if self._kept is None or self._kept[0] != now:
            with preserve(model):
                self._kept = now, memory.sample(ROWS, env=model.get_vec_normalize_env())
        return self._kept[1]


class LastRollout:
    """Rows of the last full rollout.

    SB3 empties its buffer before the next rollout. So an instance must be called at the end of each rollout, and keeps
    the rows from then on."""

    def __init__(self, model: A2C | PPO) -> None:
        self.model = model
        self._kept: RolloutBufferSamples | None = None

    def batches(self, count: int | None, draws: torch.Generator) -> Iterator[RolloutBufferSamples]:
        """Yield `count` minibatches of these rows with the size of training, or one pass over them if None."""
        if (rows := self()) is None:
            raise ValueError("there is no batch before the first rollout: schedule it later")
        n = len(rows.returns)
        size = min(getattr(self.model, "batch_size", n), n)  # A2C has one batch
        parts = -(-n // size)  # the last one may be smaller
        for number in range(parts if count is None else count):
            if number % parts == 0:
                order = torch.randperm(n, generator=draws).split(size)
            chosen = order[number % parts]
            yield RolloutBufferSamples(*(tree_map(lambda values, rows=chosen: values[rows], part) for part in rows))

    def __call__(self) -> RolloutBufferSamples | None:
        """Return at most `ROWS` evenly spaced steps, or None before the first rollout."""
        buffer: Any = self.model.rollout_buffer
        if not buffer.full:
            return self._kept
        length, total = buffer.buffer_size, buffer.buffer_size * buffer.n_envs
        index = np.arange(0, total, -(-total // ROWS))
        # after an update, SB3's arrays (steps, envs, …) are flattened, one environment after the other
        rows = index if buffer.generator_ready else (index % length, index // length)
        self._kept = RolloutBufferSamples(
            tree_map(lambda values: buffer.to_torch(values[rows]), buffer.observations),
            buffer.to_torch(buffer.actions[rows].astype(np.float32)),
            *(
                buffer.to_torch(values[rows].flatten())
                for values in (buffer.values, buffer.log_probs, buffer.advantages, buffer.returns)
            ),
        )
        return self._kept


def on_policy_losses(model: A2C | PPO, batch: RolloutBufferSamples) -> Tensor:
    """Return the loss of each row, (n,), with policy, value and entropy terms.

    The policy term is PPO's clipped surrogate, or A2C's −A·log π."""
    discrete = isinstance(model.action_space, spaces.Discrete)
    actions = batch.actions.long().flatten() if discrete else batch.actions
    with preserve(model):
        values, log_probs, entropy = model.policy.evaluate_actions(batch.observations, actions)
    values, advantages = values.flatten(), batch.advantages
    if model.normalize_advantage and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    if isinstance(model, PPO):
        ratio = torch.exp(log_probs - batch.old_log_prob)
        clip = model.clip_range(model._current_progress_remaining)  # type: ignore[operator]
        gain = torch.min(advantages * ratio, advantages * ratio.clamp(1 - clip, 1 + clip))
        if model.clip_range_vf is not None:
            clip = model.clip_range_vf(model._current_progress_remaining)  # type: ignore[operator]
            values = batch.old_values + (values - batch.old_values).clamp(-clip, clip)
    else:
        gain = advantages * log_probs
    bonus = -log_probs if entropy is None else entropy
    return model.vf_coef * (values - batch.returns).square() - gain - model.ent_coef * bonus


def q_losses(model: DQN, batch: ReplayBufferSamples) -> Tensor:
    """Return DQN's Huber loss of each transition's temporal-difference error, (n,)."""
    with preserve(model):
        with torch.no_grad():
            following = model.q_net_target(batch.next_observations).amax(1, keepdim=True)
        values = model.q_net(batch.observations).gather(1, batch.actions.long())
    return F.smooth_l1_loss(values, _returns(model, batch, following), reduction="none").squeeze(1)


def critic_losses(model: SAC | TD3, batch: ReplayBufferSamples) -> Tensor:
    """Return the critics' loss of SAC, TD3 or DDPG for each transition, (n,).

    It is the sum over critics of the squared temporal-difference errors."""
    with preserve(model):
        with torch.no_grad():
            if isinstance(model, SAC):
                actions, log_probs = _act(model, batch.next_observations)
                bonus = -_temperature(model) * log_probs[:, None]
            else:
                noise = torch.randn_like(batch.actions) * model.target_policy_noise
                noise = noise.clamp(-model.target_noise_clip, model.target_noise_clip)
                actions = (model.actor_target(batch.next_observations) + noise).clamp(-1, 1)
                bonus = torch.zeros_like(batch.rewards)
            following = torch.cat(model.critic_target(batch.next_observations, actions), 1).amin(1, keepdim=True)
        values = model.critic(batch.observations, batch.actions)
    targets = _returns(model, batch, following + bonus)
    half = 0.5 if isinstance(model, SAC) else 1.0
    return half * torch.cat([(value - targets).square() for value in values], 1).sum(1)


def actor_losses(model: SAC | TD3, batch: ReplayBufferSamples) -> Tensor:
    """Return the actor's loss on each state, (n,): α·log π − min Q for SAC, −Q of the first critic for TD3 and DDPG."""
    with preserve(model):
        if isinstance(model, SAC):
            actions, log_probs = _act(model, batch.observations)
            values = torch.cat(model.critic(batch.observations, actions), 1).amin(1)
            return _temperature(model) * log_probs - values
        return -model.critic.q1_forward(batch.observations, model.actor(batch.observations)).squeeze(1)


def _act(model: SAC, observations: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions (n, actions) and their log-probabilities (n,)."""
    if model.use_sde:
        model.actor.reset_noise()  # as in every update of SB3, because the graph of the last noise was freed
    return model.actor.action_log_prob(observations)


def _temperature(model: SAC) -> Tensor:
    return model.ent_coef_tensor if model.log_ent_coef is None else model.log_ent_coef.detach().exp()


def _returns(model: OffPolicyAlgorithm, batch: ReplayBufferSamples, following: Tensor) -> Tensor:
    """Return r + γ·(1 − done)·following, (n, 1), with the discounts of the batch for n-step returns."""
    discounts = model.gamma if batch.discounts is None else batch.discounts
    return batch.rewards + (1 - batch.dones) * discounts * following
