"""Adapters around the Linear layers of any model, selected by name as in PEFT. All other parameters are frozen."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from supple.networks import chain
from supple.registry import bind, did_you_mean

from .base import Adapter, adapters_by_kind

Targets = str | Sequence[str]
ALL = "all-linear"
# Their forward passes read the weights of the Linear layers inside them, and would never call an adapter.
READERS = (nn.MultiheadAttention, nn.TransformerEncoderLayer)


def maker(kind: str, **params: Any) -> Callable[[nn.Linear], Adapter]:
    """Return the function that makes adapters of a kind: moram, seqlora, inclora, olora, moe_lora, external_router.

    Raises ValueError for an unknown kind or parameter, with similar names."""
    cls = adapters_by_kind.get(kind)
    bound = bind(cls, {"linear": None, **params}, kind)
    del bound["linear"]
    return lambda linear: cls(linear, **bound)


def wrap_moram(model: nn.Module, targets: Targets, **params: Any) -> list[str]:
    """Put MoRAM around the Linear layers that `targets` names, and freeze all other parameters (see `wrap`).

        wrap_moram(model, ["q_proj", "v_proj"], r=16, k=16)
        add_task(model)

    params: Those of `MoRAM`. Returns the names of the layers."""
    return wrap(model, targets, maker("moram", **params))


def wrap(model: nn.Module, targets: Targets, make: Callable[[nn.Linear], Adapter]) -> list[str]:
    """Put an adapter around every `nn.Linear` that `targets` names, and freeze the rest. Return the layers' names.

    targets: A list of names, each of which is the whole qualified name or its end after a dot. Or a regular expression
    for the whole name. Or "all-linear", which means all but the output head (`get_output_embeddings()` of a
    `transformers` model, otherwise the last Linear that is defined). This is PEFT's rule, except that each name of a
    list has to match a layer.

    Raises ValueError for a target without a Linear, for tied weights, for layers whose adapter
    would never be called, and for a model that has adapters. The model is then unchanged.
    """
    if adapters(model):
        raise ValueError(f"{type(model).__name__} has adapters already: unwrap(model) first")
    linears = _find_linears(model, targets)
    _check(model, linears)
    return insert_adapters(model, linears, lambda name: make(linears[name]))


def insert_adapters(model: nn.Module, names: Iterable[str], make: Callable[[str], Adapter]) -> list[str]:
    """Replace the Linear layers with these names by adapters, and freeze all other parameters. Return the names.

    Adapters freeze their layers when they are made. If one of them cannot be made, the others are unfrozen."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        by_layer = {name: make(name) for name in names}
    except BaseException:
        for parameter in trained:
            parameter.requires_grad_()
        raise
    model.requires_grad_(False)
    for name, adapter in by_layer.items():
        model.set_submodule(name, adapter)
        for parameter in adapter.parameters(recurse=False):
            parameter.requires_grad_(len(parameter) > 0)
    return list(by_layer)


def _find_linears(model: nn.Module, targets: Targets) -> dict[str, nn.Linear]:
    """Return the Linear layers that `targets` names, by their names in the order of definition (see `wrap`)."""
    head = _head(model) if targets == ALL else None
    inside = {name: module for name, module in model.named_modules() if name and module is not head}
    linears = {name: module for name, module in inside.items() if isinstance(module, nn.Linear)}
    if not linears:
        besides = "" if head is None else " besides its head"
        raise ValueError(f"{type(model).__name__} has no nn.Linear inside it to adapt{besides}")
    if targets == ALL:
        return linears
    patterns = {targets: targets} if isinstance(targets, str) else {t: rf"(.*\.)?{re.escape(t)}" for t in targets}
    chosen = {name for target, pattern in patterns.items() for name in _match(model, target, pattern, linears)}
    return {name: linear for name, linear in linears.items() if name in chosen}


def adapters(model: nn.Module) -> dict[str, Adapter]:
    """Return the adapters of a model by the names of their layers."""
    return {name: module for name, module in model.named_modules() if isinstance(module, Adapter)}


def add_task(model: nn.Module, generator: torch.Generator | None = None) -> None:
    """Begin a task in every adapter of a model, in order, with one generator.

    The parameters of the last task are frozen and new ones replace them, so make the optimizer after this call."""
    for adapter in require_adapters(model).values():
        adapter.add_task(generator)


def penalty(model: nn.Module) -> Tensor:
    """Return the sum of the adapters' penalties, which is added to the training loss, a scalar."""
    return torch.stack([adapter.penalty() for adapter in require_adapters(model).values()]).sum()


def unwrap(model: nn.Module) -> None:
    """Remove the adapters, so that the model computes what it did before. Its parameters stay frozen."""
    for name, adapter in require_adapters(model).items():
        model.set_submodule(name, adapter.linear)


def merge(model: nn.Module) -> None:
    """Add the adapters to the weights, and remove them.

    Raises ValueError if their weights depend on the input (see `Adapter.merge`). The model is then unchanged."""
    merged = require_adapters(model)
    for adapter in merged.values():
        if adapter.unmergeable:
            adapter.merge()
    for name, adapter in merged.items():
        model.set_submodule(name, adapter.merge())


def require_adapters(model: nn.Module) -> dict[str, Adapter]:
    """Return the adapters of a model. Raises ValueError if it has none."""
    if by_layer := adapters(model):
        return by_layer
    raise ValueError(f"{type(model).__name__} has no adapters: wrap(model, targets, …) first")


def _match(model: nn.Module, target: str, pattern: str, linears: Iterable[str]) -> set[str]:
    """Return the Linear layers whose names a target's pattern matches. Raises ValueError with similar ones if none."""
    try:
        fits = re.compile(pattern).fullmatch
    except re.error as error:
        raise ValueError(f"target {target!r} is no regular expression: {error}") from error
    others = {name: module for name, module in model.named_modules() if name and fits(name)}
    if matches := {name for name in linears if fits(name)}:
        return matches
    if others:
        name, module = next(iter(others.items()))
        raise ValueError(f"target {target!r} matches no nn.Linear: '{name}' is {type(module).__name__}")
    endings = list(dict.fromkeys(name.rpartition(".")[2] for name in linears))
    hint = did_you_mean(target.rpartition(".")[2], endings)
    if target in endings:  # a plain name given as a regular expression
        hint = f": a string is a regular expression for the whole name, the list [{target!r}] means its ending"
    raise ValueError(
        f"target {target!r} matches no nn.Linear of {type(model).__name__}{hint} (there are: {', '.join(endings)})"
    )


def _head(model: nn.Module) -> nn.Module | None:
    if callable(output := getattr(model, "get_output_embeddings", None)):
        head = output()
        return head if isinstance(head, nn.Module) else None
    return next((layer.module for layer in reversed(chain(model)) if isinstance(layer.module, nn.Linear)), None)


def _check(model: nn.Module, linears: Mapping[str, nn.Linear]) -> None:
    """Raise ValueError for a layer around which an adapter would not work as promised."""
    weights = list(model.named_parameters(remove_duplicate=False))
    for name, linear in linears.items():
        if others := [place for place, p in weights if p is linear.weight and place != f"{name}.weight"]:
            raise ValueError(
                f"'{name}' shares its weight with {others[0]}: an adapter would change one of its two uses alone"
            )
        parts = name.split(".")
        for depth in range(len(parts)):
            reader = model.get_submodule(".".join(parts[:depth]))
            if isinstance(reader, READERS):
                kind = type(reader).__name__
                raise ValueError(f"'{name}' cannot be adapted: nn.{kind} reads its weight and never calls it")
