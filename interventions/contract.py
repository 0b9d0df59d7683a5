"""The reset contract: what an intervention resets besides the weights it rewrites.

The code released with FIRE resets different things in each track. The DQN runs keep Adam's moments, but the SAC runs
discard them, which confounds the comparison of methods. Each intervention here therefore states its contract, and
reports print it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from supple.networks import Learner, copy_module_, restore_
from supple.networks.modules import CONV, LINEAR
from supple.networks.optimizer_state import COUNTERS, FACTORED, check_slots, slot_starts, write_start_
from supple.networks.optimizers import unwrap_optimizer
from supple.networks.unit_vectors import project_, projected

Preset = Literal["uniform", "as_released"]
KEPT_DATA = "replay, observation statistics, generators"  # the heading of what every reset keeps


@dataclass(frozen=True)
class ReleasedCode:
    """A capability: the algorithm, "dqn" or "sac", for which code with reset contracts was released."""

    algorithm: str


@dataclass(frozen=True)
class EntropyTemperature:
    """A capability of SAC's networks: the learner of the entropy temperature, which some contracts reset too."""

    learner: Learner


@dataclass(frozen=True)
class ResetContract:
    """The changes that a reset makes besides the rewritten weights.

    Every contract keeps the replay memory, observation statistics and random generators. Weight vectors whose length
    the network fixes (SimBaV2, FlashSAC) get it back, because what an intervention writes has another one. Scalers and
    interpolation weights beside them are gains: an intervention writes them if it writes those of normalisations.

    Attributes:
        optimizer: `kept`; `zeroed` (state and step counters of the rewritten tensors, in place); `slots` (the same
            without step counters, and for weight matrices and kernels only); `fresh` (the state of every tensor of the
            learner, in place, which equals a new optimizer). If only some entries of a tensor were rewritten, only
            their state is zeroed. A step counter belongs to the whole tensor.
        target: Followers are `kept`; become a copy of the `online` network; undergo the `same` operation; or get the
            online network's values of the tensors that were `written`.
        temperature: `kept`, or returned to its `start` value with a fresh optimizer.
        weights: A scope that overrides the intervention's.
        restore: A scope that also returns to its step-0 values.
    """

    optimizer: Literal["kept", "zeroed", "slots", "fresh"] = "zeroed"
    target: Literal["kept", "online", "same", "written"] = "online"
    temperature: Literal["kept", "start"] = "kept"
    weights: str | None = None
    restore: str | None = None

    def describe(self, scope: str, learner: Learner, columns: Mapping[str, str] = {}) -> dict[str, str]:
        """Return the contract as a table row, column name → text, without columns for parts that the learner lacks.

        Args:
            scope: The weights that are rewritten, unless the contract overrides them.
            learner: The learner.
            columns: Those for which an intervention supplies its own text.
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
            KEPT_DATA: "kept",
        }
        if projected(learner.module):
            terms["weights of fixed length"] = "projected to their length afterwards"
        if frozen := learner.frozen():
            more = f" and {len(frozen) - 3} more" if len(frozen) > 3 else ""
            terms["frozen parameters"] = f"kept: {', '.join(frozen[:3])}{more}"
        has = {
            "optimizer state": learner.optimizer is not None,
            "target network": bool(learner.followers),
            "temperature": learner.offers(EntropyTemperature) is not None,
        }
        return {name: columns.get(name, text) for name, text in terms.items() if has.get(name, True)}


UNIFORM = ResetContract()


def reached_by(learner: Learner) -> list[Learner]:
    """Return the learners that an intervention on this one may write: itself, and what contracts reset besides."""
    temperature = learner.offers(EntropyTemperature)
    return [learner, *([temperature.learner] if temperature else [])]


_SAC = ResetContract(optimizer="fresh", target="online", temperature="start")
# Read from released code, by (algorithm, intervention): FIRE's (isaac7778/FIRE, rl/dqn/cleanrl/dqn_atari_resume.py and
# rl/sac/scale_rl/agents/simba/simba_agent.py), and Dopamine's for redo. FIRE's DQN gives the target network the online
# network's new convolution weights and the linear layers of step 0; each network keeps its own convolution biases. Its
# injection makes a new optimizer. Dopamine's ReDo zeroes the slots of the weights it rewrote. It leaves the slots of
# biases, Adam's step count and the target network, which is updated at its next copy.
AS_RELEASED: dict[tuple[str, str], ResetContract] = {
    ("dqn", "fire"): ResetContract(optimizer="kept", target="written", weights="conv", restore="linear"),
    ("dqn", "snp"): ResetContract(optimizer="kept", target="same", weights="conv", restore="linear"),
    ("dqn", "reset"): ResetContract(optimizer="kept", target="same"),
    ("dqn", "injection"): ResetContract(optimizer="fresh", target="same"),
    ("dqn", "redo"): ResetContract(optimizer="slots", target="kept"),
    ("sac", "fire"): _SAC,
    ("sac", "snp"): _SAC,
    ("sac", "reset"): _SAC,
}


def contract_for(name: str, preset: str, learner: Learner) -> ResetContract:
    """Return the contract that a preset name stands for, for an intervention on this learner.

    Raises:
        ValueError: The preset is unknown, or it is `as_released` and no code was released for this combination.
    """
    if preset == "uniform":
        return UNIFORM
    if preset != "as_released":
        raise ValueError(f"unknown contract '{preset}' (known: uniform, as_released)")
    code = learner.offers(ReleasedCode)
    if code is None or (code.algorithm, name) not in AS_RELEASED:
        known = ", ".join(f"{i} on {a}" for a, i in AS_RELEASED)
        raise ValueError(f"no released code applies {name} here; use contract=uniform (released: {known})")
    return AS_RELEASED[code.algorithm, name]


def check_optimizer(optimizer: torch.optim.Optimizer | None, entries: bool = False) -> None:
    """Raise ValueError for an optimizer whose state cannot be reset, in one line that says what would work.

    Args:
        optimizer: The optimizer; None passes.
        entries: Whether the state of single entries of tensors is to be reset.
    """
    if optimizer is None:
        return
    optimizer = unwrap_optimizer(optimizer)
    starts = slot_starts(optimizer)
    for owner, slots in optimizer.state.items():
        check_slots(optimizer, slots if isinstance(owner, Tensor) else {str(owner): slots}, starts)
    if entries and FACTORED & starts.keys():
        raise ValueError(
            f"the optimizer is {type(optimizer).__name__}, whose state belongs to rows and columns of matrices, so "
            "that of single units cannot be reset: use AdamW, for example"
        )


def check_contract(learner: Learner, contract: ResetContract, entries: bool = False) -> None:
    """Raise ValueError if the contract resets an optimizer whose state cannot be reset, as `check_optimizer` does."""
    if contract.optimizer != "kept":
        check_optimizer(learner.optimizer, entries)
    if contract.temperature == "start" and (temperature := learner.offers(EntropyTemperature)):
        check_optimizer(temperature.learner.optimizer)


@torch.no_grad()
def zero_slots_(
    optimizer: torch.optim.Optimizer,
    parameters: Sequence[Tensor],
    masks: Sequence[Tensor | None] | None = None,
    counters: bool = True,
) -> None:
    """Return the optimizer's state of these parameters in place to its start: to zero, for most optimizers.

    Args:
        optimizer: The optimizer.
        parameters: Parameters of any shapes, (…). Those without a state are left out.
        masks: For each parameter None, or a boolean mask (broadcastable to it) of the entries whose state is reset.
        counters: Whether step counters are reset too, and what follows from them (`mu_product` of NAdam). A counter
            belongs to the whole tensor, so a mask does not restrict it. In a stack with one counter per member,
            (members,), a member's counter is reset if the mask contains any of its entries.

    Raises:
        ValueError: It is not known how the optimizer or one of its slots starts (see `networks/optimizer_state.py`), or
            a slot has no state of single entries, but a mask is given. Nothing was changed.
    """
    optimizer = unwrap_optimizer(optimizer)
    starts = slot_starts(optimizer)
    groups: dict[Tensor, dict[str, Any]] = {}
    writes: list[tuple[dict[str, Any], str, Any, Tensor | None]] = []
    for parameter, mask in zip(parameters, masks or [None] * len(parameters), strict=True):
        if not (slots := optimizer.state.get(parameter)):
            continue
        check_slots(optimizer, slots, starts)
        shape = parameter.shape
        for slot, value in slots.items():
            where = mask
            start: Any = starts[slot]
            if slot in COUNTERS or not isinstance(value, Tensor) or value.shape != shape:
                size = value.numel() if isinstance(value, Tensor) else 1
                if slot in COUNTERS or size == 1:  # it belongs to the whole tensor, or to that of a member
                    if not counters:
                        continue
                    where = mask.expand(shape).reshape(size, -1).any(1) if mask is not None and size > 1 else None
                elif mask is not None:
                    raise ValueError(
                        f"the optimizer is {type(optimizer).__name__}, whose slot '{slot}' is {tuple(value.shape)} for "
                        f"{tuple(shape)} weights, so that of single entries cannot be reset: use AdamW"
                    )
            if slot == "ax" and not counters:  # ASGD's average goes on: it contains what the entries are now
                start = parameter
            elif callable(start):
                groups = groups or {p: group for group in optimizer.param_groups for p in group["params"]}
                start = start(parameter, groups.get(parameter, optimizer.defaults))
            writes.append((slots, slot, start, where))
    for slots, slot, start, where in writes:
        write_start_(slots, slot, start, where)


@torch.no_grad()
def settle(learner: Learner, written: Sequence[str], contract: ResetContract, masks: Mapping[str, Tensor] = {}) -> None:
    """Carry out the contract after parameters were rewritten, and project those of fixed length.

    Args:
        learner: The learner.
        written: The names of these parameters.
        contract: What else is reset.
        masks: Name → mask of the rewritten entries of that parameter, broadcastable to its shape (…), as in
            `zero_slots_`; by default all entries.
    """
    named = dict(learner.module.named_parameters())
    project_(  # only those: others, which have their length, would change in their last bits
        part
        for part in projected(learner.module)
        if any(named[name] is tensor for tensor in part.vectors()[0] for name in written)
    )
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
    for follower in learner.followers:
        if contract.target == "online":
            copy_module_(follower, learner.module)
        elif contract.target == "same":
            project_(follower.modules())
        elif contract.target == "written":
            restore_(follower, {name: named[name] for name in written})
    if contract.temperature == "start" and (temperature := learner.offers(EntropyTemperature)):
        alpha = temperature.learner
        restore_(alpha.module, {name: alpha.initial[name] for name, _ in alpha.module.named_parameters()})
        if alpha.optimizer is not None:
            zero_slots_(alpha.optimizer, list(alpha.module.parameters()))
