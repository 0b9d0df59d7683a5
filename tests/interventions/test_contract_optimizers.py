"""A reset optimizer of any known kind steps like a new one, bit for bit; an unknown kind is refused at the start."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from supple.interventions import EntropyTemperature, Injectable, ReleasedCode, learner_for, make, zero_slots_
from supple.interventions.contract import check_optimizer
from supple.interventions.muon import MuonWithAdam
from supple.networks import Adam

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

    def step(self, closure: Any = None) -> Any:
        torch.nn.utils.clip_grad_norm_(self.param_groups[0]["params"], 1.0)
        return super().step(closure)


def build_rmsprop_tf_like(p: list[nn.Parameter], **settings: Any) -> optim.Optimizer:
    module = pytest.importorskip("stable_baselines3.common.sb2_compat.rmsprop_tf_like")
    return module.RMSpropTFLike(p, RATE, **settings)


def hugging_face_adafactor(p: list[nn.Parameter]) -> optim.Optimizer:
    return pytest.importorskip("transformers.optimization").Adafactor(p, RATE, relative_step=False, beta1=0.9)


ELEMENTWISE: dict[str, Make] = {
    "SGD": lambda p: optim.SGD(p, RATE),
    "SGD, momentum": lambda p: optim.SGD(p, RATE, momentum=0.9, nesterov=True, foreach=True),
    "SGD, fused": lambda p: optim.SGD(p, RATE, momentum=0.9, fused=True),
    "Adam": lambda p: optim.Adam(p, RATE),
    "Adam, amsgrad": lambda p: optim.Adam(p, RATE, amsgrad=True, foreach=True),
    "Adam, fused": lambda p: optim.Adam(p, RATE, fused=True, amsgrad=True),
    "AdamW": lambda p: optim.AdamW([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], RATE, maximize=True),
    "Adamax": lambda p: optim.Adamax(p, RATE),
    "NAdam": lambda p: optim.NAdam(p, RATE),
    "NAdam, foreach": lambda p: optim.NAdam(p, RATE, foreach=True, decoupled_weight_decay=True),
    "RAdam": lambda p: optim.RAdam(p, RATE),
    "RMSprop": lambda p: optim.RMSprop(p, RATE, momentum=0.9, centered=True),
    "RMSpropTFLike": build_rmsprop_tf_like,
    "RMSpropTFLike, momentum": lambda p: build_rmsprop_tf_like(p, momentum=0.9, centered=True),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Adagrad": lambda p: optim.Adagrad(p, RATE, lr_decay=0.1),
    "Adagrad, accumulator": lambda p: optim.Adagrad(p, RATE, initial_accumulator_value=0.5),
    "Adagrad, groups": lambda p: optim.Adagrad(
        [{"params": p[:1], "initial_accumulator_value": 7.0}, {"params": p[1:]}], RATE, initial_accumulator_value=0.5
    ),
    "Adagrad, fused": lambda p: optim.Adagrad(p, RATE, initial_accumulator_value=0.5, fused=True),
    "Rprop": lambda p: optim.Rprop([{"params": p[:1]}, {"params": p[1:], "lr": 0.1}], RATE),
    "Rprop, tensor": lambda p: optim.Rprop(p, torch.tensor(RATE), foreach=True),
    "ASGD": lambda p: optim.ASGD(p, RATE, t0=2, lambd=0.1, alpha=0.5),
    "ASGD, foreach": lambda p: optim.ASGD(p, RATE, t0=2, lambd=0.1, foreach=True),
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


def gradients(parameters: list[nn.Parameter]) -> Iterator[None]:
    draws = torch.Generator().manual_seed(0)
    while True:
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=draws, dtype=p.dtype)
        yield


def train(parameters: list[nn.Parameter], optimizer: optim.Optimizer, steps: int = 4) -> None:
    for _ in zip(range(steps), gradients(parameters), strict=False):
        optimizer.step()


def build_trained(kind: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, optim.Optimizer, Make]:
    """Return a network after some steps, with its optimizer and a function that makes such an optimizer."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)).to(dtype)
    build = {**ELEMENTWISE, **WHOLE}[kind]
    optimizer = build(list(module.parameters()))
    for group in optimizer.param_groups:
        group["lr"] *= 1.5  # a schedule has moved it
    train(list(module.parameters()), optimizer)
    return module, optimizer, build


