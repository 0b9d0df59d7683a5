"""Test on small networks whether an intervention keeps the rules for all interventions.

    for finding in conform("my_method(lam=0.5)"):
        print(finding)

Use it on your own interventions before you train with them; supple's tests use it on supple's. The networks are a plain
one, one with a target network, and stacks of three seeds, also with two networks a seed. Each is trained for a few
updates, with all moments of the intervention. An intervention may refuse a network by raising ValueError in `attach`.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from supple.engine.hooks.members import acting_on
from supple.engine.storage import checkpoint
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.interventions import Hook, Intervention, Learner, make, parse_call, parse_hook_text
from supple.networks.parameters import names_by_parameter
from supple.registry import one_line, summary

from .conformance_networks import NETWORKS, SEEDS, STACKS, Network, Stack, network

UPDATES, TASK = 8, 3  # updates of a trial, updates of a task
APPLIED, SAVED, AGAIN = 4, 5, 6  # updates before `apply`, before the checkpoint, and before a second `apply`
ALL = "all"  # stands for the network in findings that do not depend on one
Bits = dict[str, Tensor]


class Broken(Exception):
    """A rule is broken; the message says how."""


class Refused(Exception):
    """The intervention refuses a network; the message is its reason."""


@dataclass(frozen=True)
class Finding:
    """Whether a rule ("promise") is kept on a network. `why` gives the reason if it is broken or refused."""

    promise: str
    network: str
    outcome: Literal["kept", "broken", "refused"]
    why: str = ""

    def __str__(self) -> str:
        return f"{self.promise}, {self.network}: {self.outcome}{self.why and f' ({self.why})'}"


# -- trials -----------------------------------------------------------------------------------------------------------


def make_from(call: str) -> Intervention:
    """Return the intervention of a text. Raises ValueError if it has no meaning."""
    parsed = parse_call(call)
    return make(parsed.name, **parsed.params)


def attach(call: str, learner: Learner) -> Intervention:
    """Return the attached intervention. Raises Refused, or Broken if it gives no reason in one line."""
    intervention = make_from(call)
    try:
        intervention.attach(learner)
    except ValueError as error:
        if len(str(error).splitlines()) != 1:
            raise Broken(f"attach refuses without a reason in one line: {summary(str(error))}") from error
        raise Refused(str(error)) from error
    if not intervention.concerns(learner):
        raise Refused("it does not act on this network")
    return intervention


def train(
    learner: Learner,
    it: Intervention,
    start: int = 0,
    end: int = UPDATES,
    applied: Mapping[int, Callable[[], object]] | None = None,
) -> None:
    """Train a network, with all moments of the intervention.

    Args:
        learner: The network.
        it: The intervention, attached to it.
        start: The first update.
        end: The update before which to stop.
        applied: Update → what applies the intervention before it, if it can be applied. Default: `apply`, once.
    """
    applied = {APPLIED: partial(it.apply, learner)} if applied is None else applied
    for update in range(start, end):
        if update in applied and it.has("apply"):
            applied[update]()
        assert learner.optimizer is not None
        learner.optimizer.zero_grad()
        if it.has("before_loss"):
            it.before_loss(learner)
        loss = learner.loss()
        (loss + it.penalty(learner) if it.has("penalty") else loss).backward()
        if it.has("before_update"):
            it.before_update(learner)
        learner.optimizer.step()
        if it.has("after_update"):
            it.after_update(learner)
        if it.has("finish_task") and update % TASK == TASK - 1:
            it.finish_task(learner)


def start(call: str, new: Network, updates: int = 0) -> tuple[Learner, Intervention]:
    """Return a network after some updates, and the intervention that is attached to it."""
    learner = new()
    it = attach(call, learner)
    train(learner, it, 0, updates)
    return learner, it


def named_tensors(learner: Learner) -> Bits:
    """Return the tensors by name, not copied: parameters, those of followers, optimizer slots."""
    by_name: Bits = dict(learner.module.named_parameters())
    for i, follower in enumerate(learner.followers):
        by_name |= {f"follower {i}'s {name}": tensor for name, tensor in follower.named_parameters()}
    names = names_by_parameter(learner.module)
    for parameter, slots in learner.optimizer.state.items() if learner.optimizer else ():
        for key, value in slots.items():
            if isinstance(value, Tensor):
                by_name[f"{key} of {names.get(parameter)}"] = value
    return by_name


def copy_tensors(by_name: Bits) -> Bits:
    """Return copies of tensors."""
    return {name: tensor.detach().clone() for name, tensor in by_name.items()}


def differing_names(before: Bits, after: Bits) -> list[str]:
    """Return the names of the tensors that differ in any bit, or exist only before or after."""

    def bits(tensor: Tensor) -> Tensor:
        return tensor.detach().contiguous().flatten().view(torch.uint8)

    both = [name for name in before.keys() & after.keys() if before[name].shape == after[name].shape]
    same = {name for name in both if torch.equal(bits(before[name]), bits(after[name]))}
    return [name for name in (before | after) if name not in same]


# -- rules ------------------------------------------------------------------------------------------------------------


def check_text_and_docstring(call: str, new: Network) -> None:
    """Require a text form that is parsed back to the same intervention, and a docstring."""
    it = make_from(call)
    if parse_hook_text(str(it)).call != parse_call(call):
        raise Broken(f"its text {str(it)!r} is parsed to something else")
    if not (type(it).__doc__ or "").strip():
        raise Broken("its class has no docstring, whose first sentence `supple list interventions` shows")


def check_attach(call: str, new: Network) -> None:
    """Require that `attach` changes nothing."""
    learner = new()
    before = copy_tensors(named_tensors(learner))
    attach(call, learner)
    if changed := differing_names(before, named_tensors(learner)):
        raise Broken(f"attach changed {', '.join(changed[:3])}")


def check_tensors_stay(call: str, new: Network) -> None:
    """Require that parameters, followers and optimizer slots stay the same tensors."""
    learner, it = start(call, new, APPLIED)

    def places() -> dict[str, tuple[int, int]]:
        return {name: (id(tensor), tensor.data_ptr()) for name, tensor in named_tensors(learner).items()}

    before, trained = places(), learner.trained().keys()
    train(learner, it, APPLIED)
    if learner.changes:  # an intervention that declares a change of structure may replace tensors
        return
    after = places()
    if moved := [name for name in before | after if before.get(name) != after.get(name)]:
        raise Broken(f"{moved[0]} was replaced by another tensor: write into the existing one (copy_, mul_, …)")
    if frozen := trained - learner.trained().keys():
        raise Broken(f"{min(frozen)} is no longer trained")


def check_numbers_finite(call: str, new: Network) -> None:
    """Require that numbers that are finite stay finite."""
    learner, _ = start(call, new, UPDATES)
    if bad := [name for name, tensor in named_tensors(learner).items() if not tensor.isfinite().all()]:
        raise Broken(f"{bad[0]} has NaN or infinite numbers after {UPDATES} updates")


def check_written_names(call: str, new: Network) -> None:
    """Require that `apply` returns the names of the parameters that it wrote."""
    learner, it = start(call, new, APPLIED)
    if not it.has("apply"):
        return
    before = copy_tensors(dict(learner.module.named_parameters()))
    written = it.apply(learner)
    after: Bits = dict(learner.module.named_parameters())
    if strange := [name for name in written if name not in after]:
        raise Broken(f"apply names {strange[0]!r}, which is not a parameter")
    if len(set(written)) < len(written):
        raise Broken("apply names a parameter twice")
    if not learner.changes and (secret := [name for name in differing_names(before, after) if name not in written]):
        raise Broken(f"apply wrote {secret[0]}, but does not name it")


def check_refusal_writes_nothing(call: str, new: Network) -> None:
    """Require that `apply` raises ValueError before it writes anything if it cannot work."""
    for harm in (float("nan"), 0.0):
        learner, it = start(call, new, APPLIED)
        if not it.has("apply"):
            return
        with torch.no_grad():
            learner.layers[-1].weight.fill_(harm)
        before = copy_tensors(named_tensors(learner))
        try:
            it.apply(learner)
        except ValueError as error:
            if changed := differing_names(before, named_tensors(learner)):
                raise Broken(f"it refused a last layer of {harm} but had already changed {changed[0]}") from error
        except Exception as error:
            raise Broken(f"with a last layer of {harm} it raised {one_line(error)}") from error


def check_seed(call: str, new: Network) -> None:
    """Require the same bits from the same seed, for any state of PyTorch's global generator."""
    ends = []
    for seed in (1, 2):
        learner = new()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            before = torch.get_rng_state()
            train(learner, attach(call, learner))
            if not torch.equal(before, torch.get_rng_state()):
                raise Broken("it draws from PyTorch's global generator: draw from learner.generator")
        ends.append(copy_tensors(named_tensors(learner)))
    if different := differing_names(*ends):
        raise Broken(f"{different[0]} differs between two runs with the same seed")


