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
from tests.interventions.common import changed, exact, refused, slots, update

FRAMES = torch.randint(256, (8, 2, 36, 36), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def learner(trained: bool = True) -> Learner:
    """A Nature CNN with a target network that lags behind, as DQN's learner; or at step 0."""

    def network() -> ValueNetwork:
        return ValueNetwork(2 * 36 * 36, 3, (8,), "relu", draws, picture=Picture(2, 36, 36))

    draws = torch.Generator().manual_seed(0)
    module = network()
    target = Learner(
        "q", module, torch.optim.Adam(module.parameters(), lr=1e-3), module.layers(), unit_names(module),
        probe=lambda: (FRAMES,), loss=lambda: (module(FRAMES) - 1).square().mean(),
        generator=torch.Generator().manual_seed(1), redraw=lambda: snapshot(network()),
        followers=(copy.deepcopy(module).requires_grad_(False),), capabilities=(ReleasedCode("dqn"), Injectable("mlp")),
    )  # fmt: skip
    if trained:
        update(target, count=3)
        target.followers[0].load_state_dict(module.state_dict())
        update(target, count=3)
    return target


@torch.no_grad()
def outputs(learner: Learner) -> list[Tensor]:
    return [module(FRAMES) for module in (learner.module, *learner.followers)]


def below(values: dict[str, Tensor], path: str) -> dict[str, Tensor]:
    return {name.removeprefix(path): value for name, value in values.items() if name.startswith(path)}


# -- the moment itself ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("toward", ["initial", "fresh"])
def test_outputs_stay_bit_for_bit_and_the_encoder_and_a_new_head_from_step_0_or_a_fresh_draw_learn(toward):
    target, start = learner(), below(snapshot(learner(trained=False).module), "mlp.")
    for _ in range(3):
        module, before = target.module, outputs(target)[0]
        assert len(make("injection", toward=toward).apply(target)) == 8
        assert torch.equal(outputs(target)[0], before)
        values = snapshot(module)
        new = below(values, "mlp.new.")
        exact(new, below(values, "mlp.twin."))
        exact(new, below(target.initial, "mlp.new."))
        assert all(map(torch.equal, new.values(), start.values())) == (toward == "initial")
        update(target, count=3)
        learning = {name for name in values if not name.startswith(("mlp.old.", "mlp.twin."))}
        assert changed(module, values) == learning == {n for n, p in module.named_parameters() if p.requires_grad}
    assert [type(part) is Injected for part in (module.mlp, module.mlp.old, module.mlp.new)] == [True, True, False]


def test_gradients_flow_through_the_frozen_heads_to_the_encoder():
    target = learner()
    weight = target.module.encoder[0].weight
    before = torch.autograd.grad(target.loss(), weight)
    make("injection").apply(target)
    torch.testing.assert_close(torch.autograd.grad(target.loss(), weight), before)


# -- what it resets ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_the_optimizer_stays_and_holds_exactly_the_trainable_parameters_in_order(contract):
    target = learner()
    optimizer, before = target.optimizer, slots(target)
    make("injection", contract=contract).apply(target)
    assert target.optimizer is optimizer
    held = [id(p) for p in optimizer.param_groups[0]["params"]]
    assert held == [id(p) for p in target.module.parameters() if p.requires_grad]
    kept = {name: state for name, state in before.items() if name.startswith("encoder.")}
    for state in kept.values() if contract == "as_released" else ():
        for value in state.values():
            value.zero_()
    exact(slots(target), kept)


def test_parameter_groups_keep_their_settings():
    target = learner(trained=False)
    groups = [{"params": target.module.mlp.parameters(), "lr": 0.0}, {"params": target.module.encoder.parameters()}]
    target.optimizer = torch.optim.SGD(groups, lr=1e-2)
    make("injection").apply(target)
    before = snapshot(target.module)
    update(target)
    assert {name.split(".")[0] for name in changed(target.module, before)} == {"encoder"}


def test_as_released_wraps_the_target_around_its_own_old_head():
    target = learner()
    (follower,) = target.followers
    before, old = outputs(target)[1], snapshot(follower)
    make("injection", contract="as_released").apply(target)
    after = outputs(target)
    assert torch.equal(after[1], before)
    assert not torch.equal(after[0], before)
    values = snapshot(follower)
    exact(below(values, "mlp.old."), below(old, "mlp."))
    exact(below(values, "mlp.new."), below(snapshot(target.module), "mlp.new."))
    exact(below(values, "encoder."), below(old, "encoder."))


@pytest.mark.parametrize(
    ("params", "row"),
    [
        ({}, {
            "weights": "mlp frozen; a new one and its frozen twin added, both from the step-0 values",
            "optimizer state": "kept; that of the new head starts fresh",
            "target network": ":= online network",
        }),
        ({"toward": "fresh", "contract": "as_released"}, {
            "weights": "mlp frozen; a new one and its frozen twin added, both from a fresh draw",
            "optimizer state": "fresh (every tensor)",
            "target network": "wrapped around its own old head",
        }),
    ],
)  # fmt: skip
def test_the_contract_describes_what_is_reset(params, row):
    assert make("injection", **params).contract(learner(False)) == row | {
        "replay, observation statistics, generators": "kept"
    }


# -- what comes after it -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_layers_units_and_wiring_name_the_live_parts_which_keep_their_original_names_in_scopes_and_logs():
    """A reset planned for a layer by name finds it after injections too, and curves go on under one name."""
    target = learner()
    before, metrics = [layer.name for layer in target.layers], measure(target, per_layer=True).keys()
    for _ in range(2):
        make("injection").apply(target)
        modules = dict(target.module.named_modules())
        assert [(layer.name, layer.role) for layer in target.layers[-2:]] == [
            ("mlp.new.0", "hidden"),
            ("mlp.new.2", "head"),
        ]
        assert all(modules[layer.name] is layer.module for layer in target.layers)
        assert target.units == ("encoder.1", "encoder.3", "encoder.5", "mlp.new.1")
        assert target.wiring["mlp.new.1"] == Wiring(("mlp.new.0",), ("mlp.new.2",))
        assert target.initial.keys() == modules[""].state_dict().keys()
        assert [target.origins[layer.name] for layer in target.layers] == before
        assert measure(target, per_layer=True).keys() == metrics
    readers = {name for name in modules if name.startswith("mlp.") and name.endswith(".0")}
    assert set(target.wiring["encoder.5"].outgoing) == readers  # frozen heads read the encoder, too
    assert len(readers) == 5
    reset = make("reset", what="layer", layer="mlp.2")
    reset.attach(target)
    assert reset.apply(target) == ["mlp.new.2.weight", "mlp.new.2.bias"]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize(("hook", "params"), [("reset", {}), ("snp", {"lam": 1.0}), ("redo", {"tau": 0.0})])
def test_a_full_reset_leads_to_the_function_of_step_0_and_recycling_silent_units_changes_no_output(times, hook, params):
    target = learner()
    for _ in range(times):
        make("injection", toward="fresh").apply(target)
        update(target, count=3)
    with torch.no_grad():
        target.module.encoder[4].bias[::2] = -100.0  # these channels never fire
    before = outputs(target if hook == "redo" else learner(trained=False))[0]
    written = make(hook, **params).apply(target)
    torch.testing.assert_close(outputs(target)[0], before, rtol=0, atol=1e-5 if hook == "redo" else 1e-6)
    if hook == "redo":
        assert "mlp.twin.0.weight" in written
        assert target.module.encoder(FRAMES.flatten(1))[:, ::2].amax(0).gt(0).float().mean() > 0.2  # and now they do


# -- checkpoints and other modules ---------------------------------------------------------------------------


def test_changes_are_not_repeated_and_other_ones_are_refused():
    target = learner(trained=False)
    make("injection").apply(target)
    restructure(target, ["injection"])
    assert target.changes == ["injection"]
    with refused("was changed by injection; the checkpoint needs none"):
        restructure(target, [])
    with refused(r"the checkpoint needs injection\(toward=fresh\)$"):
        restructure(target, ["injection(toward=fresh)"])


@pytest.mark.parametrize("part", ["2", "2.2"])  # a module, and a single layer
def test_it_works_on_any_part_that_is_named_and_a_new_draw_is_that_of_the_network_before(part):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)))
    module, x = copy.deepcopy(plain), torch.randn(16, 4)
    target = learner_for(module, torch.optim.Adam(module.parameters()), capabilities=(Injectable(part),), seed=3)
    for toward in ("fresh", "initial"):
        before = module(x)
        make("injection", toward=toward).apply(target)
        assert torch.equal(module(x), before)
    target.generator.manual_seed(3)
    for source in target.redraw_draws:
        source.manual_seed(3)
    drawn = target.redraw()
    for name, value in learner_for(plain, seed=3).redraw().items():
        head = name.removeprefix(f"{part}.")
        places = [name] if head == name else [f"{part}.{half}.{head}" for half in ("new", "twin")]
        assert all(torch.equal(drawn[place], value) for place in places)
    make("reset", toward="fresh").apply(target)
    injected = module.get_submodule(part)
    assert target.layers[-1].name == {"2": "2.new.2", "2.2": "2.2.new"}[part]
    exact(injected.new.state_dict(), injected.old.new.state_dict())


def test_a_head_that_begins_with_swapped_units_can_be_injected_again():
    head = nn.Sequential(nn.ReLU(), nn.Linear(6, 2))
    module, x = nn.Sequential(nn.Linear(4, 6), head), torch.ones(3, 4)
    target = learner_for(
        module, torch.optim.Adam(module.parameters()), probe=lambda: (x,), loss=lambda: module(x).square().mean(),
        capabilities=(Injectable("1"),),
    )  # fmt: skip
    make("injection").apply(target)
    make("swap", activation="prelu").apply(target)
    before = module(x)
    make("injection").apply(target)
    exact(module(x), before)
    exact(module[1].new[1].weight, module[1].old.old[1].weight)
