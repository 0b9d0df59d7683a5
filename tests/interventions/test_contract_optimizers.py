"""A reset optimizer of any known kind steps like a new one, bit for bit; an unknown kind is refused at the start."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from supple.interventions import (
    EntropyTemperature,
    Injectable,
    Learner,
    ReleasedCode,
    learner_for,
    make,
    snapshot,
    zero_slots_,
)
from supple.interventions.muon import MuonWithAdam
from supple.networks import Adam
from tests.interventions.common import changed, exact, refused

Make = Callable[[list[nn.Parameter]], optim.Optimizer]
RATE = 1e-2


class ScheduleFree(optim.Optimizer):
    """Gradients at y, plain steps of z, which starts as a copy of the weights, and their average x for evaluation."""

    def __init__(self, params: Any, lr: float = 0.5) -> None:
        super().__init__(params, {"lr": lr, "step": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["step"] += 1
            for y in group["params"]:
                z = self.state[y].setdefault("z", y.clone())
                x = y.lerp(z, 1 - 1 / 0.9)
                z.sub_(y.grad, alpha=group["lr"])
                y.copy_(z.lerp(x.lerp(z, 1 / group["step"]), 0.9))


class Lion(optim.Optimizer):
    """An optimizer of a user's own that says how it starts."""

    slot_starts = {"average": 0.0}  # noqa: RUF012

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": RATE})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            average = self.state[p].setdefault("average", torch.zeros_like(p))
            p.sub_(average.lerp(p.grad, 0.1).sign_(), alpha=RATE)
            average.lerp_(p.grad, 0.01)


class Anchored(Lion):
    """One whose slots start at the weights, at a setting of the group and at a number."""

    slot_starts = {  # noqa: RUF012
        "anchor": lambda parameter, group: parameter,
        "rate": lambda parameter, group: group["lr"],
        "count": 1,
    }

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for p in self.param_groups[0]["params"]:
            if not (slots := self.state[p]):
                slots |= {"anchor": p.clone(), "rate": torch.full_like(p, self.param_groups[0]["lr"]), "count": 1}
            p.sub_(slots["rate"].mul_(0.9) * (p.grad + 0.1 * (p - slots["anchor"])) / slots["count"])
            slots["count"] += 1


