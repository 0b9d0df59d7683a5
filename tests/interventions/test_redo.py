import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import Learner, ReleasedCode, Units, Wiring, learner_for, make, recycle_, redraw, snapshot


def mlp() -> tuple[nn.Sequential, Tensor]:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 2))
    return module, torch.randn(32, 4)


def cnn() -> tuple[nn.Sequential, Tensor]:
    """Convolution → convolution → (2 × 3 places) → linear → linear."""
    module = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(30, 7), nn.ReLU(), nn.Linear(7, 2),
    )  # fmt: skip
    return module, torch.randn(16, 1, 6, 7)


NETWORKS = {"mlp": mlp, "cnn": cnn}


def build(kind: str, seed: int = 0, share: float = 0.4) -> Learner:
    """A trained network of which a share of the hidden units never fires, with a target network."""
    torch.manual_seed(seed)
    module, x = NETWORKS[kind]()
    learner = learner_for(
        module, torch.optim.Adam(module.parameters()), probe=lambda: (x,), loss=lambda: (module(x) - 1).square().mean(),
        followers=(copy.deepcopy(module).requires_grad_(False),), seed=seed,
    )  # fmt: skip
    for _ in range(2):
        learner.optimizer.zero_grad()
        learner.loss().backward()
        learner.optimizer.step()
    with torch.no_grad():
        for layer in learner.layers[:-1]:
            layer.module.bias[torch.rand(len(layer.module.bias)) < share] = -100.0
    return learner


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


def slow_redo(learner: Learner, tau: float, fresh: dict[str, Tensor]) -> dict[str, Tensor]:
    """All parameters after ReDo on a plain stack, weight by weight."""
    values = snapshot(learner.module)
    names = [layer.name for layer in learner.layers]
    dormant = dormant_units(learner, tau)
    for before, units in zip(names[:-1], dormant.values(), strict=True):
        for i, asleep in enumerate(units):
            if asleep:
                values[f"{before}.weight"][i] = fresh[f"{before}.weight"][i]
                values[f"{before}.bias"][i] = 0
    for after, units in zip(names[1:], dormant.values(), strict=True):
        weight = values[f"{after}.weight"]
        places = weight.shape[1] // len(units)
        for column in range(weight.shape[1]):
            if units[column // places]:
                weight[:, column] = 0
    return values


def state_of(learner: Learner) -> dict[str, dict[str, Tensor]]:
    named = {p: n for n, p in learner.module.named_parameters()}
    return {named[p]: {k: v.clone() for k, v in s.items()} for p, s in learner.optimizer.state.items()}


@pytest.mark.slow
@settings(max_examples=20)
@given(st.sampled_from(["mlp", "cnn"]), st.integers(0, 1000), st.sampled_from([0.0, 0.1, 0.5]))
def test_it_equals_a_plain_loop_over_units(kind, seed, tau):
    learner = build(kind, seed)
    fresh = redraw(learner.module, torch.Generator().manual_seed(seed))
    expected, before = slow_redo(learner, tau, fresh), snapshot(learner.module)
    written = make("redo", tau=tau).apply(learner)
    after = snapshot(learner.module)
    for name, value in expected.items():
        assert torch.equal(after[name], value), name
    assert {name for name in after if not torch.equal(after[name], before[name])} <= set(written)


def test_consecutive_dead_layers_recover_from_the_input_side_one_at_a_time():
    learner = build("mlp", share=1.0)
    for revived in (1, 2):
        assert make("redo", tau=0.0).apply(learner)
        silent = [all(units) for units in dormant_units(learner, 0.0).values()]
        assert silent == [False] * revived + [True] * (2 - revived)


def test_without_a_dormant_unit_nothing_is_written_not_even_in_the_target():
    learner = build("mlp", share=0.0)
    before = [copy.deepcopy(m.state_dict()) for m in (learner.module, *learner.followers)]
    slots, generator = state_of(learner), learner.generator.get_state()
    assert make("redo", tau=0.0).apply(learner) == []
    for module, values in zip((learner.module, *learner.followers), before, strict=True):
        assert all(torch.equal(value, values[name]) for name, value in module.state_dict().items())
    after = state_of(learner)
    assert all(torch.equal(after[name][key], slots[name][key]) for name in slots for key in slots[name])
    assert torch.equal(learner.generator.get_state(), generator)


# -- the contract --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_moments_of_the_rewritten_entries_are_zeroed_and_the_counters_by_contract(kind, contract):
    learner = replace(build(kind), capabilities=(ReleasedCode("dqn"),))
    slots, names = state_of(learner), [layer.name for layer in learner.layers]
    dormant = {unit: torch.tensor(units) for unit, units in dormant_units(learner, 0.0).items()}
    assert all(units.any() for units in dormant.values())
    written = make("redo", tau=0.0, contract=contract).apply(learner)
    after = state_of(learner)
    masks = {name: torch.zeros_like(p, dtype=torch.bool) for name, p in learner.module.named_parameters()}
    for before_, after_, units in zip(names, names[1:], dormant.values(), strict=False):
        masks[f"{before_}.weight"][units] = True
        masks[f"{before_}.bias"][units] = True
        columns = masks[f"{after_}.weight"]
        columns[:, units.repeat_interleave(columns.shape[1] // len(units))] = True
    assert set(written) == {name for name, mask in masks.items() if mask.any()}
    assert f"{names[-1]}.bias" not in written
    for name, mask in masks.items():
        if contract == "as_released" and name.endswith("bias"):
            mask = torch.zeros_like(mask)
        for key in ("exp_avg", "exp_avg_sq"):
            assert torch.equal(after[name][key], slots[name][key].masked_fill(mask, 0)), (name, key)
        restarted = contract == "uniform" and name in written
        assert after[name]["step"] == (0 if restarted else slots[name]["step"]), name


def test_the_target_becomes_the_online_network_or_is_kept():
    for contract in ("uniform", "as_released"):
        learner = replace(build("cnn"), capabilities=(ReleasedCode("dqn"),))
        before = snapshot(learner.followers[0])
        make("redo", contract=contract).apply(learner)
        expected = snapshot(learner.module) if contract == "uniform" else before
        assert all(torch.equal(value, expected[name]) for name, value in snapshot(learner.followers[0]).items())


def test_the_contract_describes_what_is_reset():
    learner = replace(build("mlp"), capabilities=(ReleasedCode("dqn"),))
    assert make("redo").contract(learner) == {
        "weights": "of dormant units: incoming re-drawn, bias and outgoing 0",
        "optimizer state": "slots of the rewritten entries and step counters zeroed in place",
        "target network": ":= online network",
        "replay, observation statistics, generators": "kept",
    }
    released = make("redo", contract="as_released").contract(learner)
    assert released["target network"] == "kept"
    assert released["optimizer state"] == "slots of the rewritten weights zeroed in place"


# -- other networks ------------------------------------------------------------------------------------------


def test_the_tensor_function_works_on_any_module():
    module = nn.ModuleDict({"a": nn.Linear(2, 3), "left": nn.Linear(3, 4), "right": nn.Linear(3, 5)})
    before = snapshot(module)
    masks = recycle_(
        module, {"a": torch.tensor([True, False, False])}, {"a": Wiring(("a",), ("left", "right"))}, redraw(module)
    )
    assert list(masks) == ["a.weight", "a.bias", "left.weight", "right.weight"]
    for name, value in snapshot(module).items():
        mask = masks.get(name, torch.tensor(False)).expand_as(value)
        assert torch.equal(value[~mask], before[name][~mask])
    assert module["left"].weight[:, 0].eq(0).all()
    with pytest.raises(ValueError, match="'a' has 2 units, but a has 3 outputs"):
        recycle_(module, {"a": torch.tensor([True, False])}, {"a": Wiring(("a",), ("left",))}, redraw(module))


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Sequential(nn.Linear(4, 8), nn.GLU(), nn.Linear(4, 2)),
            r"no private units: '1' \(GLU\) has not one unit for each output of '0'",
        ),
        (nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), "no private units: '0' has no layer before it"),
        (
            nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3, groups=2)),
            "no private units: '2', which reads '1', is a grouped convolution",
        ),
        (nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 1)), "no hidden units: name them"),
    ],
)
def test_networks_without_a_wiring_are_refused_at_attach_in_one_line(module, message):
    with pytest.raises(ValueError, match=f"^redo: 'model' has {message}") as refusal:
        make("redo").attach(learner_for(module, units=("1",) if isinstance(module[1], nn.GLU) else None))
    assert "\n" not in str(refusal.value)


