"""State that interventions store about parameters and units, when another intervention replaces these."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.engine.storage import checkpoint
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.interventions import Injectable, Intervention, Learner, OtherMinibatch, Units, make, snapshot
from supple.networks.activations import RandomActivation
from tests.interventions.common import X, changed, exact, refused, update
from tests.interventions.common import learner as learner_of

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
        self.mlp = nn.Sequential(nn.Linear(6, 5), units(5), nn.Linear(5, 4))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.encoder(x))


def begin(name: str = "l2_init", activation: str = "relu", **params: Any) -> tuple[Learner, Intervention]:
    """Return a learner and an intervention that remembers something about it."""
    learner = learner_of(lambda: Net(activation), torch.optim.Adam)
    learner.capabilities = Injectable("mlp"), OtherMinibatch(learner.probe)
    learner.batches = lambda count: ((learner.module(X) - 1).square().mean(1) for _ in range(count or 1))
    learner.values = lambda outputs: outputs
    kept = make(name, **REMEMBER.get(name, {}) | params)
    kept.attach(learner)
    return learner, kept


def train(learner: Learner, kept: Intervention, updates: int) -> None:
    update(learner, kept, updates)
    if kept.has("finish_task"):
        kept.finish_task(learner)


def change(learner: Learner, name: str, **params: Any) -> None:
    intervention = make(name, **params)
    intervention.attach(learner)
    intervention.apply(learner)


@pytest.mark.slow
@pytest.mark.parametrize("name", REMEMBER)
@pytest.mark.parametrize("activation", ["relu", "prelu"])
def test_saved_state_fits_after_every_swap_and_injection(name, activation):
    learner, kept = begin(name, activation)
    for swap in ("prelu(granularity=neuron)", "prelu", "rational", "prelu(granularity=neuron)"):
        train(learner, kept, 3)
        change(learner, "swap", activation=swap)
        train(learner, kept, 1)
        change(learner, "injection")
    train(learner, kept, 3)
    assert all(value.isfinite().all() for value in snapshot(learner.module).values())


@pytest.mark.slow
@pytest.mark.parametrize("name", REMEMBER)
def test_a_run_with_two_injections_resumes_from_a_checkpoint_which_two_arms_do_not_write_into(name, tmp_path):
    learner, kept = begin(name)
    again, resumed = begin(name)
    for _ in range(2):
        train(learner, kept, 3)
        change(learner, "injection")
    train(learner, kept, 2)
    tree = {"learner": learner_state(learner), "kept": kept.state_dict()}
    state = checkpoint.load(checkpoint.save(tmp_path, 1, tree, "one"), "one")
    load_learner_state(again, state["learner"])
    before = copy.deepcopy(state["kept"])
    resumed.load_state_dict(state["kept"])
    train(learner, kept, 6)
    train(again, resumed, 6)
    exact(snapshot(again.module), snapshot(learner.module))
    assert str(state["kept"]) == str(before)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "params"), [("swap", {"activation": "prelu(granularity=neuron)"}), ("injection", {})])
def test_a_reused_draw_is_dropped_when_the_architecture_changes(name, params):
    """CBP takes rows of one draw for `maturity` updates, in which the network may change."""
    learner, kept = begin("cbp", replacement_rate=0.3, maturity=0)
    kept.reuse = 1000
    train(learner, kept, 5)
    change(learner, name, **params)
    before = int(kept.numbers(learner)["cbp_replaced"])
    train(learner, kept, 5)
    assert int(kept.numbers(learner)["cbp_replaced"]) > before


def test_hare_tortoise_does_not_return_a_second_head_to_the_average_of_the_first():
    learner, kept = begin("hare_tortoise", momentum=0.9)
    for _ in range(2):
        change(learner, "injection")
        train(learner, kept, 1)
    before = snapshot(learner.module)  # the tortoise of the second head is one update old: it is the hare
    heads = {name for name in before if name.startswith("mlp.new")}
    assert heads <= set(kept.apply(learner))
    assert not heads & changed(learner.module, before)
    assert "encoder.0.weight" in changed(learner.module, before)


def test_ewc_does_not_pull_a_second_head_to_the_values_of_the_first():
    learner, kept = begin("ewc")
    change(learner, "injection")
    train(learner, kept, 3)
    change(learner, "injection")
    with torch.no_grad():
        for parameter in learner.module.parameters():
            parameter.add_(1.0)
    learner.module.zero_grad()
    kept.penalty(learner).backward()
    gradients = {name: p.grad for name, p in learner.module.named_parameters() if p.requires_grad}
    assert gradients["encoder.0.weight"].any()
    assert all(gradient is None for name, gradient in gradients.items() if name.startswith("mlp.new"))


def test_units_of_a_second_head_begin_without_a_history():
    learner, kept = begin("snr", eta=0.1, window=50)
    for updates in (9, 1):
        change(learner, "injection")
        train(learner, kept, updates)
    units = kept.state_dict()["model"]["units"]
    known = {name: int((state["silent"] + state["known"]).max()) for name, state in units.items()}
    assert known["encoder.1"] >= 9
    assert known[learner.identity("mlp.new.1")] == 1


def test_injection_refuses_a_head_that_shares_parameters_with_the_encoder():
    learner, _ = begin()
    injection = make("injection")
    injection.attach(learner)
    change(learner, "swap", activation="prelu(granularity=global)")
    before = snapshot(learner.module)
    for moment in (injection.attach, injection.apply):
        with refused("shares 'encoder.1.weight' with 'mlp', which cannot be frozen alone"):
            moment(learner)
    assert learner.changes == ["swap(activation='prelu(granularity=global)')"]
    assert not changed(learner.module, before)


def test_random_activations_of_an_added_head_use_the_generators_of_the_others():
    """Otherwise a checkpoint would not contain their draws."""
    learner, _ = begin(activation="rand_smooth_leaky")
    learner.activation_draws = [torch.Generator().manual_seed(1)]
    change(learner, "injection")
    parts = [part for part in learner.module.modules() if isinstance(part, RandomActivation)]
    assert len(parts) == 4
    assert all(part.generators is learner.activation_draws for part in parts)
