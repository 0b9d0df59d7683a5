"""The learners of a Stable-Baselines3 model, for interventions and metrics."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.torch_layers import CombinedExtractor
from torch import Tensor, nn

from supple.engine.seeding import generator
from supple.interventions import (
    EndlessData,
    EntropyTemperature,
    Injectable,
    Injected,
    Layer,
    Learner,
    ReleasedCode,
    Wiring,
    chain,
    trace_wiring,
    unit_names,
)
from supple.networks.forward import unwrap
from supple.networks.learner import Probe

from .outputs import ActorCriticOutputs, DeterministicOutputs, SquashedOutputs
from .recent import LastRollout, Replay, actor_losses, critic_losses, on_policy_losses, preserve, q_losses

Path = tuple[str, ...]  # names of the submodules from the input to a head, in forward order


def learners_of(model: BaseAlgorithm) -> dict[str, Learner]:
    """Return the learners of a PPO, A2C, DQN, SAC, TD3 or DDPG model (or of a subclass), by name.

    Every trained parameter belongs to one learner. Target networks are followers. Probes and losses use a recent batch;
    before the first one, probes are None and losses raise RuntimeError. `initial` has the current parameters.

    Raises ValueError for other algorithms, and AttributeError for networks with another structure than SB3's.
    """
    builders: list[tuple[Any, Callable[[Any], list[Learner]]]] = [
        ((PPO, A2C), _on_policy), (DQN, _dqn), (SAC, _sac), (TD3, _td3),
    ]  # fmt: skip
    for kind, build in builders:
        if isinstance(model, kind):
            return {learner.name: learner for learner in build(model)}
    raise ValueError(
        f"supple does not support {type(model).__name__}: use PPO, A2C, DQN, SAC, TD3 or DDPG of Stable-Baselines3, or "
        "a subclass"
    )


def _on_policy(model: PPO | A2C) -> list[Learner]:
    recent = LastRollout(model)
    answering = ActorCriticOutputs(model, model.policy)
    value = "features_extractor" if model.policy.share_features_extractor else "vf_features_extractor"
    return [
        _learner(
            model,
            "policy",
            "",
            model.policy.optimizer,
            [
                ("features_extractor", "mlp_extractor.policy_net", "action_net"),
                (value, "mlp_extractor.value_net", "value_net"),
            ],
            probe=lambda: (batch := recent()) and (batch.observations, True),  # True: do not draw actions
            recent=recent,
            losses=lambda batch: on_policy_losses(model, batch),
            answers=answering.outputs,
            policy=answering.policy,
            values=lambda outputs: outputs[1],
        )
    ]


def _dqn(model: DQN) -> list[Learner]:
    recent = Replay(model)
    return [
        _learner(
            model,
            "q",
            "q_net",
            model.policy.optimizer,
            [("features_extractor", "q_net")],
            probe=lambda: (batch := recent()) and (batch.observations,),
            recent=recent,
            losses=lambda batch: q_losses(model, batch),
            followers=(model.q_net_target,),
            capabilities=(EndlessData(), Injectable("q_net"), ReleasedCode("dqn")),
            policy=lambda values, _: values.argmax(1),
            values=lambda values: values,
        )
    ]


def _sac(model: SAC) -> list[Learner]:
    heads = [head for head in ("mu", "log_std") if isinstance(getattr(model.actor, head), nn.Module)]  # not of gSDE
    actor = [("features_extractor", "latent_pi", head) for head in heads]
    answering = SquashedOutputs(model, model.actor)
    says = {"answers": answering.outputs, "policy": answering.policy}
    temperature = _temperature(model)
    offered = (ReleasedCode("sac"), *((EntropyTemperature(temperature),) if temperature else ()))
    return _actor_and_critic(model, actor, says, deterministic=(True,), capabilities=offered)


def _td3(model: TD3) -> list[Learner]:
    says = {"answers": DeterministicOutputs(model, model.actor).outputs}
    return _actor_and_critic(model, [("features_extractor", "mu")], says, actor_followers=(model.actor_target,))


def _actor_and_critic(
    model: SAC | TD3,
    actor: Sequence[Path],
    says: Mapping[str, Any],
    deterministic: tuple[bool, ...] = (),
    actor_followers: tuple[nn.Module, ...] = (),
    capabilities: tuple[object, ...] = (),
) -> list[Learner]:
    """says: the actor's `answers` and `policy`. deterministic: its arguments after the observations, for no draws."""
    if model.policy.share_features_extractor and any(True for _ in model.actor.features_extractor.parameters()):
        raise ValueError(
            f"actor and critic of this {type(model).__name__} share a features extractor, so neither can be reset "
            "alone: use policy_kwargs={'share_features_extractor': False}, SB3's default"
        )
    recent = Replay(model)
    both = {"capabilities": (EndlessData(), *capabilities)}
    return [
        _learner(
            model,
            "actor",
            "actor",
            model.actor.optimizer,
            actor,
            probe=lambda: (batch := recent()) and (batch.observations, *deterministic),
            recent=recent,
            losses=lambda batch: actor_losses(model, batch),
            followers=actor_followers,
            **says,
            **both,
        ),
        _learner(
            model,
            "critic",
            "critic",
            model.critic.optimizer,
            [("features_extractor", f"qf{i}") for i in range(model.critic.n_critics)],
            probe=lambda: (batch := recent()) and (batch.observations, batch.actions),
            recent=recent,
            losses=lambda batch: critic_losses(model, batch),
            followers=(model.critic_target,),
            values=lambda outputs: torch.cat(outputs, 1),
            **both,
        ),
    ]


