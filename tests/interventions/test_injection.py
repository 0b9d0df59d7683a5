import copy

import pytest
import torch
from torch import Tensor, nn

from supple.agents.dqn.network import ValueNetwork
from supple.envs import Picture
from supple.interventions import (
    Injectable,
    Injected,
    Learner,
    ReleasedCode,
    Wiring,
    learner_for,
    make,
    restructure,
    snapshot,
)
from supple.metrics import measure
from supple.networks import unit_names

FRAMES = torch.randint(256, (8, 2, 36, 36), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def build() -> Learner:
    """A Nature CNN with a target network, as DQN's learner, at step 0."""

    def network() -> ValueNetwork:
        return ValueNetwork(2 * 36 * 36, 3, (8,), "relu", draws, picture=Picture(2, 36, 36))

    draws = torch.Generator().manual_seed(0)
    module = network()
    return Learner(
        "q", module, torch.optim.Adam(module.parameters(), lr=1e-3), module.layers(), unit_names(module),
        probe=lambda: (FRAMES,), loss=lambda: (module(FRAMES) - 1).square().mean(),
        generator=torch.Generator().manual_seed(1), redraw=lambda: snapshot(network()),
        followers=(copy.deepcopy(module).requires_grad_(False),), capabilities=(ReleasedCode("dqn"), Injectable("mlp")),
    )  # fmt: skip


def train(learner: Learner, steps: int = 3) -> Learner:
    for _ in range(steps):
        learner.optimizer.zero_grad()
        learner.loss().backward()
        learner.optimizer.step()
    return learner


def build_trained() -> Learner:
    """Its target network lags behind."""
    learner = train(build())
    learner.followers[0].load_state_dict(learner.module.state_dict())
    return train(learner)


@torch.no_grad()
def outputs(learner: Learner) -> list[Tensor]:
    return [module(FRAMES) for module in (learner.module, *learner.followers)]


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def state_of(learner: Learner) -> dict[str, dict[str, Tensor]]:
    named = {p: n for n, p in learner.module.named_parameters()}
    return {named[p]: {k: v.clone() for k, v in s.items()} for p, s in learner.optimizer.state.items()}


def select_below(values: dict[str, Tensor], path: str) -> dict[str, Tensor]:
    return {name.removeprefix(path): value for name, value in values.items() if name.startswith(path)}


# -- the moment itself ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("toward", ["initial", "fresh"])
def test_outputs_are_the_same_bit_for_bit_after_every_injection(toward):
    learner = build_trained()
    for _ in range(4):
        before = outputs(learner)[0]
        written = make("injection", toward=toward).apply(learner)
        assert torch.equal(outputs(learner)[0], before)
        assert len(written) == 8
        train(learner)
        assert not torch.equal(outputs(learner)[0], before)
    assert isinstance(learner.module.mlp, Injected)
    assert isinstance(learner.module.mlp.old, Injected)
    assert not isinstance(learner.module.mlp.new, Injected)


@pytest.mark.slow
def test_the_new_head_starts_from_step_0_or_from_a_fresh_draw():
    start = select_below(snapshot(build().module), "mlp.")
    for toward in ("initial", "fresh"):
        learner = build_trained()
        for _ in range(2):
            make("injection", toward=toward).apply(learner)
            values = snapshot(learner.module)
            new, twin = select_below(values, "mlp.new."), select_below(values, "mlp.twin.")
            assert equal(new, twin)
            assert equal(new, start) == (toward == "initial")
            assert equal(new, select_below(learner.initial, "mlp.new."))
            train(learner)


def test_only_the_encoder_and_the_new_head_learn():
    learner = build_trained()
    make("injection").apply(learner)
    before = snapshot(learner.module)
    train(learner)
    moved = {name for name, value in snapshot(learner.module).items() if not torch.equal(value, before[name])}
    assert moved == {name for name in before if not name.startswith(("mlp.old.", "mlp.twin."))}
    assert moved == {name for name, p in learner.module.named_parameters() if p.requires_grad}


def test_gradients_flow_through_the_frozen_heads_to_the_encoder():
    learner = build_trained()
    learner.optimizer.zero_grad()
    learner.loss().backward()
    before = learner.module.encoder[0].weight.grad.clone()
    make("injection").apply(learner)
    learner.optimizer.zero_grad()
    learner.loss().backward()
    torch.testing.assert_close(learner.module.encoder[0].weight.grad, before)
    assert all(p.grad is None for p in learner.module.mlp.old.parameters())


# -- what it resets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_the_optimizer_stays_and_holds_exactly_the_trainable_parameters_in_order(contract):
    learner = build_trained()
    optimizer, before = learner.optimizer, state_of(learner)
    make("injection", contract=contract).apply(learner)
    assert learner.optimizer is optimizer
    assert [id(p) for p in optimizer.param_groups[0]["params"]] == [
        id(p) for p in learner.module.parameters() if p.requires_grad
    ]
    after = state_of(learner)
    assert after.keys() == {name for name in before if name.startswith("encoder.")}
    for name, slots in after.items():
        if contract == "uniform":
            assert equal(slots, before[name])
        else:
            assert not any(bool(value.any()) for value in slots.values())


def test_parameter_groups_keep_their_settings():
    learner = build()
    groups = [{"params": learner.module.mlp.parameters(), "lr": 0.0}, {"params": learner.module.encoder.parameters()}]
    learner.optimizer = torch.optim.SGD(groups, lr=1e-2)
    make("injection").apply(learner)
    before = snapshot(learner.module)
    train(learner, 1)
    moved = {name.split(".")[0] for name, value in snapshot(learner.module).items() if not value.equal(before[name])}
    assert moved == {"encoder"}


def test_as_released_wraps_the_target_around_its_own_old_head():
    learner = build_trained()
    (target,) = learner.followers
    before, old = outputs(learner)[1], snapshot(target)
    make("injection", contract="as_released").apply(learner)
    assert torch.equal(outputs(learner)[1], before)
    assert not torch.equal(outputs(learner)[0], before)
    online, values = snapshot(learner.module), snapshot(target)
    assert equal(select_below(values, "mlp.old."), select_below(old, "mlp."))
    assert equal(select_below(values, "mlp.new."), select_below(online, "mlp.new."))
    assert equal(select_below(values, "encoder."), select_below(old, "encoder."))


def test_the_contract_describes_what_is_reset():
    learner = build_trained()
    rest = {"replay, observation statistics, generators": "kept"}
    assert make("injection").contract(learner) == rest | {
        "weights": "mlp frozen; a new one and its frozen twin added, both from the step-0 values",
        "optimizer state": "kept; that of the new head starts fresh",
        "target network": ":= online network",
    }
    assert make("injection", toward="fresh", contract="as_released").contract(learner) == rest | {
        "weights": "mlp frozen; a new one and its frozen twin added, both from a fresh draw",
        "optimizer state": "fresh (every tensor)",
        "target network": "wrapped around its own old head",
    }


# -- what comes after it -------------------------------------------------------------------------------------


def test_layers_units_and_wiring_name_the_live_parts():
    learner = build_trained()
    for _ in range(2):
        make("injection").apply(learner)
        modules = dict(learner.module.named_modules())
        assert [(layer.name, layer.role) for layer in learner.layers[-2:]] == [
            ("mlp.new.0", "hidden"),
            ("mlp.new.2", "head"),
        ]
        assert all(modules[layer.name] is layer.module for layer in learner.layers)
        assert learner.units == ("encoder.1", "encoder.3", "encoder.5", "mlp.new.1")
        assert learner.wiring["mlp.new.1"] == Wiring(("mlp.new.0",), ("mlp.new.2",))
        assert learner.initial.keys() == modules[""].state_dict().keys()
    readers = {name for name in modules if name.startswith("mlp.") and name.endswith(".0")}
    assert set(learner.wiring["encoder.5"].outgoing) == readers  # frozen heads read the encoder, too
    assert len(readers) == 5
    assert measure(learner, per_layer=True)["gradient_norm"] > 0


def build_injected(times: int = 1) -> Learner:
    learner = build_trained()
    for _ in range(times):
        make("injection", toward="fresh").apply(learner)
        train(learner)
    return learner


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("hook", "params"), [("reset", {}), ("snp", {"lam": 1.0})])
def test_a_full_reset_leads_to_the_function_of_step_0(times, hook, params):
    learner, start = build_injected(times), build()
    make(hook, **params).apply(learner)
    torch.testing.assert_close(outputs(learner)[0], outputs(start)[0], rtol=0, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_recycling_silent_encoder_units_afterwards_changes_no_output_on_the_recent_inputs(times):
    learner = build_injected(times)
    with torch.no_grad():
        learner.module.encoder[4].bias[::2] = -100.0  # these channels never fire
    before = outputs(learner)[0]
    assert "mlp.twin.0.weight" in make("redo", tau=0.0).apply(learner)
    assert learner.module.encoder(FRAMES.flatten(1))[:, ::2].amax(0).gt(0).float().mean() > 0.2  # and now they do
    torch.testing.assert_close(outputs(learner)[0], before, rtol=0, atol=1e-5)


# -- checkpoints ---------------------------------------------------------------------------------------------


def test_changes_are_not_repeated_and_other_ones_are_refused():
    learner = build_trained()
    make("injection").apply(learner)
    restructure(learner, ["injection"])
    assert learner.changes == ["injection"]
    with pytest.raises(ValueError, match="was changed by injection; the checkpoint needs none"):
        restructure(learner, [])
    with pytest.raises(ValueError, match=r"the checkpoint needs injection\(toward=fresh\)$"):
        restructure(learner, ["injection(toward=fresh)"])


@pytest.mark.parametrize("times", [1, 2])
def test_a_new_draw_is_that_of_the_network_before_injection(times):
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)))
    module = copy.deepcopy(plain)
    learner = learner_for(module, torch.optim.Adam(module.parameters()), capabilities=(Injectable("2"),), seed=3)
    for _ in range(times):
        make("injection").apply(learner)
    drawn = learner.redraw()
    for name, value in learner_for(plain, seed=3).redraw().items():
        head = name.removeprefix("2.")
        places = [name] if head == name else [f"2.{part}.{head}" for part in ("new", "twin")]
        assert all(torch.equal(drawn[place], value) for place in places)
    assert type(module[2]).__name__ == "Injected"


