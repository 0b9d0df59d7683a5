"""State that interventions store about parameters and units, when another intervention replaces these."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.engine.storage import checkpoint
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.interventions import Injectable, Intervention, Learner, OtherMinibatch, Units, learner_for, make
from supple.networks.activations import RandomActivation

SWAPS = ["prelu(granularity=neuron)", "prelu", "rational", "prelu(granularity=neuron)"]
REMEMBER: dict[str, dict[str, Any]] = {
    "cbp": {"replacement_rate": 0.2, "maturity": 2},
    "snr": {"eta": 0.2, "window": 5},
    "ewc": {"samples": 8},
    "upgd": {},
    "hare_tortoise": {"momentum": 0.5},
    "spectral": {"strength": 0.1},
    "wasserstein": {"strength": 0.1},
    "soft_snp": {"epsilon": 0.1},
    "cpr": {"rate": 0.3, "period": 2},
    "chain": {},
}


class Net(nn.Module):
    """An encoder, and the head that an injection duplicates."""

    def __init__(self, activation: str) -> None:
        super().__init__()
        units = Units(activation)
        self.encoder = nn.Sequential(nn.Linear(4, 6), units(6))
        self.mlp = nn.Sequential(nn.Linear(6, 5), units(5), nn.Linear(5, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.encoder(x))


class World:
    def __init__(self, name: str = "l2_init", activation: str = "relu", **params: Any) -> None:
        torch.manual_seed(0)
        self.net = Net(activation)
        self.x, self.y = torch.randn(16, 4), torch.randint(3, (16,))
        optimizer = torch.optim.Adam(self.net.parameters(), lr=0.05)
        self.learner: Learner = learner_for(
            self.net, optimizer, probe=lambda: (self.x,), loss=lambda: self.losses().mean(), batches=self.batches,
            capabilities=(Injectable("mlp"), OtherMinibatch(lambda: (self.x,))),
        )  # fmt: skip
        self.learner.values = lambda outputs: outputs
        self.kept: Intervention = make(name, **params)
        self.kept.attach(self.learner)

    def losses(self) -> Tensor:
        return F.cross_entropy(self.net(self.x), self.y, reduction="none")

    def batches(self, count: int | None) -> Iterator[Tensor]:
        for _ in range(count or 1):
            yield self.losses()

    def train(self, updates: int) -> None:
        kept, learner = self.kept, self.learner
        for _ in range(updates):
            assert learner.optimizer
            if kept.has("before_loss"):
                kept.before_loss(learner)
            loss = learner.loss() + (kept.penalty(learner) if kept.has("penalty") else 0)
            learner.optimizer.zero_grad()
            loss.backward()
            if kept.has("before_update"):
                kept.before_update(learner)
            learner.optimizer.step()
            if kept.has("after_update"):
                kept.after_update(learner)
        if kept.has("finish_task"):
            kept.finish_task(learner)

    def change(self, name: str, **params: Any) -> None:
        intervention = make(name, **params)
        intervention.attach(self.learner)
        intervention.apply(self.learner)

    def values(self) -> dict[str, Tensor]:
        return {name: p.detach().clone() for name, p in self.net.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize("name", REMEMBER)
@pytest.mark.parametrize("activation", ["relu", "prelu"])
def test_saved_state_fits_after_every_swap_and_injection(name: str, activation: str) -> None:
    world = World(name, activation, **REMEMBER[name])
    for swap in SWAPS:
        world.train(3)
        world.change("swap", activation=swap)
        world.train(1)
        world.change("injection")
    world.train(3)
    assert all(value.isfinite().all() for value in world.values().values())


@pytest.mark.slow
def test_a_reused_draw_is_dropped_when_the_architecture_changes() -> None:
    """CBP takes rows of one draw for `maturity` updates, in which the network may change."""
    for change in ({"name": "swap", "activation": "prelu(granularity=neuron)"}, {"name": "injection"}):
        world = World("cbp", replacement_rate=0.3, maturity=0)
        world.kept.reuse = 1000  # type: ignore[attr-defined]
        world.train(5)
        world.change(**change)
        before = int(world.kept.numbers(world.learner)["cbp_replaced"])
        world.train(5)
        assert int(world.kept.numbers(world.learner)["cbp_replaced"]) > before


def test_hare_tortoise_does_not_return_a_second_head_to_the_average_of_the_first() -> None:
    world = World("hare_tortoise", momentum=0.9)
    for _ in range(2):
        world.change("injection")
        world.train(1)
    before = world.values()  # the tortoise of the second head is one update old: it is the hare
    written = world.kept.apply(world.learner)
    after = world.values()
    assert {name for name in before if "mlp.new" in name} <= set(written)
    assert all(torch.equal(after[name], before[name]) for name in before if name.startswith("mlp.new"))
    assert not torch.equal(after["encoder.0.weight"], before["encoder.0.weight"])


def test_ewc_does_not_pull_a_second_head_to_the_values_of_the_first() -> None:
    world = World("ewc", samples=8)
    world.change("injection")
    world.train(3)
    world.change("injection")
    with torch.no_grad():
        for parameter in world.net.parameters():
            parameter.add_(1.0)
    world.net.zero_grad()
    world.kept.penalty(world.learner).backward()
    gradients = {name: p.grad for name, p in world.net.named_parameters() if p.requires_grad}
    assert gradients["encoder.0.weight"] is not None
    assert gradients["encoder.0.weight"].any()
    assert all(gradient is None for name, gradient in gradients.items() if name.startswith("mlp.new"))


def test_units_of_a_second_head_begin_without_a_history() -> None:
    world = World("snr", eta=0.1, window=50)
    world.change("injection")
    world.train(9)
    world.change("injection")
    world.train(1)
    units = world.kept.state_dict()["model"]["units"]
    known = {name: int((state["silent"] + state["known"]).max()) for name, state in units.items()}
    assert known["encoder.1"] >= 9
    assert known[world.learner.identity("mlp.new.1")] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["upgd", "hare_tortoise", "ewc", "cbp", "snr", "spectral", "cpr", "chain"])
def test_two_arms_from_one_state_do_not_write_into_each_other(name: str) -> None:
    world = World(name, **REMEMBER[name])
    world.train(3)
    state = copy.deepcopy(world.kept.state_dict())
    kept = copy.deepcopy(state)
    arm = World(name, **REMEMBER[name])
    arm.kept.load_state_dict(state)
    arm.train(3)
    assert str(state) == str(kept)


def test_injection_refuses_a_head_that_shares_parameters_with_the_encoder() -> None:
    message = "shares 'encoder.1.weight' with 'mlp', which cannot be frozen alone"
    world = World(activation="prelu(granularity=global)")
    with pytest.raises(ValueError, match=message):
        make("injection").attach(world.learner)
    later = World()
    injection = make("injection")
    injection.attach(later.learner)
    later.change("swap", activation="prelu(granularity=global)")
    before = later.values()
    with pytest.raises(ValueError, match=message):
        injection.apply(later.learner)
    assert later.learner.changes == ["swap(activation='prelu(granularity=global)')"]
    assert all(torch.equal(value, before[name]) for name, value in later.values().items())


def test_random_activations_of_an_added_head_use_the_generators_of_the_others() -> None:
    """Otherwise a checkpoint would not contain their draws."""
    world = World(activation="rand_smooth_leaky")
    world.learner.activation_draws = [torch.Generator().manual_seed(1)]
    world.change("injection")
    parts = [part for part in world.net.modules() if isinstance(part, RandomActivation)]
    assert len(parts) == 4
    assert all(part.generators is world.learner.activation_draws for part in parts)


@pytest.mark.slow
@pytest.mark.parametrize("name", REMEMBER)
def test_a_run_with_two_injections_resumes_from_a_checkpoint(name: str, tmp_path: Any) -> None:
    world, again = World(name, **REMEMBER[name]), World(name, **REMEMBER[name])
    for _ in range(2):
        world.train(3)
        world.change("injection")
    world.train(2)
    folder = checkpoint.save(
        tmp_path, 1, {"learner": learner_state(world.learner), "kept": world.kept.state_dict()}, "one"
    )
    state = checkpoint.load(folder, "one")
    load_learner_state(again.learner, state["learner"])
    again.kept.load_state_dict(state["kept"])
    for run in (world, again):
        run.train(6)
    for parameter, value in world.values().items():
        assert torch.equal(again.values()[parameter], value), parameter