def slots(optimizer: optim.Optimizer, module: nn.Module) -> dict[tuple[str, str], Any]:
    return {
        (name, slot): value
        for name, p in module.named_parameters()
        for slot, value in optimizer.state.get(p, {}).items()
        if value is not None
    }


def build_twin(module: nn.Module, build: Make) -> tuple[nn.Module, optim.Optimizer]:
    twin = copy.deepcopy(module)
    new = build(list(twin.parameters()))
    for group in new.param_groups:
        group["lr"] *= 1.5
    return twin, new


def same(ones: dict[Any, Any], others: dict[Any, Any]) -> bool:
    return ones.keys() == others.keys() and all(
        torch.equal(torch.as_tensor(value), torch.as_tensor(others[key])) for key, value in ones.items()
    )


@pytest.mark.parametrize("kind", [*ELEMENTWISE, *WHOLE])
def test_a_reset_optimizer_steps_like_a_new_one_in_the_same_tensors(kind: str) -> None:
    module, optimizer, build = build_trained(kind)
    tensors = {key: value for key, value in slots(optimizer, module).items() if isinstance(value, Tensor)}
    reset = make("reset", what="optimizer")
    learner = learner_for(module, optimizer)
    reset.attach(learner)
    reset.apply(learner)
    assert all(slots(optimizer, module)[key] is value for key, value in tensors.items())
    twin, new = build_twin(module, build)
    for steps in (1, 4):
        train(list(module.parameters()), optimizer, steps)
        train(list(twin.parameters()), new, steps)
        assert same(module.state_dict(), twin.state_dict())
        assert same(slots(optimizer, module), slots(new, twin))


@pytest.mark.parametrize("kind", ["Adagrad, accumulator", "Rprop", "Rprop, tensor", "Adam"])
def test_complex_parameters_start_as_pytorch_starts_them(kind: str) -> None:
    module, optimizer, build = build_trained(kind, torch.complex64)
    zero_slots_(optimizer, list(module.parameters()))
    twin, new = build_twin(module, build)
    train(list(module.parameters()), optimizer, 1)
    train(list(twin.parameters()), new, 1)
    assert same(module.state_dict(), twin.state_dict())
    assert same(slots(optimizer, module), slots(new, twin))


@pytest.mark.parametrize("kind", ELEMENTWISE)
def test_masked_entries_step_like_new_ones_and_the_others_keep_their_state(kind: str) -> None:
    module, optimizer, build = build_trained(kind)
    weight, mask = module[0].weight, torch.arange(6)[:, None] % 2 == 0
    before = copy.deepcopy(slots(optimizer, module))
    zero_slots_(optimizer, [weight], [mask])
    for (name, slot), value in slots(optimizer, module).items():
        old = before[name, slot]
        if name != "0.weight":
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(old)), slot
        elif isinstance(value, Tensor) and value.shape == weight.shape:
            assert torch.equal(value[1::2], old[1::2]), slot
    twin, new = build_twin(module, build)
    train(list(module.parameters()), optimizer, 1)
    train(list(twin.parameters()), new, 1)
    torch.testing.assert_close(weight[::2], twin[0].weight[::2], rtol=0, atol=0)


@pytest.mark.parametrize("kind", [kind for kind in ELEMENTWISE if "user" not in kind])
def test_counters_and_what_follows_from_them_can_be_kept(kind: str) -> None:
    module, optimizer, _ = build_trained(kind)
    before = copy.deepcopy(slots(optimizer, module))
    mask = torch.zeros(6, 4, dtype=torch.bool)
    mask[2, 1] = True
    zero_slots_(optimizer, [module[0].weight], [mask], counters=False)
    for key, value in slots(optimizer, module).items():
        old = before[key]
        if key[0] == "0.weight" and isinstance(value, Tensor) and value.shape == mask.shape:
            assert torch.equal(value[~mask], old[~mask]), key
        else:
            assert torch.equal(torch.as_tensor(value), torch.as_tensor(old)), key


