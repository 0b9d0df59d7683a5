"""Run the code of FlashSAC (Holiday-Robot/FlashSAC, 87edc90) on the weights and batches of `common.py`.

    PYTHONPATH=.:FLASHSAC TORCHDYNAMO_DISABLE=1 python tests/agents/sac/authors/flash.py

FLASHSAC is a checkout. Its code stays as it is. Around it, noise is given instead of drawn, and in float64, where it
rounds statistics to float32, this rounding is left out.
"""

import sys
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from tests.agents.sac.authors import common

for name in ("jax", "jax.numpy", "omegaconf"):  # of which one type and one function are imported, and not used here
    sys.modules[name] = types.ModuleType(name)
jnp, omegaconf = sys.modules["jax.numpy"], sys.modules["omegaconf"]
vars(sys.modules["jax"])["numpy"], vars(jnp)["ndarray"], vars(omegaconf)["OmegaConf"] = jnp, Tensor, None

from flash_rl.agents.flashSAC import update  # noqa: E402
from flash_rl.agents.flashSAC.network import FlashSACActor, FlashSACDoubleCritic, FlashSACTemperature  # noqa: E402
from flash_rl.agents.utils.network import Network  # noqa: E402


def names_of(actor: bool, blocks: int) -> Iterator[tuple[str, str]]:
    """Yield our name and theirs of each parameter."""
    linear = ".w.weight" if actor else ".weight"
    yield from (("body.first_norm.weight", "embedder.norm.weight"), ("body.first_norm.bias", "embedder.norm.bias"))
    yield "body.embed.weight", f"embedder.w{linear}"
    for i in range(blocks):
        for ours, theirs in (("wide", "1"), ("narrow", "2")):
            yield f"body.blocks.{i}.{ours}.weight", f"encoder.{i}.w{theirs}{linear}"
            for part in ("weight", "bias"):
                yield f"body.blocks.{i}.{ours}_norm.{part}", f"encoder.{i}.norm{theirs}.{part}"
    yield "body.norm.weight", "post_norm.weight"
    if actor:
        for ours, theirs in (("mean", "mean"), ("log_std", "std")):
            yield f"{ours}.weight", f"predictor.{theirs}_w.w.weight"
            yield f"{ours}.bias", f"predictor.{theirs}_bias"
    else:
        yield from (("head.weight", "predictor.w.weight"), ("head.bias", "predictor.bias"))


def run(dtype: torch.dtype, updates: int) -> dict[str, Any]:
    torch.set_default_dtype(dtype)
    noise: list[Tensor] = []
    torch.distributions.Normal.rsample = lambda self, shape=(): self.loc + self.scale * noise.pop(0)  # type: ignore
    blocks = {"actor": common.WIDTHS["actor_blocks"], "critic": common.WIDTHS["critic_blocks"]}
    nets = {
        "actor": FlashSACActor(blocks["actor"], common.D, common.WIDTHS["actor_width"], common.A),
        **{
            name: FlashSACDoubleCritic(
                blocks["critic"], common.D + common.A, common.WIDTHS["critic_width"], common.ATOMS, *common.RANGE
            )
            for name in ("critic", "target")
        },
    }
    names = {name: dict(names_of(name == "actor", blocks.get(name, blocks["critic"]))) for name in nets}
    for name, net in nets.items():
        net.to(dtype)
        parameters = dict(net.named_parameters())
        assert {*names[name].values()} == {*parameters}
        for ours, theirs in names[name].items():
            first = parameters[theirs].detach().numpy()
            parameters[theirs].data.copy_(torch.from_numpy(common.value_of(ours, first, 1 + (name != "actor"))))
    for name in ("critic", "target"):
        nets[name].predictor.bin_values.copy_(torch.linspace(*common.RANGE, common.ATOMS).view(1, 1, -1))
    adam = {name: torch.optim.Adam(nets[name].parameters(), lr=common.RATE) for name in ("actor", "critic")}
    actor, critic = (Network(nets[name], adam[name], use_weight_normalization=True) for name in adam)
    target = Network(nets["target"], use_weight_normalization=True, ema_source=critic, ema_tau=common.TAU)
    alpha = FlashSACTemperature().to(dtype)
    alpha.log_temp.data.fill_(common.START).log_()
    temperature = Network(alpha, torch.optim.Adam(alpha.parameters(), lr=common.RATE))
    for network in (actor, critic, target):
        network.normalize_parameters()
    losses = []
    for number, batch in zip(range(updates), common.batches(), strict=False):
        tensors = {key: torch.from_numpy(value).to(dtype) for key, value in batch.items()}
        theirs = {
            "observation": tensors["states"], "actor_observation": tensors["states"], "action": tensors["actions"],
            "next_observation": tensors["next_states"], "actor_next_observation": tensors["next_states"],
            "reward": tensors["rewards"], "terminated": tensors["terminated"],
        }  # fmt: skip
        others: dict[str, Any] = {"device": torch.device("cpu"), "use_amp": False, "grad_scaler": None}
        if number % 2 == 0:
            noise.append(torch.cat([tensors["noise"][:, 0], torch.zeros(common.N, common.A)]))
            of_actor = update.update_actor(actor, critic, temperature, theirs, bc_alpha=0.0, **others)
            update.update_temperature(temperature, of_actor["actor/entropy"], common.TARGET * common.A)
        noise.append(tensors["noise"][:, 1])
        of_critic = update.update_critic(
            actor,
            critic,
            target,
            temperature,
            theirs,
            *common.RANGE,
            num_bins=common.ATOMS,
            gamma=common.GAMMA,
            n_step=1,
            **others,
        )
        update.update_target_network(target)
        losses.append([of_actor["actor/loss"].item(), 2 * of_critic["critic/loss"].item()])  # theirs is the mean
    parameters = {name: dict(net.named_parameters()) for name, net in nets.items()}
    return {
        "losses": losses,
        "log_alpha": alpha.log_temp.item(),
        **{
            name: common.digest(
                {ours: parameters[name][theirs].detach().numpy() for ours, theirs in names[name].items()}
            )
            for name in nets
        },
    }


single = run(torch.float32, 1)
torch.Tensor.float = lambda self: self  # type: ignore
common.write("flash", {"float32": single, "float64": run(torch.float64, common.UPDATES)})
