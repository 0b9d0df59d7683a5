"""All that a learner goes on from, as a tree for `experiments.checkpoint`."""

from typing import Any

import torch
from torch import Tensor

from ..interventions import Learner, restructure


def learner_state(learner: Learner) -> dict[str, Any]:
    """Return architecture, parameters, followers, step-0 values, optimizer and generator; only slots are copied, since
    PPO's are views of one tensor, which a file cannot hold as such."""
    state: dict[str, Any] = {
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
    """Take up what `learner_state` gave, in a learner as it was built."""
    restructure(learner, state["changes"])
    learner.module.load_state_dict(state["module"])
    for follower, values in zip(learner.followers, state["followers"], strict=True):
        follower.load_state_dict(values)
    now = {name: parameter.detach() for name, parameter in learner.module.named_parameters()}
    learner.initial = _placed(state["initial"], now)
    learner.marked = _placed(state["marked"], now) if "marked" in state else None
    learner.generator.set_state(state["generator"])
    for source, draws in zip(learner.generators, state["generators"], strict=True):
        source.set_state(draws)
    if learner.optimizer is not None:
        _load_slots(learner.optimizer, state["optimizer"])


def _placed(values: dict[str, Tensor], like: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return values in the order in memory of the parameters of that name, in which norms are summed: in another one
    they differ in their last bits. One of no such parameter, any more, stays as it is."""
    fits = {n for n, v in values.items() if n in like and like[n].shape == v.shape}
    return {n: torch.empty_like(like[n]).copy_(v) if n in fits else v for n, v in values.items()}


def _load_slots(optimizer: torch.optim.Optimizer, state: dict[str, dict[str, Tensor]]) -> None:
    """The slots lie in memory as their parameters do, which the fused step takes for granted. Step counters have a
    shape of their own."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in state.items():
        parameter = parameters[int(index)]
        optimizer.state[parameter] = {
            key: torch.empty_like(parameter).copy_(value)
            if value.shape == parameter.shape
            else value.to(parameter.device)
            for key, value in values.items()
        }
