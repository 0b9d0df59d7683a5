"""Every intervention keeps the rules, and one that breaks a rule is found."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.experiments.conformance import ITSELF, ON_A_STACK, ON_EACH, Finding, conform
from supple.experiments.conformance_networks import NETWORKS, STACKS
from supple.interventions import Intervention, Learner, interventions, learner_for
from supple.interventions.base import Reinitialization
from tests.engine.hooks.test_members import Counting

PARAMETERS = {  # with which those act here that would not do so by themselves
    "cbp": "cbp(replacement_rate=0.2,maturity=1)",
    "chain": "chain(share=0.1,window=2)",
    "cpr": "cpr(period=2,rate=0.5)",
    "ewc": "ewc(samples=24)",
    "hare_tortoise": "hare_tortoise(momentum=0.5)",
    "l2_er": "l2_er(period=2,rate=0.1)",
    "redo": "redo(tau=0.3)",
    "regrama": "regrama(tau=0.5)",
    "reset": "reset(toward=fresh)",
    "snp": "snp(lam=0.5,noise=0.1)",
    "snr": "snr(eta=0.5,window=3)",
    "swap": "swap(activation=elu)",
    "weight_clip": "weight_clip(kappa=1)",
}


PAGE = Path(__file__).parents[2] / "docs/howto/add_intervention.md"


def broken(findings: list[Finding]) -> list[str]:
    return [str(finding) for finding in findings if finding.outcome == "broken"]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(interventions.names()) - {"sib", "replay"}))
def test_every_intervention_keeps_what_it_promises(name: str) -> None:
    assert broken(conform(PARAMETERS.get(name, name))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        *("fire(tolerance=1e-6)", "snp(toward=fresh)", "trac(variant=as_released)", "upgd(variant=as_released)"),
        *("ewc(reference=each,decay=0.9)", "nap(norm=rms)", "chain(share=0.1,window=3)", "muon(variant=as_released)"),
    ],
)
def test_other_variants_treat_members_as_separate_networks(call: str) -> None:
    for check in ON_A_STACK.values():
        for new in STACKS.values():
            check(call, new)


@pytest.mark.slow
def test_an_intervention_that_refuses_every_network_is_broken() -> None:
    assert broken(conform("sib"))[0].startswith(f"{ITSELF}, all: broken (it refuses every network here")


@pytest.mark.slow
def test_own_networks_are_used_instead() -> None:
    def new() -> Learner:
        torch.manual_seed(0)
        module, x = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)), torch.ones(3, 2)
        optimizer = torch.optim.Adam(module.parameters(), amsgrad=True)
        return learner_for(module, optimizer, probe=lambda: (x,), loss=lambda: module(x).square().mean())

    found = conform("fire(method=polar)", {"mine": new})
    assert [finding.network for finding in found] == ["all"] + ["mine"] * 8
    assert broken(found) == []


def test_the_page_names_the_promises_in_their_order() -> None:
    table = PAGE.read_text().partition("| promise | that is |\n|---|---|\n")[2].partition("\n\n")[0]
    assert [row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()] == [ITSELF, *ON_EACH, *ON_A_STACK]


class Shrink(Reinitialization):
    """Halve all weights."""

    def __init__(self) -> None:
        super().__init__("all", "uniform")

    @torch.no_grad()
    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        for parameter in module.parameters():
            parameter.mul_(0.5)
        return [name for name, _ in module.named_parameters()]


class Undocumented(Intervention):
    def attach(self, learner: Learner) -> None: ...


class RefusesBadly(Shrink):
    """Refuse in two lines."""

    def attach(self, learner: Learner) -> None:
        raise ValueError("no\nand no")


class WritesAtAttach(Shrink):
    """Write before training."""

    @torch.no_grad()
    def attach(self, learner: Learner) -> None:
        learner.layers[0].weight.zero_()


class NewTensor(Shrink):
    """Give the network another tensor."""

    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        head = module.get_submodule(learner.layers[-1].name)
        head.weight = nn.Parameter(head.weight.detach() * 0.5)
        return []


class Secret(Shrink):
    """Write more than it says."""

    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        return super().rewrite(module, learner, start, scope)[1:]


class Invents(Shrink):
    """Say more than it wrote."""

    def apply(self, learner: Learner) -> list[str]:
        return [*super().apply(learner), "nothing.weight"]


class HalfDone(Shrink):
    """Stop in the middle where a weight is no number."""

    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        written = super().rewrite(module, learner, start, scope)
        if not all(parameter.isfinite().all() for parameter in module.parameters()):
            raise ValueError("a weight is no number")
        return written


class Crashes(Shrink):
    """Raise something else where a weight is no number."""

    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        if not all(parameter.isfinite().all() for parameter in module.parameters()):
            raise RuntimeError("singular")
        return super().rewrite(module, learner, start, scope)


class GlobalDraws(Intervention):
    """Draw from PyTorch's global generator."""

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        for parameter in learner.module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=1e-3)