def test_the_average_of_asgd_continues_from_the_present_weights() -> None:
    module, optimizer, _ = build_trained("ASGD")
    weight = module[0].weight
    with torch.no_grad():
        weight[0] = 3.0
    mask = torch.arange(6)[:, None] == 0
    zero_slots_(optimizer, [weight], [mask], counters=False)
    assert torch.equal(optimizer.state[weight]["ax"][0], torch.full((4,), 3.0))


def test_sparse_adam_is_reset() -> None:
    def run(module: nn.Embedding, optimizer: optim.Optimizer) -> None:
        optimizer.zero_grad()
        module(torch.tensor([1, 2])).square().sum().backward()
        optimizer.step()

    torch.manual_seed(0)
    module = nn.Embedding(5, 3, sparse=True)
    optimizer = optim.SparseAdam(module.parameters())
    run(module, optimizer)
    zero_slots_(optimizer, [module.weight])
    twin = copy.deepcopy(module)
    new = optim.SparseAdam(twin.parameters())
    run(module, optimizer)
    run(twin, new)
    assert torch.equal(module.weight, twin.weight)


# -- refusals -------------------------------------------------------------------------------------------------


class OwnSlot(optim.Adam):
    """A subclass with a slot of its own beside those of Adam."""

    def step(self, closure: Any = None) -> Any:
        value = super().step(closure)
        for p in self.param_groups[0]["params"]:
            self.state[p]["previous"] = p.detach().clone()
        return value


class LateSlot(optim.Adam):
    """A subclass whose additional slot is not visible in its step."""

    def step(self, closure: Any = None) -> Any:
        value = super().step(closure)
        self._remember()
        return value

    def _remember(self) -> None:
        for p in self.param_groups[0]["params"]:
            self.state[p]["previous"] = p.detach().clone()


class OwnStart(optim.Adam):
    """A subclass whose slots are Adam's, but start elsewhere."""

    def _init_group(self, *args: Any) -> Any:
        raise NotImplementedError


class OwnSteps(optim.SGD):
    """A subclass with another arithmetic."""

    def step(self, closure: Any = None) -> Any:
        for p in self.param_groups[0]["params"]:
            self.state[p]["z"] = p.detach().clone()


REFUSED: dict[str, tuple[Make, str]] = {
    "schedule-free": (ScheduleFree, "ScheduleFree, and how its state starts"),
    "LBFGS": (lambda p: optim.LBFGS(p), "LBFGS, whose state belongs to all tensors together"),
    "own slot": (OwnSlot, "OwnSlot, and how its state starts"),
    "own start": (OwnStart, "OwnStart, and how its state starts"),
    "own arithmetic": (OwnSteps, "OwnSteps, and how its state starts"),
    "dampening": (lambda p: optim.SGD(p, RATE, 0.9, dampening=0.1), "SGD with dampening.*use dampening=0"),
}
TOUCHING = {
    "fire": {}, "snp": {}, "reset": {}, "redo": {}, "regrama": {}, "cbp": {}, "snr": {}, "hare_tortoise": {},
    "dash": {"batches": 1}, "nap": {}, "adam_rel": {}, "muon": {}, "injection": {}, "swap": {"activation": "prelu"},
}  # fmt: skip