class Clipped(optim.AdamW):
    """A subclass whose arithmetic is AdamW's."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1.0)
        super().zero_grad(set_to_none)


def build_rmsprop_tf_like(p: list[nn.Parameter], **settings: Any) -> optim.Optimizer:
    module = pytest.importorskip("stable_baselines3.common.sb2_compat.rmsprop_tf_like")
    return module.RMSpropTFLike(p, RATE, **settings)


def hugging_face_adafactor(p: list[nn.Parameter]) -> optim.Optimizer:
    return pytest.importorskip("transformers.optimization").Adafactor(p, RATE, relative_step=False, beta1=0.9)


ELEMENTWISE: dict[str, Make] = {
    "SGD": lambda p: optim.SGD(p, RATE),
    "SGD, momentum": lambda p: optim.SGD(p, RATE, momentum=0.9, nesterov=True, foreach=True),
    "Adam": lambda p: optim.Adam(p, RATE),
    "Adam, amsgrad": lambda p: optim.Adam(p, RATE, amsgrad=True, foreach=True),
    "Adam, fused": lambda p: optim.Adam(p, RATE, fused=True, amsgrad=True),
    "AdamW": lambda p: optim.AdamW([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], RATE, maximize=True),
    "Adamax": lambda p: optim.Adamax(p, RATE),
    "NAdam": lambda p: optim.NAdam(p, RATE, foreach=True, decoupled_weight_decay=True),
    "RAdam": lambda p: optim.RAdam(p, RATE),
    "RMSprop": lambda p: optim.RMSprop(p, RATE, momentum=0.9, centered=True),
    "RMSpropTFLike": lambda p: build_rmsprop_tf_like(p, momentum=0.9, centered=True),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adagrad": lambda p: optim.Adagrad(p, RATE, lr_decay=0.1),
    "Adagrad, groups": lambda p: optim.Adagrad(
        [{"params": p[:1], "initial_accumulator_value": 7.0}, {"params": p[1:]}], RATE, initial_accumulator_value=0.5
    ),
    "Adagrad, fused": lambda p: optim.Adagrad(p, RATE, initial_accumulator_value=0.5, fused=True),
    "Rprop": lambda p: optim.Rprop([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], RATE),
    "Rprop, tensor": lambda p: optim.Rprop(p, torch.tensor(RATE), foreach=True),
    "ASGD": lambda p: optim.ASGD(p, RATE, t0=2, lambd=0.1, alpha=0.5, foreach=True),
    "own Adam": lambda p: Adam(p, networks=1),
    "a user's": Lion,
    "a user's, not from zero": Anchored,
}
WHOLE: dict[str, Make] = {
    "AdamW, clipped": Clipped,
    "Adafactor": lambda p: optim.Adafactor(p),
    "Adafactor of transformers": hugging_face_adafactor,
    "Muon": lambda p: optim.Muon([q for q in p if q.requires_grad_(q.ndim == 2).requires_grad], RATE),
    "muon": lambda p: MuonWithAdam(optim.NAdam(p, RATE), {p[0]: False}),
}


def train(optimizer: optim.Optimizer, steps: int = 4) -> None:
    draws = torch.Generator().manual_seed(0)
    for _ in range(steps):
        for p in (p for group in optimizer.param_groups for p in group["params"]):
            p.grad = torch.randn(p.shape, generator=draws, dtype=p.dtype)
        optimizer.step()


def build_trained(kind: str) -> tuple[nn.Module, optim.Optimizer]:
    """Return a network after some steps, with its optimizer."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer = build(kind, module)
    train(optimizer)
    return module, optimizer


def build(kind: str, module: nn.Module) -> optim.Optimizer:
    optimizer = {**ELEMENTWISE, **WHOLE}[kind](list(module.parameters()))
    for group in optimizer.param_groups:
        group["lr"] *= 1.5  # a schedule has moved it
    return optimizer


def slots(optimizer: optim.Optimizer, module: nn.Module) -> dict[tuple[str, str], Tensor]:
    return {
        (name, slot): torch.as_tensor(value)
        for name, p in module.named_parameters()
        for slot, value in optimizer.state.get(p, {}).items()
        if value is not None
    }


@pytest.mark.parametrize("kind", [*ELEMENTWISE, *WHOLE])
def test_a_reset_optimizer_steps_like_a_new_one_in_the_same_tensors(kind):
    module, optimizer = build_trained(kind)
    tensors = {key: id(value) for key, value in slots(optimizer, module).items() if value.ndim}
    reset, learner = make("reset", what="optimizer"), learner_for(module, optimizer)
    reset.attach(learner)
    reset.apply(learner)
    twin = copy.deepcopy(module)
    new = build(kind, twin)
    for steps in (1, 4):
        train(optimizer, steps)
        train(new, steps)
        exact(snapshot(module), snapshot(twin))
        exact(slots(optimizer, module), slots(new, twin))
    assert {key: id(value) for key, value in slots(optimizer, module).items() if key in tensors} == tensors


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_masked_entries_step_like_new_ones_and_the_others_and_counters_if_wanted_keep_their_state(kind, counters):
    module, optimizer = build_trained(kind)
    weight, mask = module[0].weight, torch.arange(6)[:, None] % 2 == 0
    before = copy.deepcopy(slots(optimizer, module))
    zero_slots_(optimizer, [weight], [mask], counters=counters)
    for key, value in slots(optimizer, module).items():
        if key[0] == "0.weight" and value.shape == weight.shape:
            exact(value[1::2], before[key][1::2])
        elif key[0] != "0.weight" or not (counters or "user" in kind):
            exact(value, before[key])
    twin = copy.deepcopy(module)
    train(build(kind, twin), 1)
    train(optimizer, 1)
    if counters:
        exact(weight[::2], twin[0].weight[::2])


