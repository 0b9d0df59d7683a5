"""What happens when a network of the zoo is measured, and when an intervention acts on it: outcomes, with reasons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor

from supple.interventions import Intervention, make, parse_call
from supple.networks import evaluating
from supple.networks.modules import NORMS
from tests.zoo.measures import MEASURES, OWN_LOSS, refusal
from tests.zoo.networks import Harmed, Kind, Subject, subject, zoo
from tests.zoo.state import State, bits, differences, take


@dataclass(frozen=True)
class Outcome:
    """What came of an operation on a network: it acted (or measured), it was refused, or a promise was broken."""

    network: str
    operation: str
    kind: Literal["acts", "refused", "broken"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.network} × {self.operation}: {self.kind}{self.why and f' ({self.why})'}"


class Broken(Exception):
    """A promise is broken."""


def state_of(it: Subject) -> State:
    return take(it.module, inputs=it.inputs, optimizer=it.learner.optimizer, learner=it.learner)


def some(found: Sequence[str]) -> str:
    return f"{len(found)} changed: {', '.join(found[:3])}"


def new(kind: Kind, **more: Any) -> Subject:
    """Return a new subject. Raises Broken, or ValueError for a refusal."""
    try:
        return subject(kind, **more)
    except Harmed as error:
        raise Broken(str(error)) from error
    except Exception as error:
        if wrong := refusal(error):
            raise Broken(f"at learner_for: {wrong}") from error
        raise


MUST = ("measure", "trainability", "diagnose")  # measures that no network with acts may be refused


@cache
def moved_by_itself(name: str) -> frozenset[str]:
    """Return the places that a forward pass changes by itself: counters, drawn noise, computed weights."""
    it = new(zoo()[name])
    before = state_of(it)
    with torch.no_grad(), evaluating(it.module):
        it.run()
    return frozenset(place_of(path) for path in differences(before, state_of(it)))


def place_of(path: str) -> str:
    """Return the attribute or parameter that a difference is about, whichever element of it."""
    place = path.removesuffix(" is gone").removesuffix(" is new").partition(" (")[0]
    return place.partition("[")[0] if place.startswith("module") else place


# -- measures --------------------------------------------------------------------------------------------------------


def measured(kind: Kind, names: Sequence[str] = ()) -> list[Outcome]:
    """Return what comes of every measure (or of these) on a network: none may change anything by a bit."""
    found: list[Outcome] = []
    it: Subject | None = None
    for name in names or MEASURES:
        try:
            it = it or new(kind)
        except Broken as error:
            return [Outcome(kind.name, "learner_for", "broken", str(error))]
        except ValueError as error:
            why = str(error)
            if kind.acts:
                return [Outcome(kind.name, "learner_for", "broken", f"refused, though it must act: {why}")]
            return [Outcome(kind.name, name, "refused", why) for name in names or MEASURES]
        before, outcome, why = state_of(it), "acts", ""
        try:
            MEASURES[name](it)
        except Exception as error:
            wrong = refusal(error)
            outcome, why = ("broken", wrong) if wrong else ("refused", str(error))
            if name in MUST and kind.acts and not wrong:
                outcome, why = "broken", f"refused, though it must be measured: {error}"
        changes = differences(before, state_of(it))
        if name in OWN_LOSS and changes:
            changes = [path for path in changes if place_of(path) not in moved_by_itself(kind.name)]
        if changes:
            outcome, why, it = "broken", f"{some(changes)}{why and f'; {why}'}", None
        found.append(Outcome(kind.name, name, outcome, why))
    return found


# -- interventions ---------------------------------------------------------------------------------------------------

VARIANTS = (
    *("adam_rel", "cbp(replacement_rate=0.5,maturity=1)", "chain", "cpr(period=1)", "dash(batches=1)"),
    *("ewc(samples=4)", "fire", "fire(method=polar)", "fire(scope=head)", "hare_tortoise(momentum=0.5)"),
    *("injection", "injection(toward=fresh)", "l2_er(period=1)", "l2_init", "muon", "nap", "nap(normalize=false)"),
    *("parseval", "rebalance", "replay", "redo(tau=0)", "redo(tau=0.9)", "regrama(tau=0.5)"),
    *("regrama(tau=0.5,outgoing=zero)", "reset", "reset(toward=fresh)"),
    *("reset(what=head)", "reset(what=encoder)", "reset(what=last,toward=fresh)", "reset(what=optimizer)", "sib"),
    *("snp", "snp(lam=1)", "snp(toward=fresh,noise=0.1)", "snp(toward=zero)", "snp(scope=head)"),
    *("snr(eta=0.5,window=3)", "soft_snp", "soft_snp(toward=initial)", "spectral", "swap(activation=elu)"),
    *("trac", "upgd", "wasserstein", "weight_clip(kappa=1)"),
)
SILENT = ("redo(tau=0)",)  # those that rewrite silent units only, so that the outputs stay
# Whether an intervention's contract says that it writes buffers: those of all modules, or statistics of norms.
BUFFERS = {"reset": "all", **dict.fromkeys(("redo", "regrama", "cbp", "snr", "nap", "swap", "injection"), "norms")}
DEPENDS_ON_DATA = (  # refusals that only the values can bring about
    "zero", "not finite", "NaN", "infinit", "converge", "tolerance", "singular", "balance", "have been silent",
)  # fmt: skip


@dataclass
class Trial:
    """One intervention on one network. The moments are those of a training loop."""

    kind: Kind
    text: str

    def run(self) -> Outcome:
        try:
            it = new(self.kind)
        except Broken as error:
            return self.outcome("broken", str(error))
        except ValueError as error:
            return self.outcome("refused", str(error))
        try:
            return self.outcome("acts", self.act(it))
        except Refusal as error:
            return self.outcome("refused", str(error))
        except Broken as error:
            return self.outcome("broken", str(error))

    def outcome(self, kind: Literal["acts", "refused", "broken"], why: str = "") -> Outcome:
        return Outcome(self.kind.name, self.text, kind, why)

    def act(self, it: Subject) -> str:
        call = parse_call(self.text)
        intervention = make(call.name, **call.params)
        before = state_of(it)
        refused = ""
        try:
            intervention.attach(it.learner)
            if not intervention.concerns(it.learner):
                refused = "it does not act on this network"
        except Exception as error:
            if wrong := refusal(error):
                raise Broken(f"at attach: {wrong}") from error
            refused = str(error)
        if changes := differences(before, state_of(it)):
            raise Broken(f"attach: {some(changes)}")
        if refused:
            raise Refusal(refused)
        words = intervention.contract(it.learner)
        if any("\n" in word for word in words.values()):
            raise Broken("contract: a text of several lines")
        notes = [self.moment(intervention, it, name) for name in ("before_loss", "penalty", "before_update")]
        self.step(it)
        notes += [self.moment(intervention, it, name) for name in ("after_update", "finish_task", "apply")]
        notes += [self.moment(intervention, it, name) for name in ("before_loss", "penalty", "before_update")]
        self.step(it)
        notes += [self.moment(intervention, it, "after_update")]
        if any(not p.isfinite().all() for p in it.module.parameters() if p.is_floating_point()):
            raise Broken("a parameter is not finite afterwards")
        return "; ".join(dict.fromkeys(filter(None, notes)))

    def step(self, it: Subject) -> None:
        if it.learner.optimizer is None:
            return
        with torch.random.fork_rng(devices=[]):
            try:
                it.learner.optimizer.zero_grad()
                it.learner.loss().backward()
                it.learner.optimizer.step()
            except Exception as error:
                raise Broken(f"training cannot go on: {type(error).__name__}: {str(error).splitlines()[0]}") from error

    def moment(self, intervention: Intervention, it: Subject, name: str) -> str:
        """Run one moment and check what it changed. Returns a note."""
        if not intervention.has(name):
            return ""
        outputs = it.outputs() if name == "apply" and self.text in SILENT else None
        before, values = state_of(it), _values(it)
        result: Any = None
        try:
            result = getattr(intervention, name)(it.learner)
        except Exception as error:
            if changes := self.visible(differences(before, state_of(it)), it, ()):
                raise Broken(f"{name} refused half-way: {some(changes)}") from error
            if wrong := refusal(error):
                raise Broken(f"at {name}: {wrong}") from error
            if any(word in str(error) for word in DEPENDS_ON_DATA):
                return f"refused for these values: {error}"
            raise Broken(f"refuses first at {name}: {error}") from error
        if name == "penalty" and not isinstance(result, Tensor):
            raise Broken(f"penalty returns {type(result).__name__}")
        written = tuple(result) if name == "apply" and isinstance(result, list) else ()
        changes = differences(before, state_of(it))
        self.check(name, it, values, changes, written)
        if outputs is not None:
            self.check_outputs(it, outputs, written)
            if it.kind.silent and "redo" in it.kind.acts and not written:
                raise Broken("found no silent units, though there are some")
        return f"wrote {len(written)}" if written else ""

    def check(
        self, name: str, it: Subject, values: dict[str, Any], changes: list[str], written: tuple[str, ...]
    ) -> None:
        """Raise Broken if a moment changed more than it may."""
        now = _values(it)
        itself = moved_by_itself(it.kind.name) if changes else frozenset()
        values = {name: pair for name, pair in values.items() if f"module.{name}" not in itself}
        if frozen := [n for n, (p, bits) in values.items() if not p.requires_grad and n in now and now[n][1] != bits]:
            raise Broken(f"{name} wrote frozen parameters: {', '.join(frozen[:3])}")
        tied = [pair for pair in it.kind.tied if pair[0] in now and pair[1] in now]
        if loose := [pair for pair in tied if now[pair[0]][0] is not now[pair[1]][0]]:
            raise Broken(f"{name} untied {loose[0]}")
        changed = [n for n, (_, bits) in values.items() if n in now and now[n][1] != bits]
        if name in ("before_loss", "penalty", "finish_task") and changed:
            raise Broken(f"{name} wrote {changed[0]}")
        if name == "apply" and not it.learner.changes:
            objects = {id(now[n][0]) for n in written if n in now}
            if unknown := [n for n in written if n not in now]:
                raise Broken(f"apply names {unknown[0]}, which is no parameter")
            if secret := [n for n in changed if id(now[n][0]) not in objects]:
                raise Broken(f"apply wrote {secret[0]}, but does not name it")
        if wrong := self.visible(changes, it, written):
            raise Broken(f"{name}: {some(wrong)}")

    def visible(self, changes: Sequence[str], it: Subject, written: Sequence[str]) -> list[str]:
        """Return the changes that no moment may make."""
        buffers = BUFFERS.get(self.text.partition("(")[0], "")
        names = {
            f"module.{n}" for n, b in it.module.named_buffers(remove_duplicate=False)
            if buffers == "all" or (buffers and isinstance(it.module.get_submodule(n.rpartition(".")[0]), NORMS))
        }  # fmt: skip
        parameters = {f"module.{n}" for n, _ in it.module.named_parameters(remove_duplicate=False)}
        itself = moved_by_itself(it.kind.name) if changes else frozenset()

        def allowed(path: str) -> bool:
            place, _, what = path.partition(" (")
            if path.startswith(("learner.generator", "learner.marked", "optimizer.state")):
                return True
            if it.learner.changes and path.startswith(("module", "learner.", "optimizer")):
                return not path.endswith(" (training)")
            if place in parameters or place.startswith(("learner.followers",)):
                return what.startswith(("values", "gradient"))
            if "_flat_weights" in path:  # of recurrent layers: their parameters, once more
                return what.startswith(("values", "gradient"))
            return place in names or (place_of(path) in itself and not path.startswith("generator"))

        return [path for path in changes if not allowed(path)]

    def check_outputs(self, it: Subject, before: list[Tensor], written: tuple[str, ...]) -> None:
        if it.kind.coupled:
            return
        after = it.outputs()
        worst = max((float((a - b).abs().max()) for a, b in zip(before, after, strict=True) if a.numel()), default=0.0)
        size = max((float(a.abs().max()) for a in before if a.numel()), default=1.0)
        if worst > it.kind.tolerance * max(1.0, size):
            raise Broken(f"the outputs moved by {worst:.2g} though only silent units were rewritten ({len(written)})")


class Refusal(Exception):
    """The reason why an intervention does not act."""


def _values(it: Subject) -> dict[str, Any]:

    return {name: (p, bits(p)) for name, p in it.module.named_parameters(remove_duplicate=False)}


def tried(kind: Kind, texts: Sequence[str] = VARIANTS) -> list[Outcome]:
    """Return what comes of these interventions on a network."""
    return [as_wanted(kind, text, Trial(kind, text).run()) for text in texts]


def as_wanted(kind: Kind, text: str, outcome: Outcome) -> Outcome:
    """Return the outcome, broken if the network's facts say that another one is right.

    They say nothing of interventions on a part of the network.
    """
    name, part = text.partition("(")[0], "what=" in text or "scope=" in text
    part = part or ("toward=fresh" in text and not kind.fresh)  # what cannot be drawn is refused, and named
    if outcome.kind == "refused" and name in kind.acts and not part:
        return replace(outcome, kind="broken", why=f"refused, though it must act: {outcome.why}")
    return outcome
