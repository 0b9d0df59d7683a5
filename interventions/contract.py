"""The reset contract: what an intervention resets besides the weights it rewrites.

The code released with FIRE resets different things in each track. The DQN runs keep Adam's moments, but the SAC runs
discard them, which confounds the comparison of methods. Each intervention here therefore states its contract, and
reports print it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..networks.learner import Learner
from ..networks.parameters import copy_module_, restore_
from ..networks.wiring import CONV, LINEAR

Preset = Literal["uniform", "as_released"]

# Optimizers whose state does not start at zero.
_NOT_FROM_ZERO = (torch.optim.ASGD, torch.optim.LBFGS, torch.optim.NAdam, torch.optim.Rprop)


@dataclass(frozen=True)
class ResetContract:
    """The changes that a reset makes besides the rewritten weights.

    optimizer: `kept`; `zeroed` (state and step counters of the rewritten tensors, in place); `slots` (the same without
        step counters, and for weight matrices and kernels only); `fresh` (the state of every tensor of the learner, in
        place, which equals a new optimizer). If only some entries of a tensor were rewritten, only their state is
        zeroed. A step counter belongs to the whole tensor.
    target: Followers are `kept`; become a copy of the `online` network; undergo the `same` operation; or get the online
        network's values of the tensors that were `written`.
    temperature: `kept`, or returned to its `start` value with a fresh optimizer.
    weights, restore: A scope that overrides the intervention's; a scope that also returns to its step-0 values.
    Every contract keeps the replay memory, observation statistics and random generators.
    """

    optimizer: Literal["kept", "zeroed", "slots", "fresh"] = "zeroed"
    target: Literal["kept", "online", "same", "written"] = "online"
    temperature: Literal["kept", "start"] = "kept"
    weights: str | None = None
    restore: str | None = None

    def describe(self, scope: str, learner: Learner, own: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the contract as a table row, column name → words, without columns for parts that the learner lacks.

        own: columns for which an intervention supplies its own words.
        """
        weights = self.weights or scope
        if self.restore:
            weights += f"; {self.restore} back to step 0"
        terms = {
            "weights": weights,
            "optimizer state": {
                "kept": "kept",
                "zeroed": "zeroed in place for the tensors that were written",
                "slots": "slots zeroed in place for the weights that were written",
                "fresh": "fresh (every tensor)",
            }[self.optimizer],
            "target network": {
                "kept": "kept",
                "online": ":= online network",
                "same": "same operation applied to it",
                "written": "rewritten tensors := online network's",
            }[self.target],
            "temperature": {"kept": "kept", "start": "back to its start value"}[self.temperature],
            "replay, observation statistics, generators": "kept",
        }
        if frozen := learner.frozen():
            more = f" and {len(frozen) - 3} more" if len(frozen) > 3 else ""
            terms["frozen parameters"] = f"kept: {', '.join(frozen[:3])}{more}"
        has = {
            "optimizer state": learner.optimizer is not None,
            "target network": bool(learner.followers),
            "temperature": learner.temperature is not None,
        }
        return {term: own.get(term, words) for term, words in terms.items() if has.get(term, True)}


UNIFORM = ResetContract()

_DQN = ResetContract(optimizer="kept", target="same")
_SAC = ResetContract(optimizer="fresh", target="online", temperature="start")
# Read from released code, by (algorithm, intervention): FIRE's (isaac7778/FIRE, rl/dqn/cleanrl/dqn_atari_resume.py and
# rl/sac/scale_rl/agents/simba/simba_agent.py), and Dopamine's for redo. FIRE's DQN gives the target network the online
# network's new convolution weights and the linear layers of step 0; each network keeps its own convolution biases. Its
# injection makes a new optimizer. Dopamine's ReDo zeroes the slots of the weights it rewrote. It leaves the slots of
# biases, Adam's step count and the target network, which is updated at its next copy.
AS_RELEASED: dict[tuple[str, str], ResetContract] = {
    ("dqn", "fire"): ResetContract(optimizer="kept", target="written", weights="conv", restore="linear"),
    ("dqn", "snp"): ResetContract(optimizer="kept", target="same", weights="conv", restore="linear"),
    ("dqn", "reset"): _DQN,
    ("dqn", "injection"): ResetContract(optimizer="fresh", target="same"),
    ("dqn", "redo"): ResetContract(optimizer="slots", target="kept"),
    ("sac", "fire"): _SAC,
    ("sac", "snp"): _SAC,
    ("sac", "reset"): _SAC,
}


