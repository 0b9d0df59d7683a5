"""What happens when a network of the zoo is measured, and when an intervention acts on it: outcomes, with reasons."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from supple.interventions import Intervention, make, parse_call
from tests.zoo.measures import MEASURES
from tests.zoo.networks import SEED, Broken, Kind, Subject, learn, subject
from tests.zoo.state import bits, differences


@dataclass(frozen=True)
class Outcome:
    """What came of an operation on a network: it acted (or measured), it was refused, or a promise was broken."""

    network: str
    operation: str
    kind: Literal["acts", "refused", "broken"]
    why: str = ""


def tried(
    kind: Kind, operation: str, act: Callable[[Subject], object], make: Callable[[Kind], Subject] = subject
) -> Outcome:
    """Return what comes of an operation on a network of this kind."""
    try:
        act(make(kind))
    except Broken as error:
        return Outcome(kind.name, operation, "broken", str(error))
    except Exception as error:
        wrong = refusal(error)
        return Outcome(kind.name, operation, "broken" if wrong else "refused", wrong or str(error))
    return Outcome(kind.name, operation, "acts")


def refusal(error: Exception) -> str | None:
    """Return what is wrong with an error as a refusal, or None: it must be a ValueError of one short line."""
    if isinstance(error, ValueError) and "\n" not in str(error) and 0 < len(str(error)) < 400:
        return None
    return f"{type(error).__name__}: {str(error)[:160]}"


def some(found: Sequence[str]) -> str:
    return f"{len(found)} changed: {', '.join(found[:3])}"


def look(it: Subject, act: Callable[[Subject], object]) -> None:
    """Run what may change nothing, whether it is refused or not. Raises Broken if it does."""
    before = it.state()
    try:
        act(it)
    finally:
        if changes := differences(before, it.state()):
            raise Broken(some(changes))


def measured(kind: Kind, names: Iterable[str] = MEASURES) -> list[Outcome]:
    """Return what comes of these measures on a network: none may change anything by a bit."""
    make = cache(subject)  # one network for all of them
    return [tried(kind, name, lambda it, name=name: look(it, MEASURES[name]), make) for name in names]


# -- interventions ---------------------------------------------------------------------------------------------------

VARIANTS = (
    *("adamo", "adam_rel", "cbp(replacement_rate=0.5,maturity=1)", "chain", "cpr(period=1)", "dash(batches=1)"),
    *("ewc(samples=4)", "fire", "fire(method=polar)", "fire(scope=head)", "hare_tortoise(momentum=0.5)"),
    *("injection", "injection(toward=fresh)", "l2_er(period=1)", "l2_init", "muon", "nap", "nap(normalize=false)"),
    *("parseval", "rebalance", "replay", "redo(tau=0)", "redo(tau=0.9)", "regrama(tau=0.5)"),
    *("regrama(tau=0.5,outgoing=zero)", "reset", "reset(toward=fresh)"),
    *("reset(what=head)", "reset(what=encoder)", "reset(what=last,toward=fresh)", "reset(what=optimizer)", "sib"),
    *("snp", "snp(lam=1)", "snp(toward=fresh,noise=0.1)", "snp(toward=zero)", "snp(scope=head)"),
    *("snr(eta=0.5,window=3)", "soft_snp", "soft_snp(toward=initial)", "spectral", "swap(activation=elu)"),
    *("trac", "upgd", "wasserstein", "weight_clip(kappa=1)"),
)
SILENT = "redo(tau=0)"  # which rewrites silent units only, so that the outputs stay
DEPENDS_ON_DATA = (  # refusals that only the values can bring about
    "zero", "not finite", "NaN", "infinit", "converge", "tolerance", "singular", "balance", "have been silent",
)  # fmt: skip
BEFORE, AFTER = ("before_loss", "penalty", "before_update"), ("after_update", "finish_task", "apply")


def intervened(kind: Kind, text: str) -> Outcome:
    """Return what comes of an intervention on a network. The moments are those of a training loop."""

    def act(it: Subject) -> None:
        call = parse_call(text)
        intervention = make(call.name, **call.params)
        look(it, lambda it: attach(intervention, it))
        for names in (BEFORE, AFTER, BEFORE, AFTER[:1]):
            for name in names:
                if intervention.has(name):
                    moment(intervention, it, name, text)
            if names is BEFORE:
                with torch.random.fork_rng(devices=[]):
                    learn(it.learner)
        if any(not p.isfinite().all() for p in it.module.parameters() if p.is_floating_point()):
            raise Broken("a parameter is not finite afterwards")

    return tried(kind, text, act)


def attach(intervention: Intervention, it: Subject) -> None:
    intervention.attach(it.learner)
    if not intervention.concerns(it.learner):
        raise ValueError("it does not act on this network")


def moment(intervention: Intervention, it: Subject, name: str, text: str) -> None:
    """Run one moment. Raises Broken if it changed more than it may, or refuses what `attach` could have refused."""
    silent = name == "apply" and text == SILENT
    outputs = it.outputs() if silent else []
    before, old = it.state(), parameters(it)
    written, problem = [], None
    try:
        written = getattr(intervention, name)(it.learner)
    except Exception as error:
        problem = refusal(error) or (not any(word in str(error) for word in DEPENDS_ON_DATA) and f"refuses: {error}")
        written = []
    changes = [path for path in differences(before, it.state()) if not allowed(path, it)]
    now = parameters(it)
    changed = [n for n, (_, value) in old.items() if n in now and now[n][1] != value]
    if frozen := [n for n in changed if not old[n][0].requires_grad]:
        problem = f"wrote frozen parameters: {', '.join(frozen[:3])}"
    first: dict[int, str] = {}  # name of a parameter, for tied ones
    if loose := [n for n in old.keys() & now if now[n][0] is not now[first.setdefault(id(old[n][0]), n)][0]]:
        problem = f"untied {loose[0]}"
    if name in ("before_loss", "penalty", "finish_task") and changed:
        problem = f"wrote {changed[0]}"
    if name == "apply" and not it.learner.changes:
        objects = {id(now[n][0]) for n in written}
        if secret := [n for n in changed if id(now[n][0]) not in objects]:
            problem = f"wrote {secret[0]}, but does not name it"
    if silent and it.kind.silent and not written:
        problem = "found no silent units, though there are some"
    if changes or problem:
        raise Broken(f"{name}: {problem or some(changes)}")
    if silent and not it.kind.coupled:
        for a, b in zip(outputs, it.outputs(), strict=True):
            if (a - b).abs().max() > it.kind.tolerance * max(1.0, float(a.abs().max())):
                raise Broken("the outputs moved though only silent units were rewritten")


def parameters(it: Subject) -> dict[str, tuple[Tensor, Any]]:
    return {name: (p, bits(p)) for name, p in it.module.named_parameters(remove_duplicate=False)}


def allowed(path: str, it: Subject) -> bool:
    """Return whether a moment may make this change."""
    place, _, what = path.partition(" (")
    if path.startswith(("learner.generator", "learner.marked", "optimizer.state")):
        return True
    if it.learner.changes and path.startswith(("module", "learner.", "optimizer")):
        return what != "training)"  # the mode of a part
    values = [*it.module.named_parameters(remove_duplicate=False), *it.module.named_buffers(remove_duplicate=False)]
    written = place.startswith("learner.followers") or "_flat_weights" in path  # of recurrent layers
    return what.startswith(("values", "gradient")) and (written or place in {f"module.{n}" for n, _ in values})


# -- new values ------------------------------------------------------------------------------------------------------


def draw_fresh(it: Subject) -> None:
    """Reset toward new values: Raises Broken if they are trained ones, those of step 0, or of another law."""
    with torch.random.fork_rng(devices=[]):
        first, second = [], []
        for seed, drawn in ((SEED + 1, first), (SEED + 2, second)):
            torch.manual_seed(seed)
            drawn += it.kind.make().named_parameters()
    expected = {name: (a.detach(), b.detach()) for (name, a), (_, b) in zip(first, second, strict=True)}
    old = [{name: p.detach().clone() for name, p in it.learner.trained().items()}, it.learner.initial]
    intervention = make("reset", toward="fresh")
    intervention.attach(it.learner)
    for name in expected.keys() & set(intervention.apply(it.learner)):
        now, (a, b) = it.module.get_parameter(name).detach(), expected[name]
        if torch.equal(a, b):
            if not torch.equal(now, a):
                raise Broken(f"{name} starts at a constant, but another law was used")
            continue
        if any(torch.equal(now, values[name]) for values in old if name in values):
            raise Broken(f"an old value of {name} passes for a fresh one")
        low, size, high = (float(value.double().square().mean()) for value in (a, now, b))
        if now.numel() >= 16 and not min(low, high) / 4 < size < max(low, high) * 4:
            raise Broken(f"{name} is drawn by another law (size {size:.2g}, not {low:.2g})")
