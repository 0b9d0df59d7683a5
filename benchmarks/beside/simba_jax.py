"""The same update in JAX: one jitted function, plain `jax.numpy` and optax, float32; a contestant of `sac_speed`.

The critics are stacked and their forward pass is mapped over the members, as SimBa's released code does with
`nn.vmap`. State is donated, so that nothing is copied. Weights are stored as (…, d_in, d_out), as Flax stores them.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

from supple.agents.sac.agent import SAC
from supple.agents.sac.bodies import EPSILON
from supple.agents.sac.networks import LOG_2PI, LOG_STD
from supple.agents.sac.update import Transitions
from supple.interventions import Layer

jax.config.update("jax_default_matmul_precision", "float32")
Parameters = Mapping[str, jax.Array]


def parameters_of(module: torch.nn.Module, layers: Iterable[Layer]) -> dict[str, jax.Array]:
    """Return a copy of the parameters. The weights of layers are transposed: x @ W."""
    matrices = {f"{layer.name}.weight" for layer in layers}
    return {
        name: jnp.array((parameter.mT if name in matrices else parameter).detach().numpy())
        for name, parameter in module.named_parameters()
    }


def linear(p: Parameters, name: str, x: jax.Array) -> jax.Array:
    return x @ p[f"{name}.weight"] + p[f"{name}.bias"]


def norm(p: Parameters, name: str, x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    plain = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + EPSILON)
    return plain * p[f"{name}.weight"] + p[f"{name}.bias"]


def simba(p: Parameters, prefix: str, blocks: int, x: jax.Array) -> jax.Array:
    x = linear(p, f"{prefix}embed", x)
    for i in range(blocks):
        block = f"{prefix}blocks.{i}."
        inside = jax.nn.relu(linear(p, f"{block}wide", norm(p, f"{block}norm", x)))
        x = x + linear(p, f"{block}narrow", inside)
    return norm(p, f"{prefix}norm", x)


class JaxUpdate:
    """Starts from the weights of `agent`; a call takes one gradient step and returns what STATISTICS names."""

    def __init__(self, agent: SAC) -> None:
        s = self.settings = agent.settings
        self.target_entropy = agent.soft_update.target_entropy
        self.adamw = optax.adamw(s.learning_rate, weight_decay=s.weight_decay)
        self.adam = optax.adam(s.learning_rate)
        layers = agent.learners["critic"].layers
        actor = parameters_of(agent.actor, agent.learners["actor"].layers)
        critics, target = parameters_of(agent.critics, layers), parameters_of(agent.target, layers)
        log_alpha = jnp.log(jnp.float32(s.temperature))
        self.state: Any = (
            actor, critics, target, log_alpha,
            self.adamw.init(actor), self.adamw.init(critics), self.adam.init(log_alpha),
        )  # fmt: skip
        self.step = jax.jit(self._step, donate_argnums=0)

    def __call__(self, batch: Transitions, noise: torch.Tensor) -> np.ndarray:
        rows = tuple(tensor.numpy() for tensor in batch)
        self.state, statistics = self.step(self.state, rows, noise.numpy())
        return np.asarray(statistics)  # waits for it

    def _policy(self, actor: Parameters, states: jax.Array, noise: jax.Array) -> tuple[jax.Array, jax.Array]:
        features = simba(actor, "body.", self.settings.actor_blocks, states)
        low, high = LOG_STD
        log_std = low + 0.5 * (high - low) * (1 + jnp.tanh(linear(actor, "log_std", features)))
        u = linear(actor, "mean", features) + jnp.exp(log_std) * noise
        gaussian = -0.5 * jnp.square(noise) - log_std - 0.5 * LOG_2PI
        return jnp.tanh(u), (gaussian - 2 * (math.log(2) - u - jax.nn.softplus(-2 * u))).sum(-1)

    def _values(self, critics: Parameters, states: jax.Array, actions: jax.Array) -> jax.Array:
        """Return the values, (members, n)."""
        x = jnp.concatenate([states, actions], -1)

        def of_one(p: Parameters) -> jax.Array:
            return linear(p, "net.head", simba(p, "net.body.", self.settings.critic_blocks, x))[:, 0]

        return jax.vmap(of_one)(critics)

    def _step(self, state: Any, batch: Any, noise: jax.Array) -> tuple[Any, jax.Array]:
        actor, critics, target, log_alpha, actor_slots, critic_slots, alpha_slots = state
        states, actions, rewards, discounts, next_states = batch
        s = self.settings

        def actor_loss(actor: Parameters) -> tuple[jax.Array, jax.Array]:
            chosen, log_probs = self._policy(actor, states, noise[:, 0])
            values = self._values(critics, states, chosen).min(0)
            return (jnp.exp(log_alpha) * log_probs - values).mean(), -log_probs.mean()

        (loss, entropy), gradient = jax.value_and_grad(actor_loss, has_aux=True)(actor)
        change, actor_slots = self.adamw.update(gradient, actor_slots, actor)
        actor = optax.apply_updates(actor, change)

        gradient = jax.grad(lambda x: jnp.exp(x) * (entropy - self.target_entropy))(log_alpha)
        change, alpha_slots = self.adam.update(gradient, alpha_slots)
        log_alpha = optax.apply_updates(log_alpha, change)

        next_actions, log_probs = self._policy(actor, next_states, noise[:, 1])
        next_values = self._values(target, next_states, next_actions).min(0) - jnp.exp(log_alpha) * log_probs
        wanted = rewards + discounts * next_values

        def critic_loss(critics: Parameters) -> tuple[jax.Array, jax.Array]:
            values = self._values(critics, states, actions)
            return jnp.square(values - wanted).mean(1).sum(), values.mean()

        (error, value), gradient = jax.value_and_grad(critic_loss, has_aux=True)(critics)
        change, critic_slots = self.adamw.update(gradient, critic_slots, critics)
        critics = optax.apply_updates(critics, change)
        target = optax.incremental_update(critics, target, s.tau)
        state = actor, critics, target, log_alpha, actor_slots, critic_slots, alpha_slots
        return state, jnp.stack([loss, error, entropy, value, jnp.exp(log_alpha)])
