"""Plasticity injection freezes the head of a network and adds a new head whose contribution is 0 at first.

    h(x) = h_old(x) + h_new(x) − h_twin(x)

The old head is frozen. The new head is trained, and a frozen twin of it, which is equal to it at first, cancels it. The
outputs at that moment are the same bit for bit (with a randomised activation, in evaluation mode). Gradients reach the
encoder through all three. FIRE's experiments (FIRE paper, Appendix D) inject into the linear layers of DQN and into the
whole critic of SAC, where no encoder remains outside.

Source: Nikishin et al. 2023, "Deep Reinforcement Learning with Plasticity Injection" (arXiv 2305.15555).

Resets: only what its contract states. No parameter is lost.

Cost: two more copies of the head, in memory and in every pass. The architecture changes: recorded graphs must be
captured again (compare `len(learner.changes)`), and a checkpoint is loaded after `restructure`. Layers and units are
then measured in the new head, but the weight norm includes the frozen heads: before and after cannot be compared.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from torch import Tensor, nn

from supple.networks import Learner, Wiring, restore_, set_generators
from supple.networks.hidden_units import check_followers
from supple.networks.modules import is_activation
from supple.networks.ranks import require_one
from supple.registry import did_you_mean

from .base import Intervention, interventions
from .contract import Preset, check_contract, check_optimizer, contract_for, settle


@dataclass(frozen=True)
class Injectable:
    """A capability: the head of the network, which injection can duplicate.

    Attributes:
        part: The qualified name of the submodule, such as "mlp" with the last layers in it.
    """

    part: str


class Injected(nn.Module):
    """A head after injection: old(x) + (new(x) − twin(x)), of which only `new` is trained.

    Args:
        head: The present head, which is frozen and becomes `old`. `new` and `twin` are copies of it. If injection has
            been applied to it before, they are copies of its `new`. Frozen parameters are copied too.
    """

    old: nn.Module
    new: nn.Module
    twin: nn.Module

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        plain = head.new if isinstance(head, Injected) else head
        new = copy.deepcopy(plain)
        head.zero_grad()  # a gradient left behind would count in a global norm
        self.old = head.requires_grad_(False)
        self.new = new
        self.twin = copy.deepcopy(new).requires_grad_(False)
        self.training = head.training

    def forward(self, x: Tensor) -> Tensor:
        """Return the head's output for x: (…, d_in) → (…, d_out)."""
        return self.old(x) + (self.new(x) - self.twin(x))


