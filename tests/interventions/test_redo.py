import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import Learner, ReleasedCode, Wiring, learner_for, make, recycle_, redraw, snapshot
from tests.interventions.common import changed, exact, refused, slots, update
from tests.interventions.common import learner as learner_of

NETWORKS = {
    "mlp": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 2)),
    "cnn": lambda: nn.Sequential(  # convolution → convolution → (2 × 3 places) → linear → linear
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(30, 7), nn.ReLU(), nn.Linear(7, 2),
    ),
}  # fmt: skip
SHAPES = {"mlp": (32, 4), "cnn": (16, 1, 6, 7)}


def learner(kind: str, seed: int = 0, share: float = 0.4) -> Learner:
    """A trained network of which a share of the hidden units never fires, with a target network."""
    inputs = torch.randn(SHAPES[kind], generator=torch.Generator().manual_seed(seed))
    target = learner_of(NETWORKS[kind], torch.optim.Adam, inputs, lr=1e-3)
    target.capabilities = (ReleasedCode("dqn"),)
    target.followers = (copy.deepcopy(target.module).requires_grad_(False),)
    update(target, count=2)
    torch.manual_seed(seed)
    with torch.no_grad():
        for layer in target.layers[:-1]:
            layer.module.bias[torch.rand(len(layer.module.bias)) < share] = -100.0
    return target


def dormant_units(learner: Learner, tau: float) -> dict[str, list[bool]]:
    """unit module → which units are dormant, one at a time."""
    x, dormant = learner.probe()[0], {}
    with torch.no_grad():
        for name, part in learner.module.named_children():
            x = part(x)
            if name in learner.units:
                means = [float(x.select(1, i).abs().mean()) for i in range(x.shape[1])]
                dormant[name] = [m / (sum(means) / len(means) + 1e-9) <= tau for m in means]
    return dormant


def written_entries(learner: Learner, tau: float) -> dict[str, tuple[Tensor, Tensor]]:
    """Masks of the entries of a plain network that ReDo draws anew, and of those that it sets to 0, unit by unit."""
    names = [layer.name for layer in learner.layers]
    masks = {n: torch.zeros(2, *p.shape, dtype=torch.bool) for n, p in learner.module.named_parameters()}
    for before, after, units in zip(names, names[1:], dormant_units(learner, tau).values(), strict=False):
        for i, asleep in enumerate(units):
            masks[f"{before}.weight"][0, i] = masks[f"{before}.bias"][1, i] = asleep
            masks[f"{after}.weight"][1].unflatten(1, (len(units), -1))[:, i] = asleep
    return masks


@pytest.mark.slow
@settings(max_examples=20)
@given(st.sampled_from(["mlp", "cnn"]), st.integers(0, 1000), st.sampled_from([0.0, 0.1, 0.5]))
def test_it_equals_a_plain_loop_over_units(kind, seed, tau):
    target = learner(kind, seed)
    fresh = redraw(target.module, torch.Generator().manual_seed(0))
    masks, before = written_entries(target, tau), snapshot(target.module)
    written = make("redo", tau=tau).apply(target)
    for name, (drawn, zero) in masks.items():
        before[name] = before[name].where(~drawn, fresh[name]).masked_fill(zero, 0)
    exact(snapshot(target.module), before)
    assert set(written) == {name for name, mask in masks.items() if mask.any()}


def test_consecutive_dead_layers_recover_from_the_input_side_one_at_a_time():
    target = learner("mlp", share=1.0)
    for revived in (1, 2):
        assert make("redo", tau=0.0).apply(target)
        silent = [all(units) for units in dormant_units(target, 0.0).values()]
        assert silent == [False] * revived + [True] * (2 - revived)


def test_without_a_dormant_unit_nothing_is_written_not_even_in_the_target():
    target = learner("mlp", share=0.0)
    before = [snapshot(target.module), snapshot(target.followers[0]), slots(target), target.generator.get_state()]
    assert make("redo", tau=0.0).apply(target) == []
    exact([snapshot(target.module), snapshot(target.followers[0]), slots(target), target.generator.get_state()], before)


# -- the contract --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_moments_of_the_rewritten_entries_are_zeroed_and_counters_and_target_by_contract(kind, contract):
    target = learner(kind)
    before, masks, old = slots(target), written_entries(target, 0.0), snapshot(target.followers[0])
    redo = make("redo", tau=0.0, contract=contract)
    row, written = redo.contract(target), redo.apply(target)
    for name, slot in slots(target).items():
        mask, released = masks[name].any(0), contract == "as_released"
        for key in ("exp_avg", "exp_avg_sq"):
            kept = released and name.endswith("bias")
            exact(slot[key], before[name][key] if kept else before[name][key].masked_fill(mask, 0))
        assert slot["step"] == (0 if name in written and not released else before[name]["step"]), name
    exact(snapshot(target.followers[0]), old if released else snapshot(target.module))
    assert row == {
        "weights": "of dormant units: incoming re-drawn, bias and outgoing 0",
        "optimizer state": "slots of the rewritten weights zeroed in place"
        if released
        else "slots of the rewritten entries and step counters zeroed in place",
        "target network": "kept" if released else ":= online network",
        "replay, observation statistics, generators": "kept",
    }


# -- other networks ------------------------------------------------------------------------------------------


def test_the_tensor_function_works_on_any_module():
    module = nn.ModuleDict({"a": nn.Linear(2, 3), "left": nn.Linear(3, 4), "right": nn.Linear(3, 5)})
    before, wiring = snapshot(module), {"a": Wiring(("a",), ("left", "right"))}
    masks = recycle_(module, {"a": torch.tensor([True, False, False])}, wiring, redraw(module))
    assert list(masks) == ["a.weight", "a.bias", "left.weight", "right.weight"]
    for name, value in snapshot(module).items():
        mask = masks.get(name, torch.tensor(False)).expand_as(value)
        assert torch.equal(value[~mask], before[name][~mask])
    assert not module["left"].weight[:, 0].any()
    with refused("'a' has 2 units, but a has 3 outputs"):
        recycle_(module, {"a": torch.tensor([True, False])}, wiring, redraw(module))


class Doubled(nn.Module):
    """Concatenated ReLU: twice as many units as inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, -x], 1).relu()


def test_an_activation_that_changes_the_width_is_refused():
    """With a wiring that says otherwise, 6 inputs could be 3 channels of 2 places, until they are seen."""
    module, x = nn.Sequential(nn.Conv2d(1, 3, 3), Doubled(), nn.Flatten(), nn.Linear(6, 2)), torch.randn(4, 1, 3, 3)
    options = {"units": ("1",), "probe": lambda: (x,), "loss": lambda: module(x).mean()}
    redo, before = make("redo", tau=0.9), snapshot(module)
    with refused("its inputs come from 'cat'"):
        redo.attach(learner_for(module, **options))
    with refused("'1' has 6 units, but 0 has 3 outputs"):
        redo.apply(learner_for(module, **options, wiring={"1": Wiring(("0",), ("3",))}))
    assert not changed(module, before)
