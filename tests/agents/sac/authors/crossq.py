"""Run the code of CrossQ (adityab/CrossQ, a318a26) on the weights and batches of `common.py`.

    PYTHONPATH=.:CROSSQ python tests/agents/sac/authors/crossq.py

CROSSQ is a checkout. It ran with jax 0.4.35, flax 0.10.0, optax 0.2.3, tensorflow-probability 0.24.0. Its code stays as
it is, but its three updates are called in our order, actor first. Around it, noise is given instead of drawn, classes
of Stable-Baselines3, of which these updates use nothing, are empty, functions are not compiled, and in float64 the
first running averages are such numbers.
"""

import sys
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from flax.traverse_util import flatten_dict, unflatten_dict
from tensorflow_probability.substrates import jax as tfp

from tests.agents.sac.authors import common


class Empty(types.ModuleType):
    """A module of which any name is an empty class."""

    __path__ = ()

    def __getattr__(self, name: str) -> type:
        return type(name, (), {})


jax.random.KeyArray = Any  # a type of the versions of jax that the code was written for
for part in ("", ".common", *(f".common.{name}" for name in (
    "buffers", "noise", "off_policy_algorithm", "policies", "preprocessing", "type_aliases", "utils",
))):  # fmt: skip
    sys.modules[f"stable_baselines3{part}"] = Empty(f"stable_baselines3{part}")

from sbx.common.type_aliases import ActorTrainState, RLTrainState  # noqa: E402
from sbx.sac import policies, utils  # noqa: E402
from sbx.sac.sac import SAC, EntropyCoef  # noqa: E402

noise: list[Any] = []


class Given(tfp.distributions.MultivariateNormalDiag):
    """The normal distribution, with given noise as its draws."""

    def _call_sample_n(self, *ignored: Any, **others: Any) -> Any:
        return self.loc + self.scale.matvec(noise.pop(0))


policies.tfd = types.SimpleNamespace(**{**vars(tfp.distributions), "MultivariateNormalDiag": Given})


def names_of(actor: bool, layers: int) -> Iterator[tuple[str, str]]:
    """Yield our name and theirs of each layer."""
    yield "body.first_norm", "BatchRenorm_0"
    for i in range(layers):
        yield from ((f"body.layers.{i}.0", f"Dense_{i}"), (f"body.layers.{i}.2", f"BatchRenorm_{i + 1}"))
    yield from (
        (("mean", f"Dense_{layers}"), ("log_std", f"Dense_{layers + 1}")) if actor else (("head", f"Dense_{layers}"),)
    )


PARTS = {"kernel": "weight", "scale": "weight", "bias": "bias", "mean": "running_mean", "var": "running_var"}


def flat(tree: Any, actor: bool) -> dict[str, np.ndarray]:
    """Return parameters or averages by our names, and as ours lie in memory."""
    ours = {
        theirs: name for name, theirs in names_of(actor, common.WIDTHS["actor_blocks" if actor else "critic_blocks"])
    }
    found = {}
    for (*_, layer, part), value in flatten_dict(tree).items():
        if part in PARTS:
            found[f"{ours[layer]}.{PARTS[part]}"] = np.asarray(value).swapaxes(-1, -2 if part == "kernel" else -1)
    return found


def begin(params: Any, actor: bool, dtype: Any) -> Any:
    """Return the weights of the comparison."""
    ours = {
        theirs: name for name, theirs in names_of(actor, common.WIDTHS["actor_blocks" if actor else "critic_blocks"])
    }
    values = {}
    for key, first in flatten_dict(params).items():
        *_, layer, part = key
        turned = partial(np.swapaxes, axis1=-1, axis2=-2 if part == "kernel" else -1)
        value = common.value_of(f"{ours[layer]}.{PARTS[part]}", turned(np.asarray(first)), 1 if actor else 2)
        values[key] = jnp.asarray(turned(value), dtype)
    return unflatten_dict(values)


def averages(first: Any, dtype: Any) -> Any:
    """Return the first running averages, a few updates before batches are renormalised."""
    values = {key: jnp.asarray(value, dtype) for key, value in flatten_dict(first).items()}
    passes = {key: jnp.full_like(value, common.PASSES) for key, value in values.items() if key[-1] == "steps"}
    return unflatten_dict({**values, **passes})


def run(dtype: Any, updates: int) -> dict[str, Any]:
    sizes = {name: [common.WIDTHS[f"{name}_width"]] * common.WIDTHS[f"{name}_blocks"] for name in ("actor", "critic")}
    norm = {"use_batch_norm": True, "batch_norm_momentum": 0.99}
    actor_net = policies.Actor(sizes["actor"], common.A, bn_mode="brn_actor", **norm)
    critic_net = policies.VectorCritic(sizes["critic"], utils.ReLU, batch_norm_mode="brn_actor", **norm)
    states, actions, key = jnp.zeros((1, common.D)), jnp.zeros((1, common.A)), jax.random.PRNGKey(0)
    of_actor = actor_net.init(key, states, train=False)
    of_critic = critic_net.init(key, states, actions, train=False)
    adam = optax.adam(common.RATE, b1=common.CROSSQ_BETA)
    actor = ActorTrainState.create(
        apply_fn=actor_net.apply, params=begin(of_actor["params"], True, dtype), tx=adam,
        batch_stats=averages(of_actor["batch_stats"], dtype),
    )  # fmt: skip
    params = begin(of_critic["params"], False, dtype)
    critic = RLTrainState.create(
        apply_fn=critic_net.apply, params=params, target_params=params, tx=adam,
        batch_stats=averages(of_critic["batch_stats"], dtype), target_batch_stats=of_critic["batch_stats"],
    )  # fmt: skip
    temperature = TrainState.create(
        apply_fn=EntropyCoef().apply, params={"log_ent_coef": jnp.log(jnp.asarray(common.START, dtype))}, tx=adam
    )
    losses = []
    for _, batch in zip(range(updates), common.batches(), strict=False):
        tensors = {name: jnp.asarray(value, dtype) for name, value in batch.items()}
        noise.append(tensors["noise"][:, 0])
        actor, critic, actor_loss, key, entropy = SAC.update_actor(actor, critic, temperature, tensors["states"], key)
        temperature, _ = SAC.update_temperature(common.TARGET * common.A, temperature, entropy)
        noise.append(tensors["noise"][:, 1])
        critic, metrics, key = SAC.update_critic(
            True, False, False, common.GAMMA, actor, critic, temperature, tensors["states"], tensors["actions"],
            tensors["next_states"], tensors["rewards"], tensors["terminated"], key,
        )  # fmt: skip
        assert not noise
        losses.append([float(actor_loss), 2 * float(metrics["critic_loss"])])  # theirs has a factor of 1/2
    digests = {
        name: common.digest({**flat(state.params, name == "actor"), **flat(state.batch_stats, name == "actor")})
        for name, state in (("actor", actor), ("critic", critic))
    }
    return {"losses": losses, "log_alpha": float(temperature.params["log_ent_coef"]), **digests}


with jax.disable_jit():
    single = run(jnp.float32, 1)
    jax.config.update("jax_enable_x64", True)
    common.write("crossq", {"float32": single, "float64": run(jnp.float64, common.UPDATES)})
