"""How optimizers start: the value of each slot of their state before the first step.

A reset writes these values into the state, so that the optimizer continues as a new one would begin. They are known for
the optimizers of `torch.optim` except `LBFGS`, for Stable-Baselines3's `RMSpropTFLike` and for the `Adafactor` of
transformers. Another optimizer states them in an attribute `slot_starts`, of its class or of the object.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

# A value, or a function of the parameter and of the settings of its group that returns one (also a tensor of its shape)
Start = float | Callable[[Tensor, Mapping[str, Any]], float | Tensor]
Starts = Mapping[str, Start]

COUNTERS = {"step", "mu_product", "eta", "mu"}  # of the whole tensor, and follow from the number of steps
# Averages over rows or columns of a matrix, of which single entries cannot be reset
FACTORED = {"row_var", "col_var", "exp_avg_sq_row", "exp_avg_sq_col"}


def _zeros(*slots: str) -> dict[str, Start]:
    return dict.fromkeys(slots, 0.0)


_ADAM = _zeros("step", "exp_avg", "exp_avg_sq")
_RMSPROP = _zeros("step", "square_avg", "momentum_buffer", "grad_avg")
_KNOWN: dict[type[torch.optim.Optimizer], Starts] = {
    torch.optim.Adadelta: _zeros("step", "square_avg", "acc_delta"),
    torch.optim.Adafactor: _zeros("step", "row_var", "col_var", "variance"),
    torch.optim.Adagrad: _zeros("step", "sum"),  # `sum` by `slot_starts`
    torch.optim.Adam: _ADAM | _zeros("max_exp_avg_sq"),
    torch.optim.AdamW: _ADAM | _zeros("max_exp_avg_sq"),
    torch.optim.Adamax: _zeros("step", "exp_avg", "exp_inf"),
    torch.optim.ASGD: _zeros("step", "ax") | {"eta": lambda parameter, group: group["lr"], "mu": 1.0},
    torch.optim.Muon: _zeros("momentum_buffer"),
    torch.optim.NAdam: _ADAM | {"mu_product": 1.0},
    torch.optim.RAdam: _ADAM,
    torch.optim.RMSprop: _RMSPROP,
    torch.optim.Rprop: _zeros("step", "prev") | {"step_size": lambda parameter, group: group["lr"]},
    torch.optim.SGD: _zeros("momentum_buffer"),
    torch.optim.SparseAdam: _ADAM,
}
_BY_NAME: dict[str, Starts] = {  # of packages that need not be installed
    "stable_baselines3.common.sb2_compat.rmsprop_tf_like.RMSpropTFLike": _RMSPROP | {"square_avg": 1.0},
    "transformers.optimization.Adafactor": _zeros(
        "step", "exp_avg", "exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq", "RMS"
    ),
}


def slot_starts(optimizer: torch.optim.Optimizer) -> Starts:
    """Return the values with which the slots of this optimizer's state start: slot → value.

    A subclass of a known optimizer starts as that one if it inherits its arithmetic.

    Raises:
        ValueError: It is not known how the optimizer starts. The message is one line and says what would work.
    """
    kind: Any = type(optimizer)
    if (declared := getattr(optimizer, "slot_starts", None)) is not None:
        return declared
    if (known := _known(kind)) is None:
        raise ValueError(
            f"the optimizer is {kind.__name__}, and how its state starts is not known: {_remedy(optimizer)}"
        )
    if isinstance(optimizer, torch.optim.SGD) and any(g["momentum"] and g["dampening"] for g in optimizer.param_groups):
        raise ValueError(
            f"the optimizer is {kind.__name__} with dampening, whose momentum starts at the first gradient, so it "
            "cannot be reset: use dampening=0"
        )
    if isinstance(optimizer, torch.optim.Adagrad):
        value = optimizer.defaults["initial_accumulator_value"]  # PyTorch ignores that of a group
        return {**known, "sum": value}
    return known


def _known(kind: Any) -> Starts | None:
    """Return how optimizers of this class start, or None if it is not known."""
    for base in kind.__mro__:
        starts = _KNOWN.get(base) or _BY_NAME.get(f"{base.__module__}.{base.__qualname__}")
        if starts is not None:
            # PyTorch wraps the step of every class, for its profiler
            inherits = inspect.unwrap(kind.step) is inspect.unwrap(base.step)
            own_start = getattr(kind, "_init_group", None) is not getattr(base, "_init_group", None)
            return starts if inherits and not own_start else None
    return None


def _remedy(optimizer: torch.optim.Optimizer) -> str:
    name = type(optimizer).__name__
    return (
        f"use one of torch.optim except LBFGS, such as AdamW, or declare {name}.slot_starts, a dict of all its slots "
        "and their start values"
    )


def check_slots(optimizer: torch.optim.Optimizer, slots: Mapping[str, Any], starts: Starts) -> None:
    """Raise ValueError if the state of a parameter, or a state of the whole optimizer, has a slot that is not known."""
    if slots.keys() <= starts.keys():
        return
    slot = next(slot for slot in slots if slot not in starts)
    raise ValueError(
        f"the optimizer is {type(optimizer).__name__}, and how its slot '{slot}' starts is not known: "
        f"{_remedy(optimizer)}"
    )


def write_start_(slots: dict[str, Any], slot: str, start: Any, where: Tensor | None = None) -> None:
    """Write a start value into a slot of an optimizer's state, into a tensor in place.

    Call it without gradients (`torch.no_grad`). A slot that is None is as at the start.

    Args:
        slots: The state of one parameter, by slot.
        slot: The slot to write.
        start: A number, or a tensor of the slot's shape.
        where: A boolean mask, broadcastable to the slot, of the entries to write. None: all entries.
    """
    value = slots[slot]
    if not isinstance(value, Tensor):
        slots[slot] = None if value is None else type(value)(start)
    elif isinstance(start, Tensor) and start.ndim:
        value.copy_(start if where is None else torch.where(where, start, value))
    elif where is not None:
        value.masked_fill_(where, start)
    else:
        value.fill_(start)