def test_the_average_of_asgd_continues_from_the_present_weights():
    module, optimizer = build_trained("ASGD")
    weight = module[0].weight
    with torch.no_grad():
        weight[0] = 3.0
    zero_slots_(optimizer, [weight], [torch.arange(6)[:, None] == 0], counters=False)
    assert optimizer.state[weight]["ax"][0].tolist() == [3.0] * 4


def test_sparse_adam_is_reset():
    def run(module: nn.Embedding, optimizer: optim.Optimizer) -> None:
        optimizer.zero_grad()
        module(torch.tensor([1, 2])).square().sum().backward()
        optimizer.step()

    module = nn.Embedding(5, 3, sparse=True)
    optimizer = optim.SparseAdam(module.parameters())
    run(module, optimizer)
    zero_slots_(optimizer, [module.weight])
    twin = copy.deepcopy(module)
    run(module, optimizer)
    run(twin, optim.SparseAdam(twin.parameters()))
    exact(module.weight, twin.weight)


# -- refusals -------------------------------------------------------------------------------------------------


class OwnSlot(optim.Adam):
    """A subclass with a slot of its own beside those of Adam."""

    def step(self, closure: Any = None) -> Any:
        value = super().step(closure)
        for p in self.param_groups[0]["params"]:
            self.state[p]["previous"] = p.detach().clone()
        return value


class LateSlot(optim.Adam):
    """A subclass with Adam's step and an additional slot."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.register_step_post_hook(self._remember)

    def _remember(self, *_: Any) -> None:
        for p in self.param_groups[0]["params"]:
            self.state[p]["previous"] = p.detach().clone()


class OwnStart(optim.Adam):
    """A subclass whose slots are Adam's, but start elsewhere."""

    def _init_group(self, *args: Any) -> Any:
        raise NotImplementedError


REFUSED: dict[str, tuple[Make, str]] = {
    "schedule-free": (ScheduleFree, "ScheduleFree, and how its state starts"),
    "LBFGS": (lambda p: optim.LBFGS(p), "LBFGS, and how its state starts"),
    "own slot": (OwnSlot, "OwnSlot, and how its state starts"),
    "own start": (OwnStart, "OwnStart, and how its state starts"),
    "dampening": (lambda p: optim.SGD(p, RATE, 0.9, dampening=0.1), "SGD with dampening.*use dampening=0"),
}
TOUCHING = {
    "fire": {}, "snp": {}, "reset": {}, "redo": {}, "regrama": {}, "cbp": {}, "snr": {}, "hare_tortoise": {},
    "dash": {"batches": 1}, "nap": {}, "adam_rel": {}, "muon": {}, "injection": {}, "swap": {"activation": "prelu"},
}  # fmt: skip


def learner_with(build: Make, **more: Any) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    x = torch.randn(8, 4)
    return learner_for(
        module, build(list(module.parameters())), probe=lambda: (x,), loss=lambda: module(x).square().mean(),
        capabilities=(Injectable("4"), *more.pop("capabilities", ())),
        batches=lambda count: iter([module(x).square().mean(-1)]), **more,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hook", "kind"), [(hook, "schedule-free") for hook in TOUCHING] + [("reset", kind) for kind in REFUSED]
)
def test_an_optimizer_that_cannot_be_reset_is_refused_by_name_at_attach(hook, kind):
    make_optimizer, message = REFUSED[kind]
    with refused("ScheduleFree" if hook == "muon" else message):  # which looks for Adam's settings first
        make(hook, **TOUCHING[hook]).attach(learner_with(make_optimizer))


