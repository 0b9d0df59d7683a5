import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import learner_for, make, redraw, shrink_perturb_, snapshot
from tests.interventions.common import changed, exact, learner, normed, refused, update


def build_trained() -> tuple[nn.Module, dict[str, Tensor]]:
    """A network after real steps, and its parameters before them."""
    target = learner(normed, torch.optim.Adam)
    update(target, count=5)
    return target.module, target.initial


def make_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.slow
@settings(max_examples=15)
@given(lam=st.floats(0, 1), times=st.integers(1, 8))
def test_every_parameter_is_the_mixture_of_the_formula_and_repeated_application_contracts_geometrically(lam, times):
    module, initial = build_trained()
    before = snapshot(module)
    for _ in range(times):
        assert shrink_perturb_(module, initial, lam) == list(before)
    for name, parameter in module.named_parameters():
        expected = (1 - lam) ** times * (before[name] - initial[name])
        torch.testing.assert_close(parameter.detach() - initial[name], expected, rtol=1e-6, atol=1e-12)


def test_lam_0_changes_no_bit_and_lam_1_restores_every_bit():
    module, initial = build_trained()
    before = snapshot(module)
    shrink_perturb_(module, initial, lam=0.0)
    assert not changed(module, before)
    shrink_perturb_(module, initial, lam=1.0)
    assert not changed(module, initial)


def test_toward_zero_shrinks_and_needs_no_initial_values():
    module, _ = build_trained()
    before = snapshot(module)
    shrink_perturb_(module, {}, lam=0.25, toward="zero")
    torch.testing.assert_close(snapshot(module), {name: 0.75 * value for name, value in before.items()})


@pytest.mark.slow
@pytest.mark.parametrize("wrap", [nn.Sequential.train, torch.compile, nn.DataParallel])
def test_initial_may_be_a_module_and_without_the_names_of_wrappers(wrap):
    module, initial = build_trained()
    other = copy.deepcopy(module)
    other.load_state_dict(initial)
    shrink_perturb_(wrap(module), other, lam=1.0)
    assert not changed(module, initial)


def test_a_fresh_draw_is_new_reproducible_and_leaves_the_global_generator_alone():
    module, initial = build_trained()
    expected = redraw(module, make_generator(5))
    state = torch.get_rng_state()
    shrink_perturb_(module, initial, lam=1.0, toward="fresh", generator=make_generator(5))
    assert torch.equal(torch.get_rng_state(), state)
    exact(snapshot(module), expected)
    assert not torch.equal(expected["0.weight"], initial["0.weight"])
    shrink_perturb_(module, initial, lam=1.0, toward="fresh", generator=make_generator(6))
    assert "0.weight" in changed(module, expected)


def test_noise_has_its_standard_deviation_and_is_reproducible():
    module = nn.Linear(200, 200)
    twin, before, state = copy.deepcopy(module), snapshot(module), torch.get_rng_state()
    for one in (module, twin):
        shrink_perturb_(one, before, lam=0.0, noise=0.3, generator=make_generator())
    assert torch.equal(torch.get_rng_state(), state)
    exact(snapshot(module), snapshot(twin))
    noise = module.weight.detach() - before["weight"]
    # 40,000 draws: five standard errors of a standard deviation and of a mean
    assert float(noise.std()) == pytest.approx(0.3, rel=5 / math.sqrt(2 * 40_000))
    assert abs(float(noise.mean())) < 5 * 0.3 / 200


def test_only_the_named_parameters_or_those_in_scope_are_written():
    module, initial = build_trained()
    before = snapshot(module)
    assert shrink_perturb_(module, initial, lam=1.0, names=["3.bias", "0.weight"]) == ["3.bias", "0.weight"]
    restored = before | {name: initial[name] for name in ("3.bias", "0.weight")}
    assert not changed(module, restored)
    target = learner_for(module)
    target.initial = initial
    assert make("snp", lam=1.0, scope="head").apply(target) == ["3.weight", "3.bias"]
    assert not changed(module, restored | {"3.weight": initial["3.weight"]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lam": -0.1}, "lam must lie in"),
        ({"toward": "start"}, "unknown toward='start'"),
        ({"names": ["0.weight", "9.weight"]}, "Sequential has no parameter '9.weight'"),
        ({"initial": {}}, r"no '0.weight' of shape \(8, 4\)"),
        ({"initial": snapshot(normed()) | {"3.bias": torch.zeros(3)}}, r"no '3.bias' of shape \(4,\)"),
    ],
)
def test_wrong_values_are_refused_with_nothing_changed(options, message):
    module, initial = build_trained()
    before = snapshot(module)
    with refused(message):
        shrink_perturb_(module, **({"initial": initial, "lam": 0.5} | options))
    assert not changed(module, before)
