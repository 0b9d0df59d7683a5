"""Run the code of SimBaV2 (DAVIAN-Robotics/SimbaV2, 86899c2) on the weights and batches of `common.py`.

    PYTHONPATH=.:SIMBAV2 python tests/agents/sac/authors/simba_v2.py

SIMBAV2 is a checkout. It ran with jax 0.4.35, flax 0.10.0, optax 0.2.3, tensorflow-probability 0.24.0. Its code stays
as it is. Around it, noise is given instead of drawn, and in float64 its distribution is made of such numbers.
"""

import math
import sys
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.traverse_util import flatten_dict, unflatten_dict

from tests.agents.sac.authors import common

jax.tree_map = jax.tree.map  # its name in the versions of jax that the code was written for
sys.modules["omegaconf"] = types.ModuleType("omegaconf")
vars(sys.modules["omegaconf"])["OmegaConf"] = None

from scale_rl.agents.jax_utils.network import Network  # noqa: E402
from scale_rl.agents.simbaV2 import simbaV2_layer, simbaV2_update  # noqa: E402
from scale_rl.agents.simbaV2.simbaV2_network import (  # noqa: E402
    SimbaV2Actor,
    SimbaV2DoubleCritic,
    SimbaV2Temperature,
)

noise: list[Any] = []


class Given(simbaV2_layer.tfd.MultivariateNormalDiag):
    """The normal distribution, with given noise as its draws."""

    def _call_sample_n(self, *ignored: Any, **others: Any) -> Any:
        return self.loc + self.scale.matvec(noise.pop(0))


simbaV2_layer.tfd = types.SimpleNamespace(**{**vars(simbaV2_layer.tfd), "MultivariateNormalDiag": Given})


def names_of(actor: bool, blocks: int) -> Iterator[tuple[str, str]]:
    """Yield our name and theirs of each parameter."""
    dense = "hyper_dense.kernel"
    yield from (("body.embed.weight", f"embedder.w.{dense}"), ("body.scaler.weight", "embedder.scaler.scaler"))
    for i in range(blocks):
        ours, theirs = f"body.blocks.{i}", f"encoder.layers_{i}"
        yield f"{ours}.wide.weight", f"{theirs}.mlp.w1.{dense}"
        yield f"{ours}.scaler.weight", f"{theirs}.mlp.scaler.scaler"
        yield f"{ours}.narrow.weight", f"{theirs}.mlp.w2.{dense}"
        yield f"{ours}.alpha.weight", f"{theirs}.alpha_scaler.scaler"
    for ours, theirs in (("mean", "mean_"), ("log_std", "std_")) if actor else (("head", ""),):
        yield f"{ours}.0.weight", f"predictor.{theirs}w1.{dense}"
        yield f"{ours}.1.weight", f"predictor.{theirs}scaler.scaler"
        yield f"{ours}.2.weight", f"predictor.{theirs}w2.{dense}"
        yield f"{ours}.2.bias", f"predictor.{theirs}bias" if actor else "predictor.value_bias"


def flat(network: Network, actor: bool) -> dict[str, np.ndarray]:
    """Return the parameters by our names, and as ours lie in memory."""
    theirs = flatten_dict(network.params if actor else network.params["VmapSimbaV2Critic_0"], sep=".")
    blocks = common.WIDTHS["actor_blocks" if actor else "critic_blocks"]
    names = dict(names_of(actor, blocks))
    assert {*names.values()} == {*theirs}
    return {o: np.asarray(theirs[t]).swapaxes(-1, -2 if "kernel" in t else -1) for o, t in names.items()}


def begin(network: Network, actor: bool) -> Network:
    """Return the network with the weights of the comparison, projected."""
    names = dict(names_of(actor, common.WIDTHS["actor_blocks" if actor else "critic_blocks"]))
    values = {}
    for ours, first in flat(network, actor).items():
        value = common.value_of(ours, first, 1 if actor else 2).astype(first.dtype)
        values[names[ours]] = jnp.asarray(value.swapaxes(-1, -2 if "kernel" in names[ours] else -1))
    params = unflatten_dict(values, sep=".")
    params = params if actor else {"VmapSimbaV2Critic_0": params}
    opt_state = network.tx.init(params) if network.tx else None
    return simbaV2_update.l2normalize_network(network.replace(params=params, opt_state=opt_state))


def run(dtype: Any, updates: int) -> dict[str, Any]:
    sizes = {}
    for name in ("actor", "critic"):
        width, blocks = common.WIDTHS[f"{name}_width"], common.WIDTHS[f"{name}_blocks"]
        scale = math.sqrt(2 / width)
        sizes[name] = {
            "num_blocks": blocks, "hidden_dim": width, "c_shift": 3.0, "scaler_init": scale, "scaler_scale": scale,
            "alpha_init": 1 / (blocks + 1), "alpha_scale": 1 / math.sqrt(width),
        }  # fmt: skip
    states, actions, key = jnp.zeros((1, common.D), dtype), jnp.zeros((1, common.A), dtype), jax.random.PRNGKey(0)
    as_dtype = partial(jax.tree.map, lambda x: x.astype(dtype))

    def network(definition: Any, adam: bool = True, **inputs: Any) -> Network:
        made = Network.create(definition, {"rngs": key, **inputs}, optax.adam(common.RATE) if adam else None)
        params = as_dtype(made.params)
        return made.replace(params=params, opt_state=made.tx.init(params) if adam else None)

    critics = SimbaV2DoubleCritic(
        **sizes["critic"], num_bins=common.ATOMS, min_v=common.RANGE[0], max_v=common.RANGE[1]
    )
    actor = begin(network(SimbaV2Actor(**sizes["actor"], action_dim=common.A), observations=states), True)
    critic = begin(network(critics, observations=states, actions=actions), False)
    target = begin(network(critics, False, observations=states, actions=actions), False)
    temperature = network(SimbaV2Temperature(common.START))
    temperature = temperature.replace(params={"log_temp": jnp.log(jnp.asarray(common.START, dtype))})
    losses = []
    for _, batch in zip(range(updates), common.batches(), strict=False):
        tensors = {name: jnp.asarray(value, dtype) for name, value in batch.items()}
        theirs = {
            "observation": tensors["states"], "action": tensors["actions"], "reward": tensors["rewards"],
            "next_observation": tensors["next_states"], "terminated": tensors["terminated"],
        }  # fmt: skip
        noise.append(tensors["noise"][:, 0])
        actor, of_actor = simbaV2_update.update_actor(key, actor, critic, temperature, theirs, True, 0.0)
        temperature, _ = simbaV2_update.update_temperature(
            temperature, of_actor["actor/entropy"], common.TARGET * common.A
        )
        noise.append(tensors["noise"][:, 1])
        critic, of_critic = simbaV2_update.update_critic(
            key, actor, critic, target, temperature, theirs, True, *common.RANGE, common.ATOMS, common.GAMMA, 1
        )
        target, _ = simbaV2_update.update_target_network(critic, target, common.TAU)
        assert not noise
        losses.append([float(of_actor["actor/loss"]), float(of_critic["critic/loss"])])
    networks = {"actor": actor, "critic": critic, "target": target}
    digests = {name: common.digest(flat(network, name == "actor")) for name, network in networks.items()}
    return {"losses": losses, "log_alpha": float(temperature.params["log_temp"]), **digests}


single = run(jnp.float32, 1)
jax.config.update("jax_enable_x64", True)
common.write("simba_v2", {"float32": single, "float64": run(jnp.float64, common.UPDATES)})