@pytest.mark.parametrize("hook", ["adamo", "l2_init", "weight_clip", "soft_snp", "parseval", "swap", "trac", "upgd"])
def test_interventions_that_keep_the_state_accept_any_optimizer(hook):
    make(hook, **({"activation": "leaky_relu"} if hook == "swap" else {})).attach(learner_with(ScheduleFree))
    make("reset", contract="as_released").attach(learner_with(ScheduleFree, capabilities=(ReleasedCode("dqn"),)))


@pytest.mark.parametrize("hook", ["fire", "redo", "hare_tortoise", "nap", "injection", "dash"])
def test_a_slot_that_appears_during_training_stops_the_reset_before_anything_is_written(hook):
    learner, intervention = learner_with(LateSlot), make(hook, **TOUCHING[hook])
    intervention.attach(learner)  # the class looks like Adam
    train(learner.optimizer)
    with torch.no_grad():
        learner.module[0].bias[:3] = -100.0  # dormant units for redo
    before, state = snapshot(learner.module), copy.deepcopy(slots(learner.optimizer, learner.module))
    with refused("LateSlot, and how its slot 'previous' starts is not known"):
        intervention.apply(learner)
    with refused("slot 'previous'"):
        make(hook, **TOUCHING[hook]).attach(learner)
    with refused("slot 'previous'"):
        zero_slots_(learner.optimizer, list(learner.module.parameters()))
    assert not changed(learner.module, before)
    exact(slots(learner.optimizer, learner.module), state)


@pytest.mark.parametrize("kind", ["Adafactor", "Adafactor of transformers"])
def test_state_of_rows_and_columns_is_reset_for_whole_matrices_but_not_for_units(kind):
    module, optimizer = build_trained(kind)
    learner = learner_for(module, optimizer, probe=lambda: (torch.ones(2, 4),), loss=lambda: torch.zeros(()))
    make("fire").attach(learner)
    for hook in ("redo", "cbp", "snr"):
        with refused("Adafactor, whose state belongs to rows and columns"):
            make(hook).attach(learner)
    before = copy.deepcopy(slots(optimizer, module))
    with refused("that of single entries cannot be reset"):
        zero_slots_(optimizer, [module[0].bias, module[0].weight], [None, torch.arange(6)[:, None] == 0])
    exact(slots(optimizer, module), before)


def test_slot_starts_declare_how_an_unknown_optimizer_starts():
    module, _ = build_trained("SGD")
    optimizer = ScheduleFree(module.parameters())
    train(optimizer)
    optimizer.slot_starts = {"z": lambda parameter, group: parameter}
    make("reset", what="optimizer").apply(learner_for(module, optimizer))
    assert all(torch.equal(optimizer.state[p]["z"], p) for p in module.parameters())


def test_a_temperature_whose_optimizer_cannot_be_reset_is_refused_at_attach():
    alpha = nn.Linear(1, 1)
    temperature = EntropyTemperature(learner_for(alpha, ScheduleFree(alpha.parameters())))
    critic = learner_with(optim.Adam, capabilities=(ReleasedCode("sac"), temperature))
    make("fire").attach(critic)
    with refused("ScheduleFree"):
        make("fire", contract="as_released").attach(critic)


def test_adam_rel_resets_the_products_of_nadam_and_leaves_other_networks_unchanged():
    module, other = nn.Sequential(nn.Linear(4, 2)), nn.Linear(4, 2)
    optimizer = optim.NAdam([*module.parameters(), *other.parameters()])
    train(optimizer)
    make("adam_rel").apply(learner_for(module, optimizer))
    starts = [(float(optimizer.state[p]["step"]), float(optimizer.state[p]["mu_product"])) for p in module.parameters()]
    assert starts == [(0.0, 1.0)] * 2
    for p in other.parameters():
        assert float(optimizer.state[p]["step"]) == 4.0
        assert float(optimizer.state[p]["mu_product"]) < 1.0