def contract_for(name: str, preset: str, algorithm: str) -> ResetContract:
    """Return the contract that a preset name stands for on this algorithm.

    Raises:
        ValueError: The preset is unknown, or it is `as_released` and no code was released for this combination.
    """
    if preset == "uniform":
        return UNIFORM
    if preset != "as_released":
        raise ValueError(f"unknown contract '{preset}' (known: uniform, as_released)")
    if (algorithm, name) not in AS_RELEASED:
        known = ", ".join(f"{i} on {a}" for a, i in AS_RELEASED)
        raise ValueError(f"no released code applies {name} here; use contract=uniform (released: {known})")
    return AS_RELEASED[algorithm, name]


def check_optimizer(optimizer: torch.optim.Optimizer | None) -> None:
    """Raise ValueError for an optimizer whose initial state is not zero."""
    if isinstance(optimizer, _NOT_FROM_ZERO):
        name = type(optimizer).__name__
        raise ValueError(f"the optimizer is {name}, whose state does not start at zero; use Adam or SGD, for example")


@torch.no_grad()
def zero_slots_(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor | None] | None = None,
    counters: bool = True,
) -> None:
    """Zero the optimizer's state of these parameters in place, as it was before its first step.

    Args:
        masks: For each parameter None, or a boolean mask (broadcastable to it) of the entries whose state is zeroed.
        counters: Whether step counters are zeroed too. A counter belongs to the whole tensor, so a mask does not
            restrict it. In a stack with one counter per member, (members,), a member's counter is zeroed if the mask
            contains any of its entries.

    Raises:
        ValueError: The optimizer is ASGD, LBFGS, NAdam or Rprop, whose state does not start at zero.
    """
    check_optimizer(optimizer)
    for parameter, mask in zip(parameters, masks or [None] * len(parameters), strict=True):
        slots = optimizer.state.get(parameter, {})
        for key, value in slots.items():
            counter = key == "step"
            if counter and not counters:
                continue
            if isinstance(value, (int, float)):
                slots[key] = type(value)(0)
            elif isinstance(value, Tensor):
                if mask is None or (counter and not value.ndim):
                    value.zero_()
                elif counter:
                    value.masked_fill_(mask.expand(parameter.shape).flatten(1).any(1), 0)
                elif value.shape == parameter.shape:
                    value.masked_fill_(mask, 0)


@torch.no_grad()
def settle(learner: Learner, written: Sequence[str], contract: ResetContract, masks: Mapping[str, Tensor] = {}) -> None:
    """Carry out the contract after the parameters named in `written` were rewritten.

    masks: name → mask of the rewritten entries of that parameter, as in `zero_slots_`; by default all entries.
    """
    named = dict(learner.module.named_parameters())
    if learner.optimizer is not None and contract.optimizer != "kept":
        zeroed = written
        if contract.optimizer == "fresh":
            zeroed, masks = list(named), {}
        elif contract.optimizer == "slots":
            modules = dict(learner.module.named_modules())
            owner_of = {name: modules[name.rpartition(".")[0]] for name in written}
            kinds = (*LINEAR, *CONV)
            zeroed = [name for name in written if isinstance(owner_of[name], kinds) and not name.endswith("bias")]
        parameters, where = [named[name] for name in zeroed], [masks.get(name) for name in zeroed]
        zero_slots_(learner.optimizer, parameters, where, counters=contract.optimizer != "slots")
    if contract.target == "online":
        for follower in learner.followers:
            copy_module_(follower, learner.module)
    if contract.target == "written":
        for follower in learner.followers:
            restore_(follower, {name: named[name] for name in written})
    if contract.temperature == "start" and (alpha := learner.temperature) is not None:
        for name, parameter in alpha.module.named_parameters():
            parameter.copy_(alpha.initial[name])
        if alpha.optimizer is not None:
            zero_slots_(alpha.optimizer, list(alpha.module.parameters()))