# -- other modules -------------------------------------------------------------------------------------------


def test_it_works_on_any_module_whose_part_is_named_and_on_a_single_layer():
    for part in ("1", "1.2"):
        torch.manual_seed(0)
        head = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
        module = nn.Sequential(nn.Sequential(nn.Linear(4, 6), nn.ReLU()), head)
        learner = learner_for(module, torch.optim.Adam(module.parameters()), capabilities=(Injectable(part),), seed=1)
        x = torch.randn(16, 4)
        before = module(x)
        for toward in ("fresh", "initial"):
            make("injection", toward=toward).apply(learner)
            assert torch.equal(module(x), before)
        make("reset", toward="fresh").apply(learner)
        last = "1.new.2" if part == "1" else "1.2.new"
        assert learner.layers[-1].name == last
        assert torch.equal(module.get_submodule(last).weight, module.get_submodule(part).old.new.get_parameter(
            "2.weight" if part == "1" else "weight"
        ))  # fmt: skip


def test_a_learner_that_names_no_part_is_refused_at_attach_in_one_line():
    learner = learner_for(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    with pytest.raises(ValueError, match="injection: 'model' has no part to duplicate") as refusal:
        make("injection").attach(learner)
    assert "\n" not in str(refusal.value)
    with pytest.raises(ValueError, match="no released code applies injection here"):
        make("injection", contract="as_released").attach(learner)
    learner.offer(Injectable("mpl"))
    with pytest.raises(ValueError, match="'model' has no module 'mpl'"):
        make("injection").attach(learner)
    make("injection", contract="as_released").attach(build())


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 3])
def test_parts_keep_their_original_names_in_scopes_and_logs(times):
    """A reset planned for a layer by name finds it after injections too, and curves go on under one name."""
    learner = build_trained()
    before, metrics = [layer.name for layer in learner.layers], measure(learner, per_layer=True).keys()
    for _ in range(times):
        make("injection").apply(learner)
    assert [learner.origins[layer.name] for layer in learner.layers] == before
    assert measure(learner, per_layer=True).keys() == metrics
    reset = make("reset", what="layer", layer="mlp.2")
    reset.attach(learner)
    assert reset.apply(learner) == ["mlp.new.2.weight", "mlp.new.2.bias"]