def learner_with(build: Make, **more: Any) -> Any:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    x = torch.randn(8, 4)
    return learner_for(
        module, build(list(module.parameters())), probe=lambda: (x,), loss=lambda: module(x).square().mean(),
        capabilities=(Injectable("4"),), batches=lambda count: iter([module(x).square().mean(-1)]), **more,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("hook", TOUCHING)
@pytest.mark.parametrize("kind", REFUSED)
def test_an_optimizer_that_cannot_be_reset_is_refused_by_name_at_attach(kind: str, hook: str) -> None:
    build, message = REFUSED[kind]
    learner = learner_with(build)
    if hook == "muon":  # which looks for Adam's settings first
        message = type(learner.optimizer).__name__
    with pytest.raises(ValueError, match=message) as error:
        make(hook, **TOUCHING[hook]).attach(learner)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("hook", ["l2_init", "weight_clip", "soft_snp", "parseval", "swap", "trac", "upgd"])
def test_interventions_that_keep_the_state_accept_any_optimizer(hook: str) -> None:
    learner = learner_with(ScheduleFree)
    before = copy.deepcopy(learner.optimizer.state_dict())
    make(hook, **({"activation": "leaky_relu"} if hook == "swap" else {})).attach(learner)
    torch.testing.assert_close(learner.optimizer.state_dict(), before, rtol=0, atol=0)
    released = replace(learner_with(ScheduleFree), capabilities=(ReleasedCode("dqn"),))
    make("reset", contract="as_released").attach(released)


@pytest.mark.parametrize("hook", ["fire", "reset", "redo", "hare_tortoise", "nap", "injection", "dash"])
def test_a_slot_that_appears_during_training_stops_the_reset_before_anything_is_written(hook: str) -> None:
    learner = learner_with(LateSlot)
    intervention = make(hook, **TOUCHING[hook])
    intervention.attach(learner)  # the class looks like Adam
    train(list(learner.module.parameters()), learner.optimizer)
    with torch.no_grad():
        learner.module[0].bias[:3] = -100.0  # dormant units for redo
    weights, state = copy.deepcopy((learner.module.state_dict(), slots(learner.optimizer, learner.module)))
    with pytest.raises(ValueError, match="LateSlot, and how its slot 'previous' starts is not known"):
        intervention.apply(learner)
    with pytest.raises(ValueError, match="slot 'previous'"):
        make(hook, **TOUCHING[hook]).attach(learner)
    with pytest.raises(ValueError, match="slot 'previous'"):
        zero_slots_(learner.optimizer, list(learner.module.parameters()))
    assert same(learner.module.state_dict(), weights)
    assert same(slots(learner.optimizer, learner.module), state)


@pytest.mark.parametrize("kind", ["Adafactor", "Adafactor of transformers"])
def test_state_of_rows_and_columns_is_reset_for_whole_matrices_but_not_for_units(kind: str) -> None:
    module, optimizer, _ = build_trained(kind)
    learner = learner_for(module, optimizer, probe=lambda: (torch.ones(2, 4),), loss=lambda: torch.zeros(()))
    make("fire").attach(learner)
    for hook in ("redo", "cbp", "snr"):
        with pytest.raises(ValueError, match="Adafactor, whose state belongs to rows and columns"):
            make(hook).attach(learner)
    before = copy.deepcopy(slots(optimizer, module))
    mask = torch.arange(6)[:, None] == 0
    with pytest.raises(ValueError, match="that of single entries cannot be reset"):
        zero_slots_(optimizer, [module[0].bias, module[0].weight], [None, mask])
    assert same(slots(optimizer, module), before)


def test_slot_starts_declare_how_an_unknown_optimizer_starts() -> None:
    module, _, _ = build_trained("SGD")
    optimizer = ScheduleFree(module.parameters())
    train(list(module.parameters()), optimizer)
    optimizer.slot_starts = {"z": lambda parameter, group: parameter}
    make("reset", what="optimizer").apply(learner_for(module, optimizer))
    assert all(torch.equal(optimizer.state[p]["z"], p) for p in module.parameters())
    optimizer.slot_starts = True
    with pytest.raises(ValueError, match="slot_starts must be a dict, slot → value, but is True"):
        check_optimizer(optimizer)


def test_a_temperature_whose_optimizer_cannot_be_reset_is_refused_at_attach() -> None:
    alpha = nn.Linear(1, 1)
    temperature = learner_for(alpha, ScheduleFree(alpha.parameters()))
    critic = replace(learner_with(optim.Adam), capabilities=(ReleasedCode("sac"), EntropyTemperature(temperature)))
    make("fire").attach(critic)
    with pytest.raises(ValueError, match="ScheduleFree"):
        make("fire", contract="as_released").attach(critic)


def test_adam_rel_resets_the_products_of_nadam_and_leaves_other_networks_unchanged() -> None:
    module, other = nn.Sequential(nn.Linear(4, 2)), nn.Linear(4, 2)
    optimizer = optim.NAdam([*module.parameters(), *other.parameters()])
    train([*module.parameters(), *other.parameters()], optimizer)
    make("adam_rel").apply(learner_for(module, optimizer))
    for p in module.parameters():
        assert (float(optimizer.state[p]["step"]), float(optimizer.state[p]["mu_product"])) == (0.0, 1.0)
    for p in other.parameters():
        assert float(optimizer.state[p]["step"]) == 4.0
        assert float(optimizer.state[p]["mu_product"]) < 1.0
