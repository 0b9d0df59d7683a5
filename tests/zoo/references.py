"""What interventions and metrics must compute on the networks of the zoo, computed again by plain means."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from supple.interventions import fire_, make, recycle_
from supple.metrics import measure
from supple.networks import evaluating
from supple.networks.hidden_units import hidden_units, observe
from tests.zoo.measures import refusal
from tests.zoo.networks import SEED, Kind, Subject
from tests.zoo.state import bits
from tests.zoo.trials import Broken, Outcome, Refusal, new, some

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2}
CONV = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
GATES = {nn.LSTM: 4, nn.GRU: 3, nn.RNN: 1, nn.LSTMCell: 4, nn.GRUCell: 3, nn.RNNCell: 1}


# -- FIRE ------------------------------------------------------------------------------------------------------------


def isometry(weight: Tensor) -> Tensor:
    """Return √(d_out/d_in) U Vᵀ of a matrix (d_out, d_in), by an SVD in float64."""
    u, _, v = torch.linalg.svd(weight.detach().double(), full_matrices=False)
    return (weight.shape[0] / weight.shape[1]) ** 0.5 * (u @ v)


def by_parts(weight: Tensor, parts: int) -> Tensor:
    return torch.cat([isometry(part) for part in weight.chunk(parts)])


def by_taps(weight: Tensor) -> Tensor:
    """Return the isometries of a kernel (C_out, C_in, *kernel), tap by tap, over the number of taps."""
    flat = weight.flatten(2)
    taps = [isometry(flat[..., i]) / flat.shape[-1] for i in range(flat.shape[-1])]
    return torch.stack(taps, -1).view(weight.shape)


def expected(owner: nn.Module, name: str, old: Tensor) -> list[Tensor]:
    """Return what FIRE may make of a weight: one value, or one for each number of matrices that it may hold."""
    kind = type(owner).__name__
    if isinstance(owner, CONV):
        return [by_taps(old)]
    for recurrent, gates in GATES.items():
        if isinstance(owner, recurrent):
            return [by_parts(old, 1 if name.startswith("weight_hr") else gates)]
    if name == "in_proj_weight":
        return [by_parts(old, 3)]
    if kind == "Conv1D":  # of transformers, stored as (d_in, d_out)
        return [by_parts(old.T, parts).T for parts in (1, 2, 3) if old.shape[1] % parts == 0]
    if old.ndim == 2:
        return [by_parts(old, parts) for parts in (1, 2, 3) if old.shape[0] % parts == 0]
    raise Broken(f"fire_ wrote {name} of {kind}, for which the zoo has no reference")


def fire(it: Subject) -> str:
    """`fire_` writes isometries, and leaves everything else."""
    old = {name: p.detach().clone() for name, p in it.module.named_parameters(remove_duplicate=False)}
    try:
        written = fire_(it.module, method="polar")
    except ValueError:
        after = dict(it.module.named_parameters(remove_duplicate=False))
        if changed := [name for name in old if bits(old[name]) != bits(after[name])]:
            raise Broken(f"fire_ refused half-way: {some(changed)}") from None
        raise
    names = list(written)
    now = dict(it.module.named_parameters(remove_duplicate=False))
    objects = {id(now[name]) for name in names}
    for name, parameter in now.items():
        if id(parameter) not in objects:
            if bits(parameter) != bits(old[name]):
                raise Broken(f"fire_ wrote {name}, but does not name it")
            continue
        if not parameter.requires_grad:
            raise Broken(f"fire_ wrote the frozen {name}")
    for name in names:
        path, _, last = name.rpartition(".")
        owner = it.module.get_submodule(path)
        tolerance = TOLERANCE[old[name].dtype] * max(1.0, float(old[name].abs().max()))
        errors = [float((now[name].detach().double() - e).abs().max()) for e in expected(owner, last, old[name])]
        if not min(errors) < tolerance:
            raise Broken(f"fire_: {name} is off its isometry by {min(errors):.2g}")
    return f"{len(names)} of {sum(p.ndim > 1 for p in it.module.parameters())} matrices"


# -- resets ----------------------------------------------------------------------------------------------------------


def fresh(it: Subject) -> str:
    """`reset(toward=fresh)` never passes trained values, or those of step 0, off as fresh ones."""
    kind = it.kind
    with torch.random.fork_rng(devices=[]):
        drawn = []
        for seed in (SEED + 1, SEED + 2):
            torch.manual_seed(seed)
            drawn.append({name: p.detach().clone() for name, p in kind.make().named_parameters()})
    random = {name for name, value in drawn[0].items() if not torch.equal(value, drawn[1][name])}
    trained = {name: p.detach().clone() for name, p in it.learner.trained().items()}
    intervention = make("reset", toward="fresh")
    intervention.attach(it.learner)
    written = set(intervention.apply(it.learner))
    stale = []
    for name, old in trained.items():
        now = it.module.get_parameter(name)
        same = torch.equal(now, old) or (name in it.learner.initial and torch.equal(now, it.learner.initial[name]))
        if name in random and name in written and same:
            stale.append(name)
        if name in written and name in drawn[0] and name not in random and not torch.equal(now, drawn[0][name]):
            raise Broken(f"reset(toward=fresh): {name} starts at a constant, but another law was used")
        if name in random and name in written and name in drawn[0]:
            sizes = sorted(float(values[name].double().square().mean()) for values in drawn)
            size = float(now.detach().double().square().mean())
            if now.numel() >= 16 and not sizes[0] / 4 < size < sizes[1] * 4:
                raise Broken(
                    f"reset(toward=fresh): {name} is drawn by another law (size {size:.2g}, not {sizes[0]:.2g})"
                )
    if stale:
        raise Broken(f"reset(toward=fresh) leaves old values of {', '.join(stale[:3])}")
    return ""


# -- units -----------------------------------------------------------------------------------------------------------


def by_hand(it: Subject) -> list[Tensor]:
    """Return the outputs of every call of an activation, computed by hand."""
    assert it.kind.hidden is not None
    with evaluating(it.module), torch.no_grad():
        return it.kind.hidden(it.module, *it.inputs)


def dormant(it: Subject) -> str:
    """`dormant_fraction` counts the units of every call of an activation."""
    layers = []
    for h in by_hand(it):
        h = h.abs().double()
        # as `activity_scores` reads shapes: channels first from four dimensions on
        layers.append((h.flatten(2).sum((0, 2)) if h.ndim >= 4 else h.flatten(0, -2).sum(0)) == 0)
    right = float(torch.cat(layers).double().mean())
    numbers = measure(it.learner)
    if "dormant_fraction" not in numbers:
        raise Broken("dormant_fraction is not measured")
    if abs(numbers["dormant_fraction"] - right) > 1e-9:
        raise Broken(f"dormant_fraction is {numbers['dormant_fraction']:.4f}, by hand it is {right:.4f}")
    return ""


def recycled(it: Subject) -> str:
    """`recycle_` of units that are silent on the inputs leaves the outputs on these inputs."""
    learner = it.learner
    if not learner.wiring:
        raise ValueError("; ".join(f"'{unit}' {why}" for unit, why in list(learner.unwired.items())[:1]) or "no units")

    groups = hidden_units(learner, "recycle_")
    silent = observe(learner, groups, it.inputs, lambda rows: rows.abs().amax(-2) == 0)
    masks = {unit: mask for unit, mask in silent.items() if mask.any()}
    before = it.outputs()
    frozen = {n: bits(p) for n, p in it.module.named_parameters() if not p.requires_grad}
    recycle_(it.module, masks, learner.wiring, {**learner.initial, **learner.redraw()})
    if any(bits(it.module.get_parameter(name)) != value for name, value in frozen.items()):
        raise Broken("recycle_ wrote frozen parameters")
    after = it.outputs()
    if not it.kind.coupled:
        for a, b in zip(before, after, strict=True):
            worst = float((a - b).abs().max())
            if worst > it.kind.tolerance * max(1.0, float(a.abs().max())):
                raise Broken(f"recycle_ of silent units moved the outputs by {worst:.2g}")
    return f"{sum(int(mask.sum()) for mask in masks.values())} units"


# -- all -------------------------------------------------------------------------------------------------------------


def checks(kind: Kind) -> Iterator[tuple[str, Callable[[Subject], str]]]:
    yield "fire_ is an isometry", fire
    yield "reset(toward=fresh) draws", fresh
    if kind.hidden is not None:
        yield "dormant_fraction by hand", dormant
    yield "recycle_ of silent units", recycled


def outcome_of(kind: Kind, words: str, check: Callable[[], str]) -> Outcome:
    """Return what comes of a check."""
    try:
        return Outcome(kind.name, words, "acts", check())
    except (Broken, Refusal) as error:
        return Outcome(kind.name, words, "broken", str(error))
    except Exception as error:
        wrong = refusal(error)
        return Outcome(kind.name, words, "broken" if wrong else "refused", wrong or str(error))


def referred(kind: Kind, only: Sequence[str] = ()) -> list[Outcome]:
    """Return whether the references (or these) are met on a network."""
    chosen = [(words, check) for words, check in checks(kind) if not only or words in only]
    return [outcome_of(kind, words, lambda check=check: check(new(kind))) for words, check in chosen]


def without_fresh(kind: Kind) -> Outcome:
    """Return what comes of a fresh draw where the learner was not given the function that makes the network anew."""
    return outcome_of(kind, "reset(toward=fresh) without fresh=", lambda: fresh(new(kind, fresh=None)))