class Doubled(nn.Module):
    """Concatenated ReLU: twice as many units as inputs."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, -x], 1).relu()


def test_an_activation_that_changes_the_width_is_refused():
    module, x = nn.Sequential(nn.Conv2d(1, 3, 3), Doubled(), nn.Flatten(), nn.Linear(6, 2)), torch.randn(4, 1, 3, 3)
    options = {"units": ("1",), "probe": lambda: (x,), "loss": lambda: module(x).mean()}
    with pytest.raises(ValueError, match="its inputs come from the concatenation 'cat'"):
        make("redo").attach(learner_for(module, **options))
    # with a wiring that says otherwise, 6 inputs could be 3 channels of 2 places, until they are seen
    learner, before = learner_for(module, **options, wiring={"1": Wiring(("0",), ("3",))}), snapshot(module)
    redo = make("redo", tau=0.9)
    redo.attach(learner)
    with pytest.raises(ValueError, match="'1' has 6 units, but 0 has 3 outputs"):
        redo.apply(learner)
    assert all(torch.equal(value, before[name]) for name, value in snapshot(module).items())


@pytest.mark.parametrize("text", ["crelu", "swiglu", "deep_fourier"])
def test_activations_without_one_row_for_each_unit_are_refused_in_one_line(text):
    units = Units(text)
    module = nn.Sequential(
        nn.Conv2d(1, units.preactivations(6), 3), units(6, axis=-3), nn.Flatten(), nn.Linear(units.features(6), 2)
    )
    with pytest.raises(ValueError, match=r"^redo: .*'1' \(\w+\) has not one unit for each output of '0'$"):
        make("redo").attach(learner_for(module))


def test_missing_data_and_a_contract_of_nothing_are_refused():
    with pytest.raises(ValueError, match="redo needs recent inputs, but 'model' has none"):
        make("redo").apply(learner_for(mlp()[0]))
    with pytest.raises(ValueError, match="no released code applies redo here"):
        make("redo", contract="as_released").attach(build("mlp"))
