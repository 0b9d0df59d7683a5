"""Calls of hooks' methods. Those of plug-ins are checked: what they raise, what they return, what they leave behind."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ...interventions import Hook, Intervention, Learner, interventions
from ...registry import OWN, calling, parse_call, summary
from ...registry.errors import RunError
from ..storage.checkpoint import require_savable

OWN_CALL = calling(Intervention, "intervention", "an intervention", "its method")


def calling_of(hook: Hook, moment: str, learner: Learner, *refusals: type[Exception]) -> calling:
    """Return the block in which a method of a hook's intervention is called for a learner."""
    if str(type(hook.intervention).__module__).partition(".")[0] == OWN:  # at every update: as fast as it can be
        return OWN_CALL
    return calling(hook.intervention, "hook", hook.text, f"{moment} on '{learner.name}'", refusals)


def penalty_of(hook: Hook, learner: Learner) -> Tensor:
    """Return a hook's loss term for a learner, ()."""
    if torch.compiler.is_compiling():  # which traces neither the messages nor what they compare
        return hook.intervention.penalty(learner)
    with calling_of(hook, "penalty", learner) as call:
        term = hook.intervention.penalty(learner)
        if call.owner:
            right = isinstance(term, Tensor) and term.ndim == 0 and term.is_floating_point()
            call.require(right, "a tensor with one real number", term)
    return term


def apply(hook: Hook, learner: Learner, where: str) -> list[str]:
    """Apply an intervention, and return the names of the parameters that it wrote. Raises RunError if it refuses."""
    before, structure = len(learner.changes), _structure(learner)
    try:  # a plug-in that refuses is named like all that it does
        with calling_of(hook, "apply", learner) as call:
            written = hook.intervention.apply(learner)
            if call.owner:
                known = dict(learner.module.named_parameters())
                right = isinstance(written, list) and all(isinstance(name, str) and name in known for name in written)
                call.require(right, "a list of the names of the parameters that it wrote", written)
                if len(learner.changes) == before and (changed := _first_difference(structure, _structure(learner))):
                    raise call.fault(
                        f"{call.call} changed {changed}, but not in place: write into the tensors that there are, or "
                        f"record the change in learner.changes (see `restructure`)"
                    )
                for change in learner.changes[before:]:
                    if not _is_call(change):
                        raise call.fault(
                            f"{call.call} recorded {summary(change)} in learner.changes, which is no call of an "
                            f"intervention, such as {hook.intervention.name!r}"
                        )
    except ValueError as error:  # such as a layer that is dead or has diverged: nothing was written
        raise RunError(f"{where}: {error}") from error
    return written


def _is_call(change: object) -> bool:
    """Return whether a text is a call of an intervention, by which `restructure` can repeat a change."""
    try:
        return isinstance(change, str) and parse_call(change).name in interventions.entries
    except ValueError:
        return False


def _structure(learner: Learner) -> dict[str, tuple[object, ...]]:
    """Return which tensors the learner's parameters are, with their shapes, and which are trained."""
    parts: dict[str, tuple[object, ...]] = {"its module": (learner.module,), "its optimizer": (learner.optimizer,)}
    buffers = {name: (buffer.shape, buffer.dtype) for name, buffer in learner.module.named_buffers()}
    parameters = learner.module.named_parameters()
    return parts | buffers | {name: (id(p), p.shape, p.dtype, p.requires_grad) for name, p in parameters}


def _first_difference(before: Mapping[str, object], after: Mapping[str, object]) -> str:
    return next((name for name in {**before, **after} if before.get(name) != after.get(name)), "")


def text_of(hook: Hook) -> str:
    """Return a hook's intervention as a text, for logs."""
    with calling(hook.intervention, "hook", hook.text, "__str__"):
        return str(hook.intervention)


def contract_of(hook: Hook, learner: Learner) -> dict[str, str]:
    """Return what a hook resets in a learner, in words."""
    with calling_of(hook, "contract", learner) as call:
        contract = hook.intervention.contract(learner)
        right = isinstance(contract, dict) and all(isinstance(text, str) for pair in contract.items() for text in pair)
        call.require(right, "a dictionary from texts to texts", contract)
    return contract


def numbers_of(hook: Hook, learner: Learner) -> dict[str, Tensor]:
    """Return a hook's own statistics on a learner: name → a tensor, (), or (members,) or (seeds,) for a stack."""
    with calling_of(hook, "numbers", learner) as call:
        numbers = hook.intervention.numbers(learner)
        if call.owner:
            shapes = ((), (learner.members,), (learner.seeds,))
            right = isinstance(numbers, dict) and all(
                isinstance(name, str) and isinstance(value, Tensor) and not value.is_complex()
                and (value.shape in shapes or (value.ndim == 1 and not learner.members))
                for name, value in numbers.items()
            )  # fmt: skip
            wanted = "a dictionary from texts to tensors of a real number, or of one for each member"
            call.require(right, wanted, numbers)
            numbers = {name: value.detach() for name, value in numbers.items()}
    return numbers


def state_of(hook: Hook) -> dict[str, Any]:
    """Return the state of a hook, which a checkpoint can hold."""
    with calling(hook.intervention, "hook", hook.text, "state_dict") as call:
        state = hook.state_dict()
        if call.owner:
            call.require(isinstance(state["intervention"], dict), "a dictionary", state["intervention"])
            require_savable(state)
    return state


def load_state(hook: Hook, state: dict[str, Any]) -> None:
    """Load the state of a hook's intervention."""
    with calling(hook.intervention, "hook", hook.text, "load_state_dict"):
        hook.intervention.load_state_dict(state)
