"""The learner of a causal language model of `transformers`: its layers, units and features."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .capabilities import no_batches
from .layers import Layer
from .learner import Learner

PARTS = {
    "q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "output",
    "gate_proj": "gate", "up_proj": "up", "down_proj": "down",
}  # fmt: skip
BESIDE = ("key", "value", "up")  # parts at the depth of the one before them
NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f")  # what the last normalisation is called
UNITS = ("act_fn", "act")  # what the activation of an MLP is called


def causal_layers(model: nn.Module) -> tuple[Layer, ...]:
    """Return a model's Linear layers in forward order; all but the head are hidden.

    Parts are query, key, value, output, gate, up, down and head; others have the model's names. A tied head is also the
    embedding. Raises ValueError for a model without Linear layers (GPT-2 has another kind).
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    found: list[Layer] = []
    depth = -1
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear):
            word = name.rpartition(".")[2]
            part = "head" if module is head else PARTS.get(word, word)
            depth += part not in BESIDE
            found.append(Layer(name, module, "head" if module is head else "hidden", depth, part))
    if not any(layer.role == "hidden" for layer in found):
        raise ValueError(f"{type(model).__name__} has no Linear layers to intervene in")
    return tuple(found)


def causal_units(model: nn.Module) -> tuple[str, ...]:
    """Return the names of the activations of the model's MLPs. Raises ValueError if none of them is a module."""
    units = tuple(name for name, _ in model.named_modules() if name.rpartition(".")[2] in UNITS)
    if not units:
        raise ValueError(f"{type(model).__name__} has no activations to measure that are modules ({', '.join(UNITS)})")
    return units


def causal_features(model: nn.Module) -> str | None:
    """Return the name of the last normalisation, whose outputs the head reads; None if it has no known name."""
    prefix = getattr(model, "base_model_prefix", "")
    names = dict(model.named_modules())
    return next((name for norm in NORMS if (name := f"{prefix}.{norm}") in names), None)


def causal_learner(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    *,
    probe: Callable[[], Sequence[Any] | None],
    loss: Callable[[], Tensor],
    generator: torch.Generator,
    batches: Callable[[int | None], Iterator[Tensor]] = no_batches,
    retain: Callable[[], Tensor] | None = None,
    name: str = "model",
) -> Learner:
    """Return the learner of a causal language model; call it before the first update.

    Arguments are those of `Learner`. Units are the outputs of the MLPs' activations. In a gated MLP they are multiplied
    by another layer's outputs, so interventions on single units refuse them. A new draw (`redraw`) is that of
    transformers, from the learner's generator.
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
        retain=retain,
        unwired=dict.fromkeys(units, "lies in a gated MLP, where the outputs of another layer multiply it"),
        features=causal_features(model),
    )


def _redraw(model: nn.Module, generator: torch.Generator) -> dict[str, Tensor]:
    seed = int(torch.randint(2**62, (), generator=generator))
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        fresh = type(model)(model.config)
    return {name: p.detach() for name, p in fresh.named_parameters()}