def check_checkpoint(call: str, new: Network) -> None:
    """Require that a run ends with the same bits if it is killed and resumed from a checkpoint."""
    (whole, _), (before, it), (after, resumed) = (start(call, new, updates) for updates in (UPDATES, SAVED, 0))
    with tempfile.TemporaryDirectory() as folder:
        draws = [source.get_state() for source in before.redraw_draws]  # which the run saves
        tree: dict[str, Any] = {"learner": learner_state(before), "intervention": it.state_dict(), "draws": draws}
        try:
            saved = checkpoint.load(checkpoint.save(Path(folder), SAVED, tree, call), call)
        except TypeError as error:
            raise Broken(f"state_dict: {error}") from error
    load_learner_state(after, saved["learner"])
    for source, state in zip(after.redraw_draws, saved["draws"], strict=True):
        source.set_state(state)
    resumed.load_state_dict(saved["intervention"])
    train(after, resumed, SAVED)
    if different := differing_names(named_tensors(whole), named_tensors(after)):
        raise Broken(
            f"{different[0]} differs in a resumed run: state_dict must contain all of the intervention's state, and "
            f"random numbers must come from the learner"
        )


def check_some_members(call: str, new: Stack) -> None:
    """Require that seeds are as alone if it is applied to some seeds of the stack, and to others later."""
    if (it := make_from(call)).has("apply") and not it.has("restructure"):
        compare_with_alone(call, new, {APPLIED: (0, 2), AGAIN: (0, 1)})


