import copy
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import learner_for, make, redraw, shrink_perturb_, snapshot


def build_trained() -> tuple[nn.Sequential, dict[str, Tensor]]:
    """A network after real steps, and its parameters before them."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2))
    initial = snapshot(module)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        module(torch.randn(16, 4)).square().sum().backward()
        optimizer.step()
    return module, initial


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def make_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.slow
@settings(max_examples=15)
@given(lam=st.floats(0, 1))
def test_every_parameter_is_the_mixture_of_the_formula(lam):
    module, initial = build_trained()
    before = snapshot(module)
    assert shrink_perturb_(module, initial, lam) == list(before)
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.detach(), (1 - lam) * before[name] + lam * initial[name])


def test_lam_0_changes_no_bit_and_lam_1_restores_every_bit():
    module, initial = build_trained()
    before = snapshot(module)
    shrink_perturb_(module, initial, lam=0.0)
    assert equal(snapshot(module), before)
    shrink_perturb_(module, initial, lam=1.0)
    assert equal(snapshot(module), initial)


@pytest.mark.slow
@settings(max_examples=15)
@given(lam=st.floats(0.05, 0.95), times=st.integers(1, 8))
def test_repeated_application_contracts_geometrically(lam, times):
    module, initial = build_trained()
    module.double()
    initial = {name: value.double() for name, value in initial.items()}
    before = snapshot(module)
    for _ in range(times):
        shrink_perturb_(module, initial, lam)
    for name, parameter in module.named_parameters():
        expected = (1 - lam) ** times * (before[name] - initial[name])
        torch.testing.assert_close(parameter.detach() - initial[name], expected, rtol=1e-6, atol=1e-12)


def test_toward_zero_shrinks_and_needs_no_initial_values():
    module, _ = build_trained()
    before = snapshot(module)
    shrink_perturb_(module, {}, lam=0.25, toward="zero")
    for name, parameter in module.named_parameters():
        torch.testing.assert_close(parameter.detach(), 0.75 * before[name])


@pytest.mark.parametrize("wrap", [nn.Sequential.train, torch.compile, nn.DataParallel])
def test_initial_may_be_a_module_and_without_the_names_of_wrappers(wrap):
    module, initial = build_trained()
    other = copy.deepcopy(module)
    other.load_state_dict(initial)
    shrink_perturb_(wrap(module), other, lam=1.0)
    assert equal(snapshot(module), initial)


def test_a_fresh_draw_is_new_reproducible_and_leaves_the_global_generator_alone():
    module, initial = build_trained()
    expected = redraw(module, make_generator(5))
    state = torch.get_rng_state()
    shrink_perturb_(module, initial, lam=1.0, toward="fresh", generator=make_generator(5))
    assert torch.equal(torch.get_rng_state(), state)
    assert equal(snapshot(module), expected)
    assert not torch.equal(expected["0.weight"], initial["0.weight"])
    shrink_perturb_(module, initial, lam=1.0, toward="fresh", generator=make_generator(6))
    assert not torch.equal(snapshot(module)["0.weight"], expected["0.weight"])


def test_noise_has_its_standard_deviation_and_is_reproducible():
    module = nn.Linear(200, 200)
    twin, before = copy.deepcopy(module), snapshot(module)
    state = torch.get_rng_state()
    shrink_perturb_(module, before, lam=0.0, noise=0.3, generator=make_generator())
    shrink_perturb_(twin, before, lam=0.0, noise=0.3, generator=make_generator())
    assert torch.equal(torch.get_rng_state(), state)
    assert equal(snapshot(module), snapshot(twin))
    noise = module.weight.detach() - before["weight"]
    # 40,000 draws: five standard errors of a standard deviation and of a mean
    assert float(noise.std()) == pytest.approx(0.3, rel=5 / math.sqrt(2 * 40_000))
    assert abs(float(noise.mean())) < 5 * 0.3 / 200


def test_only_the_named_parameters_are_written():
    module, initial = build_trained()
    before = snapshot(module)
    assert shrink_perturb_(module, initial, lam=1.0, names=["3.bias", "0.weight"]) == ["3.bias", "0.weight"]
    for name, parameter in module.named_parameters():
        assert torch.equal(parameter, (initial if name in ("3.bias", "0.weight") else before)[name]), name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lam": -0.1}, "lam must lie in"),
        ({"toward": "start"}, "unknown toward='start'"),
        ({"names": ["0.weight", "9.weight"]}, "Sequential has no parameter '9.weight'"),
        ({"names": ["0.weight", "9.weight"], "toward": "zero"}, "Sequential has no parameter '9.weight'"),
    ],
)
def test_values_out_of_range_are_refused_with_nothing_changed(wrong, message):
    module, initial = build_trained()
    before = snapshot(module)
    with pytest.raises(ValueError, match=message) as refusal:
        shrink_perturb_(module, initial, **({"lam": 0.5} | wrong))
    assert "\n" not in str(refusal.value)
    assert equal(snapshot(module), before)


def test_a_missing_or_misshapen_initial_value_is_refused_before_anything_is_written():
    module, initial = build_trained()
    before = snapshot(module)
    with pytest.raises(ValueError, match=r"no '3.bias' of shape \(2,\)"):
        shrink_perturb_(module, {name: v for name, v in initial.items() if name != "3.bias"})
    with pytest.raises(ValueError, match=r"no '3.bias' of shape \(2,\)"):
        shrink_perturb_(module, initial | {"3.bias": torch.zeros(3)})
    assert equal(snapshot(module), before)


def test_the_intervention_takes_all_parameters_or_those_of_the_layers_in_scope():
    module, initial = build_trained()
    learner = learner_for(module)
    learner.initial = initial
    before = snapshot(module)
    assert make("snp", lam=1.0, scope="head").apply(learner) == ["3.weight", "3.bias"]
    assert torch.equal(module[0].weight, before["0.weight"])
    make("snp", lam=1.0).apply(learner)
    assert equal(snapshot(module), initial)


def test_the_intervention_draws_from_the_learners_generator():
    results = []
    for _ in range(2):
        module, _ = build_trained()
        learner = learner_for(module, seed=3)
        state = torch.get_rng_state()
        make("snp", toward="fresh", noise=0.1).apply(learner)
        assert torch.equal(torch.get_rng_state(), state)
        results.append(snapshot(module))
    assert equal(*results)