@interventions.register("injection")
class Injection(Intervention):
    """Freeze the head and add a new one whose contribution is 0 at first: plasticity injection (Nikishin et al. 2023).

    Later interventions act on the trained parts. Layers and units of the new head, whose modules are "mlp.new.0" and so
    on, keep their original names, and scopes exclude the frozen parts. Interventions on every parameter (`reset`
    without `what`, `snp` with scope all) include the frozen parts, so that they lead to the network of step 0.

    Args:
        toward: The new head starts from the step-0 values (`initial`, as in the code released with FIRE) or from a
            `fresh` draw (as Nikishin et al. describe it). A second injection freezes all parts that the first one made.
        contract: What else is reset, `uniform` or `as_released`.
    """

    def __init__(self, toward: Literal["initial", "fresh"] = "initial", contract: Preset = "uniform") -> None:
        self.toward, self.preset = toward, contract

    def concerns(self, learner: Learner) -> bool:
        """Return whether there is a part to duplicate. In SAC this is the critic (Nikishin et al. 2023)."""
        return learner.offers(Injectable) is not None

    def attach(self, learner: Learner) -> None:
        require_one("injection")
        check_contract(learner, contract_for(self.name, self.preset, learner))
        path, _ = _find_head(learner)
        check_followers(learner, path, "injection")
        if self.toward == "fresh":
            learner.check_drawn([name for name in learner.initial if _is_within(name, path)], "injection")

    def contract(self, learner: Learner) -> dict[str, str]:
        start = {"initial": "the step-0 values", "fresh": "a fresh draw"}[self.toward]
        weights = f"{_find_head(learner)[0]} frozen; a new one and its frozen twin added, both from {start}"
        columns = {
            "uniform": {"optimizer state": "kept; that of the new head starts fresh"},
            "as_released": {"target network": "wrapped around its own old head"},
        }[self.preset]
        return contract_for(self.name, self.preset, learner).describe(weights, learner, columns)

    def restructure(self, learner: Learner) -> None:
        check_optimizer(learner.optimizer)  # the new head joins it
        path, head = _find_head(learner)
        live = f"{path}.new" if isinstance(head, Injected) else path

        def copies(name: str) -> tuple[str, ...]:
            """Return what a module or parameter is called now, in old, new and twin; one outside the head as before."""
            if not _is_within(name, path):
                return (name,)
            old = f"{path}.old{name[len(path) :]}"
            rest = name[len(live) :]
            return (old, f"{path}.new{rest}", f"{path}.twin{rest}") if _is_within(name, live) else (old,)

        def spread(values: dict[str, Tensor]) -> dict[str, Tensor]:
            return {new: value for name, value in values.items() for new in copies(name)}

        def now(name: str) -> str:
            return copies(name)[1] if _is_within(name, live) else name

        def rewire(unit: str, wires: Wiring) -> Wiring:
            # the encoder's units are read by the frozen heads as well
            heads: Callable[[str], tuple[str, ...]] = (lambda n: (now(n),)) if _is_within(unit, live) else copies
            groups = (wires.incoming, wires.outgoing, wires.norms)
            return Wiring(*(tuple(name for old in group for name in heads(old)) for group in groups))

        leaving = list(learner.module.get_submodule(live).parameters())
        parent, _, last = path.rpartition(".")
        for module in (learner.module, *learner.followers):
            setattr(module.get_submodule(parent), last, Injected(module.get_submodule(path)))
        if learner.activation_draws:
            set_generators(learner.module, learner.activation_draws)  # those of copies would be copies
        modules = dict(learner.module.named_modules())
        learner.origins = {
            now(name): learner.origins.get(name, name) for name in (*(x.name for x in learner.layers), *learner.units)
        }
        learner.layers = tuple(
            replace(layer, name=now(layer.name), module=modules[now(layer.name)]) for layer in learner.layers
        )
        learner.wiring = {now(unit): rewire(unit, wires) for unit, wires in learner.wiring.items()}
        learner.unwired = {now(unit): reason for unit, reason in learner.unwired.items()}
        learner.units = tuple(map(now, learner.units))
        learner.features = learner.features and now(learner.features)
        learner.initial = {name: value.clone() for name, value in spread(learner.initial).items()}
        draw, owner = learner.redraw, learner.module.get_submodule(parent)

        def redraw() -> dict[str, Tensor]:
            """Return a new draw, which is one of the network that there was, with the old head in its place."""
            injected = owner.get_submodule(last)
            setattr(owner, last, injected.old)
            try:
                return spread(dict(draw()))
            finally:
                setattr(owner, last, injected)

        learner.redraw = redraw
        if learner.optimizer is not None:
            joining = dict(zip(leaving, learner.module.get_submodule(f"{path}.new").parameters(), strict=True))
            for group in learner.optimizer.param_groups:
                group["params"][:] = [joining.get(parameter, parameter) for parameter in group["params"]]
            for parameter in leaving:
                learner.optimizer.state.pop(parameter, None)
        moved = [name for name in (*learner.initial, *learner.units) if _is_within(name, path)]
        learner.renewed |= dict.fromkeys(moved, len(learner.changes))
        learner.changes.append(str(self))

    def apply(self, learner: Learner) -> list[str]:
        path, _ = _find_head(learner)
        contract = contract_for(self.name, self.preset, learner)
        self.restructure(learner)
        head = learner.module.get_submodule(f"{path}.new")
        names = [name for name, _ in head.named_parameters()]
        first = f"{path}.old"  # the head of step 0 lies innermost
        while isinstance(learner.module.get_submodule(first), Injected):
            first += ".old"
        start = {
            # activations may be others by now than those of step 0, and start as they did
            name: learner.initial[f"{path}.new.{name}" if is_activation(owner) else f"{first}.{name}"]
            for name in names
            for owner in [head.get_submodule(name.rpartition(".")[0])]
        }
        if self.toward == "fresh":
            draws = learner.redraw()
            start |= {name: draws[f"{path}.new.{name}"] for name in names if f"{path}.new.{name}" in draws}
        values = {f"{path}.{part}.{name}": start[name] for part in ("new", "twin") for name in names}
        learner.initial |= {name: value.to(learner.initial[name], copy=True) for name, value in values.items()}
        for module in (learner.module, *(learner.followers if contract.target == "same" else ())):
            restore_(module, values)
        settle(learner, list(values), contract)
        return list(values)


def _find_head(learner: Learner) -> tuple[str, nn.Module]:
    """Return the path of the part to duplicate, and the part.

    Raises ValueError if there is none, or if it shares parameters with other parts.
    """
    offered, modules = learner.offers(Injectable), dict(learner.module.named_modules())
    if offered is None:
        raise ValueError(f"injection: '{learner.name}' has no part to duplicate; let it offer an Injectable")
    path = offered.part
    if path not in modules:
        raise ValueError(f"injection: '{learner.name}' has no module '{path}'{did_you_mean(path, modules)}")
    head = modules[path]
    in_head = set(head.parameters())
    for name, parameter in learner.module.named_parameters(remove_duplicate=False):
        if parameter in in_head and not _is_within(name, path):
            raise ValueError(
                f"injection: '{learner.name}' shares '{name}' with '{path}', which cannot be frozen alone"
                " (prelu(granularity=global)? take layer or neuron)"
            )
    return path, head


def _is_within(name: str, path: str) -> bool:
    return name == path or name.startswith(f"{path}.")