def _learner(
    model: BaseAlgorithm,
    name: str,
    part: str,
    optimizer: torch.optim.Optimizer,
    paths: Sequence[Path],
    probe: Probe,
    recent: Replay | LastRollout,
    losses: Callable[[Any], Tensor],
    **more: Any,
) -> Learner:
    """part: the path of the learner's network in the model's policy. losses: returns the loss of each row, (n,)."""
    draws = generator(model.seed or 0, "interventions", name)
    module = unwrap(model.policy)[1].get_submodule(part)
    if any(isinstance(submodule, Injected) for submodule in module.modules()):
        raise ValueError(f"'{name}' already has plasticity injection: use the callback that made it")
    layers, units, wiring, unwired = anatomy(module, paths)

    def redraw() -> dict[str, Tensor]:
        fresh = fresh_policy(model, draws).get_submodule(part)
        return {name: parameter.detach() for name, parameter in fresh.named_parameters()}

    return Learner(
        name, module, optimizer, layers, units, probe, loss=lambda: losses(_require_batch(recent())).mean(),
        batches=lambda count: map(losses, recent.batches(count, draws)),
        generator=draws, redraw=redraw, wiring=wiring, unwired=unwired, **more,
    )  # fmt: skip


def anatomy(
    module: nn.Module, paths: Sequence[Path]
) -> tuple[tuple[Layer, ...], tuple[str, ...], dict[str, Wiring], dict[str, str]]:
    """Return the layers, units and wiring of a network, and its units without wiring with the reasons.

    Parallel layers have the same depth, and the parts of a `CombinedExtractor` are parallel.

    Args:
        module: The network.
        paths: The paths from the input to the heads, which may share modules.
    """
    layers: dict[str, Layer] = {}
    units: dict[str, None] = {}
    wiring: dict[str, Wiring] = {}
    unwired: dict[str, str] = {}
    for path in [(start, *rest) for first, *rest in paths for start in _parallel_parts(module, first)]:
        stack = nn.Sequential(*(module.get_submodule(part) for part in path))

        def full(name: str, path: Path = path) -> str:
            index, _, rest = name.partition(".")
            return f"{path[int(index)]}.{rest}" if rest else path[int(index)]

        for layer in chain(stack):
            layers.setdefault(full(layer.name), replace(layer, name=full(layer.name)))
        names = unit_names(stack)
        units |= dict.fromkeys(map(full, names))
        wires_of, reasons = trace_wiring(stack, names)
        unwired |= {full(unit): reason for unit, reason in reasons.items()}
        for unit, wires in wires_of.items():
            old = wiring.get(full(unit), Wiring((), ()))
            both = ((old.incoming, wires.incoming), (old.outgoing, wires.outgoing), (old.norms, wires.norms))
            wiring[full(unit)] = Wiring(*(tuple(dict.fromkeys((*a, *map(full, b)))) for a, b in both))
    in_order = sorted(layers.values(), key=lambda layer: layer.depth)
    wiring = {unit: wires for unit, wires in wiring.items() if unit not in unwired}
    return tuple(in_order), tuple(units), wiring, unwired


def _parallel_parts(module: nn.Module, name: str) -> list[str]:
    """Return the parts with weights of a `CombinedExtractor`. Other features extractors are a single part."""
    extractor = module.get_submodule(name)
    if not isinstance(extractor, CombinedExtractor):
        return [name]
    keys = [key for key, part in extractor.extractors.items() if any(True for _ in part.parameters())]
    return [f"{name}.extractors.{key}" for key in keys] or [name]


def fresh_policy(model: BaseAlgorithm, draws: torch.Generator) -> nn.Module:
    """Return a new policy as SB3 would initialise it, on the CPU, drawn only from `draws` (which advances by one)."""
    seed = int(torch.randint(2**62, (), generator=draws))
    on_policy = {"use_sde": model.use_sde} if isinstance(model, OnPolicyAlgorithm) else {}
    space = copy.deepcopy(model.observation_space)  # SB3's NatureCNN draws an observation from it
    with preserve(model):
        torch.default_generator.manual_seed(seed)
        return model.policy_class(space, model.action_space, model.lr_schedule, **on_policy, **model.policy_kwargs)


class SB3Temperature(nn.Module):
    """The temperature of SAC as a module with the parameter log α, (1,).

    SB3 has it as a bare tensor. The same tensor is the parameter here, because the optimizer's state belongs to it."""

    def __init__(self, log_alpha: Tensor) -> None:
        super().__init__()
        self.log_alpha = log_alpha

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        yield "log_alpha", self.log_alpha


def _temperature(model: SAC) -> Learner | None:
    """Return the learner of the temperature, or None if it is fixed."""
    if model.log_ent_coef is None:
        return None
    nothing: Mapping[str, Tensor] = {}
    return Learner(
        "temperature",
        SB3Temperature(model.log_ent_coef),
        model.ent_coef_optimizer,
        layers=(),
        units=(),
        probe=lambda: None,
        loss=lambda: torch.zeros(()),
        generator=generator(model.seed or 0, "interventions", "temperature"),
        redraw=lambda: nothing,
    )


def _require_batch(batch: Any) -> Any:
    if batch is None:
        raise RuntimeError("there is no recent batch before the first steps")
    return batch
