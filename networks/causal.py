"""The learner of a model of `transformers`: its layers, units and features. Adapters of PEFT may be in it."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from .layers import Layer, Role
from .learner import Batches, Learner, Probe, no_batches
from .matrices import adapter_modules, is_transposed, parts_of
from .modules import CONV, LINEAR, is_activation
from .redraw import borrow_generators, redraw, redraw_by, seed_from

PARTS = {
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output",
    "gate_proj": "gate", "up_proj": "up", "down_proj": "down",
    "c_attn": "qkv", "attn.c_proj": "attn_proj", "c_fc": "fc", "mlp.c_proj": "mlp_proj",
}  # fmt: skip
BESIDE = ("key", "value", "up")  # parts at the depth of the one before them
NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f")  # what the last normalisation is called


def causal_layers(model: nn.Module) -> tuple[Layer, ...]:
    """Return a model's Linear and Conv layers in the order of their definition; all but the head are hidden.

    A convolution before the first Linear layer is the encoder. The head is `get_output_embeddings()`, or the last
    Linear layer of a model without (a classifier). Parts are query, key, value, output, gate, up, down and head, with
    GPT-2 qkv (three matrices in one), attn_proj, fc and mlp_proj; others have the model's names. An adapted layer and
    the factors of its adapter have one part and one depth. A tied head is also the embedding. Raises ValueError for a
    model without hidden layers.
    """
    factors, owners = adapter_modules(model), _owners(model)
    named = [(n, m) for n, m in model.named_modules() if isinstance(m, (*LINEAR, *CONV)) or is_transposed(m)]
    ask: Any = getattr(model, "get_output_embeddings", None)
    head = ask() if ask else None
    if head is None:
        head = next((m for _, m in reversed(named) if not isinstance(m, CONV)), nn.Identity())
    heads = set(head.modules())
    layers: list[Layer] = []
    depth, before = -1, ""
    for name, module in named:
        owner = owners.get(name, name)
        role: Role = "head" if module in heads else "hidden"
        if isinstance(module, CONV) and all(isinstance(layer.module, CONV) for layer in layers):
            role = "encoder"
        part = "head" if role == "head" else _part(owner)
        depth += part not in BESIDE and owner != before
        before = owner
        layers.append(Layer(name, module, role, depth, part, parts_of(name, module), module in factors))
    if not any(layer.role == "hidden" for layer in layers):
        raise ValueError(f"{type(model).__name__} has no Linear layers to intervene in")
    return tuple(layers)


def _part(name: str) -> str:
    *_, parent, word = ("", *name.split("."))
    return PARTS.get(f"{parent}.{word}", PARTS.get(word, word))


def _owners(model: nn.Module) -> dict[str, str]:
    """Return the names of modules in layers that PEFT has adapted or copied → the name of the layer."""
    owners: dict[str, str] = {}
    for name, module in model.named_modules():
        if hasattr(module, "adapter_layer_names") or isinstance(
            getattr(module, "modules_to_save", None), nn.ModuleDict
        ):
            for inner, _ in module.named_modules(prefix=name):
                owners.setdefault(inner, name)
    return owners


def causal_units(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the activations that are modules, which are those of the MLPs. There may be none."""
    return tuple(name for name, part in model.named_modules() if is_activation(part))


def causal_features(model: Any) -> str | None:
    """Return the name of the last normalisation, whose outputs the head reads; None if it has no known name."""
    inner: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
    prefix = getattr(inner, "base_model_prefix", "")
    names = {id(module): name for name, module in model.named_modules()}
    parts = dict(inner.named_modules())
    norms = [parts[name] for name in (f"{prefix}.{norm}" for norm in NORMS) if name in parts]
    return names[id(norms[0])] if norms else None


def causal_learner(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    *,
    probe: Probe,
    loss: Callable[[], Tensor],
    generator: torch.Generator,
    batches: Batches = no_batches,
    name: str = "model",
) -> Learner:
    """Return the learner of a model of transformers; call it before the first update.

    Units are the outputs of the MLPs' activations. In a gated MLP they are multiplied
    by another layer's outputs, so interventions on single units refuse them, and those of other models because they are
    not traced. A new draw (`redraw`) is that of transformers or PEFT, from the learner's generator. With adapters it is
    a draw of these alone, and the model under them stays as it is.

    Args:
        model: The model of transformers, with adapters of PEFT or without.
        optimizer: Its optimizer, or None.
        probe: As in `Learner`.
        loss: As in `Learner`.
        generator: The source of all draws of interventions.
        batches: As in `Learner`.
        name: The name of the model in messages and logs.
    """
    units = causal_units(model)
    return Learner(
        name,
        model,
        optimizer,
        causal_layers(model),
        units,
        probe=probe,
        loss=loss,
        generator=generator,
        redraw=lambda: _redraw(model, generator),
        batches=batches,
        unwired=dict.fromkeys(units, "lies in a model of transformers, which is not traced: name the wiring"),
        features=causal_features(model),
    )


def _redraw(model: nn.Module, generator: torch.Generator) -> dict[str, Tensor]:
    if hasattr(model, "peft_config"):
        return _redraw_adapters(model, generator)
    if not hasattr(model, "config"):
        return redraw(model, generator)
    return redraw_by(lambda: type(model)(model.config), generator)


def _redraw_adapters(model: Any, generator: torch.Generator) -> dict[str, Tensor]:
    """Return a new draw of the factors of LoRA. Raises ValueError for adapters that begin in another way."""
    fresh = copy.deepcopy(model).cpu()
    drawn: set[Tensor] = set()
    with borrow_generators(seed_from(generator)):
        for part in fresh.modules():
            for name in getattr(part, "lora_A", ()):
                begin = model.peft_config[name].init_lora_weights
                if begin not in (True, False, "gaussian"):
                    raise ValueError(f"adapters with init_lora_weights={begin!r} have no new draw")
                part.reset_lora_parameters(name, begin)
                drawn |= {*part.lora_A[name].parameters(), *part.lora_B[name].parameters()}
    if not drawn:
        raise ValueError(f"no new draw is known for the adapters of this {type(model).__name__}, which are not LoRA's")
    return {name: p.detach() for name, p in fresh.named_parameters() if p in drawn}