def compare_with_alone(call: str, new: Stack, firings: Mapping[int, Sequence[int]]) -> None:
    """Raise Broken unless a stack ends as its seeds do alone; firings: update → seeds that it is applied to before."""
    stack = new(None)
    it = attach(call, stack)
    hook = Hook(call, it, None)

    def apply_to(seeds: Sequence[int]) -> None:
        with acting_on(hook, stack, seeds):
            it.apply(stack)

    train(stack, it, applied={update: partial(apply_to, seeds) for update, seeds in firings.items()})
    together, numbers = named_tensors(stack), it.numbers(stack)
    for seed in range(SEEDS):
        alone = new(seed)
        own = attach(call, alone)
        train(alone, own, applied={u: partial(own.apply, alone) for u, seeds in firings.items() if seed in seeds})
        rows = stack.networks_of([seed])
        for name, value in named_tensors(alone).items():
            require_close(name, seed, together[name][rows], value)
        for name, value in own.numbers(alone).items():
            require_close(name, seed, numbers[name].expand(stack.members)[rows], value)
        sources = [stack.generators[seed], stack.redraw_draws[seed]]
        for source, draws in zip(sources, (alone.generator, *alone.redraw_draws), strict=True):
            if not torch.equal(source.get_state(), draws.get_state()):
                raise Broken(f"member {seed} of a stack draws more or fewer random numbers than alone")


