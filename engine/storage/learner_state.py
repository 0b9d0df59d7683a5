"""The state of a learner, as a tree that `engine.storage.checkpoint` can save."""

from typing import Any

import torch
from torch import Tensor

from supple.interventions import Learner, restructure

from .append_only import Rows
from .restoring import require_like


def learner_state(learner: Learner) -> dict[str, Any]:
    """Return the architecture, parameters, followers, parameters at step 0, optimizer and generators of a learner.

    Only optimizer slots are copied: PPO's are views of one tensor, which a file cannot store as views.
    """
    state = {
        "changes": list(learner.changes),
        "module": dict(learner.module.state_dict()),
        "followers": [dict(follower.state_dict()) for follower in learner.followers],
        "initial": learner.initial,
        "generator": learner.generator.get_state(),
        "generators": [source.get_state() for source in learner.generators],
    }
    if learner.marked is not None:
        state["marked"] = learner.marked
    if learner.optimizer is not None:
        slots = learner.optimizer.state_dict()["state"]
        state["optimizer"] = {str(i): {key: value.clone() for key, value in v.items()} for i, v in slots.items()}
    return state


def load_learner_state(learner: Learner, state: dict[str, Any]) -> None:
    """Load a state from `learner_state` into a newly built learner.

    Raises:
        ValueError: A tensor has another shape or dtype than in the learner; the message names it.
    """
    restructure(learner, state["changes"])
    learner.module.load_state_dict(state["module"])
    for follower, values in zip(learner.followers, state["followers"], strict=True):
        follower.load_state_dict(values)
    now = {name: parameter.detach() for name, parameter in learner.module.named_parameters()}
    buffers = {name: buffer.device for name, buffer in learner.module.named_buffers()}
    initial = {name: value.to(buffers.get(name, value.device)) for name, value in state["initial"].items()}
    learner.initial = _placed(initial, now, f"initial of '{learner.name}'")
    # the shape of a parameter may have changed since it was marked: then it is not compared (`View.marked`)
    marked = state.get("marked", {})
    same = {name: now[name] for name, value in marked.items() if name in now and now[name].shape == value.shape}
    learner.marked = _placed(marked, same, f"marked of '{learner.name}'") if "marked" in state else None
    learner.generator.set_state(state["generator"])
    for source, draws in zip(learner.generators, state["generators"], strict=True):
        source.set_state(draws)
    if learner.optimizer is not None:
        _load_slots(learner.optimizer, state.get("optimizer", {}), learner.name)


def without_training(tree: Any) -> Any:
    """Return a state without what only more training needs: slots of optimizers, marks, and rows such as memories'."""
    if isinstance(tree, Rows):
        return Rows(0, 0, tree.read)
    if isinstance(tree, list):
        return list(map(without_training, tree))
    if not isinstance(tree, dict):
        return tree
    if {"module", "initial"} <= tree.keys():  # from `learner_state`
        return {name: value for name, value in tree.items() if name not in ("optimizer", "marked")}
    return {name: without_training(value) for name, value in tree.items()}


def _placed(values: dict[str, Tensor], like: dict[str, Tensor], what: str) -> dict[str, Tensor]:
    """Return copies of tensors with the memory layout of the parameters of the same names.

    Norms are summed in the order in memory, and in another order their last bits would differ. A tensor without such a
    parameter is returned unchanged.
    """
    return {
        n: torch.empty_like(like[n]).copy_(require_like(v, like[n], f"{what}.{n}")) if n in like else v
        for n, v in values.items()
    }


def _load_slots(optimizer: torch.optim.Optimizer, state: dict[str, dict[str, Tensor]], of: str) -> None:
    """Load the optimizer's slots, with the shapes and memory layouts of their parameters.

    The fused step does not check these, and would read beyond the end of a smaller tensor. Step counters have their own
    shape.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in state.items():
        parameter, what = parameters[int(index)], f"optimizer.{index} of '{of}'"
        networks = getattr(optimizer, "networks", 0)  # of one member of a stack, see `Adam`
        counter = torch.zeros(len(parameter) // networks if networks else ())
        optimizer.state[parameter] = {
            key: require_like(value, counter, f"{what}: {key}").to(parameter.device)
            if key == "step"
            else torch.empty_like(parameter).copy_(require_like(value, parameter.detach(), f"{what}: {key}"))
            for key, value in values.items()
        }