class Forgets(Intervention):
    """Count updates, and not save the count."""

    def __init__(self) -> None:
        self.count = 0

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        self.count += 1
        for parameter in learner.module.parameters():
            parameter.mul_(1 - 1e-3 * self.count)


class Unsaveable(Forgets):
    """Save what a checkpoint cannot hold."""

    def state_dict(self) -> dict[str, Any]:
        return {"count": {1, 2}}


class Overflows(Intervention):
    """Grow weights to infinity."""

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        for parameter in learner.module.parameters():
            parameter.mul_(1e200)


class Pools(Intervention):
    """Take the members of a stack for one network."""

    def penalty(self, learner: Learner) -> Tensor:
        return torch.stack([p.square().sum() for p in learner.module.parameters()]).sum().sqrt()


class Counts(Counting):
    """Count its applications, of all seeds together."""

    def __init__(self) -> None:
        super().__init__(())


class DrawsForAll(Shrink):
    """Draw for all seeds of a stack if one of them has a large bias."""

    @torch.no_grad()
    def rewrite(self, module: nn.Module, learner: Learner, start: Any, scope: Any) -> list[str]:
        if (module.get_parameter("head.bias") > 0.3).any():
            learner.redraw()
        return super().rewrite(module, learner, start, scope)


class Untraceable(Intervention):
    """Pull towards numbers that it draws."""

    def penalty(self, learner: Learner) -> Tensor:
        drawn = [torch.randn(p.shape, generator=learner.generator) for p in learner.module.parameters()]
        pairs = zip(drawn, learner.module.parameters(), strict=True)
        return torch.stack([(p - other).square().sum() for other, p in pairs]).sum()


WRONG = {
    Undocumented: (ITSELF, "has no docstring"),
    RefusesBadly: ("attach accepts or refuses, and writes nothing", "without a reason in one line"),
    WritesAtAttach: ("attach accepts or refuses, and writes nothing", "attach changed conv.weight"),
    NewTensor: ("writes tensors in place", "head.weight was replaced"),
    Untraceable: ("has a penalty that can be compiled", "set `traceable = False`"),
    Secret: ("names all that it wrote", "apply wrote conv.weight"),
    Invents: ("names all that it wrote", "apply names 'nothing.weight'"),
    HalfDone: ("raises ValueError with nothing written", "had already changed conv.weight"),
    Crashes: ("raises ValueError with nothing written", "it raised RuntimeError: singular"),
    GlobalDraws: ("draws from the seed alone", "draws from PyTorch's global generator"),
    Forgets: ("resumes from a checkpoint bit for bit", "state_dict must contain"),
    Unsaveable: ("resumes from a checkpoint bit for bit", "a checkpoint cannot hold set"),
    Overflows: ("writes finite numbers", "has NaN or infinite numbers after 8 updates"),
    Pools: ("treats members of a stack as separate networks", "of member 0 differs"),
    DrawsForAll: ("treats members of a stack as separate networks", "more or fewer random numbers than alone"),
    Counts: (
        "acts on some members of a stack alone",
        "'apply' changes 'count' of its state, which belongs to all seeds",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.__name__)
def test_a_broken_promise_is_found_and_said(wrong: type[Intervention], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interventions, "_entries", {**interventions.entries, "wrong": wrong})
    promise, why = WRONG[wrong]
    networks = None if promise in ON_A_STACK else {"plain": NETWORKS["plain"]}
    found = [finding for finding in conform("wrong", networks) if finding.outcome == "broken"]
    assert any(finding.promise == promise and why in finding.why for finding in found), found
    assert {finding.network for finding in found} <= {*NETWORKS, *STACKS, "all"}