def require_close(name: str, seed: int, stacked: Tensor, alone: Tensor) -> None:
    """Raise Broken unless the values of one seed of a stack, (networks, …), are those of its run alone."""
    if stacked.numel() != alone.numel() and not alone.ndim:  # one counter for all networks of the seed
        alone = alone.expand(stacked.shape)
    if stacked.numel() != alone.numel() or not torch.allclose(
        stacked.double(), alone.double().view(stacked.shape), rtol=1e-6, atol=1e-8
    ):
        raise Broken(f"{name} of member {seed} differs from its value when it is trained alone")


def check_penalty_compiles(call: str, new: Network) -> None:
    """Require that torch.compile can trace the penalty, or that the class says that it cannot."""
    from torch._dynamo.exc import Unsupported  # takes a second to import

    learner, it = start(call, new, TASK)
    if not it.has("penalty") or not it.traceable:
        return
    try:
        torch.compile(it.penalty, backend="eager", fullgraph=True)(learner)
    except Unsupported as error:
        reason = str(error).splitlines()[0]
        raise Broken(f"torch.compile cannot trace the penalty ({reason}): set `traceable = False`") from error


Check = Callable[[str, Any], None]  # of a call and a Network or Stack
ITSELF = "has a name that can be typed and a docstring"
ON_EACH: dict[str, Check] = {
    "attach accepts or refuses, and writes nothing": check_attach,
    "writes tensors in place": check_tensors_stay,
    "writes finite numbers": check_numbers_finite,
    "names all that it wrote": check_written_names,
    "raises ValueError with nothing written": check_refusal_writes_nothing,
    "draws from the seed alone": check_seed,
    "resumes from a checkpoint bit for bit": check_checkpoint,
    "has a penalty that can be compiled": check_penalty_compiles,
}
ON_A_STACK: dict[str, Check] = {
    "treats members of a stack as separate networks": partial(compare_with_alone, firings={APPLIED: range(SEEDS)}),
    "acts on some members of a stack alone": check_some_members,
}


def conform(call: str, networks: Mapping[str, Network] | None = None) -> list[Finding]:
    """Return whether an intervention keeps the rules, as one finding per rule and network.

    Args:
        call: Its name, with parameters if needed: "my_method(lam=0.5)".
        networks: Functions by name, each of which returns a learner with an optimizer, a probe and a loss, the same at
            every call. By default, those of `conformance_networks.NETWORKS`.

    Raises:
        ValueError: The name is unknown, or its parameters are wrong.
    """
    make_from(call)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the networks are small
    try:
        findings = [_check_promise(ITSELF, check_text_and_docstring, call, ALL, network)]
        for name, new in (networks or NETWORKS).items():
            findings += [_check_promise(text, check, call, name, new) for text, check in ON_EACH.items()]
        for name, stack in STACKS.items() if networks is None else ():
            findings += [_check_promise(text, check, call, name, stack) for text, check in ON_A_STACK.items()]
    finally:
        torch.set_num_threads(threads)
    if all(finding.outcome == "refused" for finding in findings[1:]):
        why = f"it refuses every network here, so that nothing could be tested: {findings[1].why}"
        findings[0] = Finding(ITSELF, ALL, "broken", why)
    return findings


def _check_promise(text: str, check: Check, call: str, name: str, new: Network | Stack) -> Finding:
    try:
        check(call, new)
    except Refused as error:
        return Finding(text, name, "refused", str(error))
    except Exception as error:
        return Finding(text, name, "broken", str(error) if isinstance(error, Broken) else one_line(error))
    return Finding(text, name, "kept")
