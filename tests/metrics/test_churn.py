"""Metrics of change: ratios of norms, divergences of policies, differences of values; and small gradients."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from supple.interventions import Learner, learner_for
from supple.metrics import measure, policy_churn, small_gradient_fraction, update_ratio, value_churn
from supple.networks.distributions import independent_bits

X = torch.randn(30, 4, generator=torch.Generator().manual_seed(1))
seeds = st.integers(0, 2**31)


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@given(seeds, st.floats(-3, 3))
def test_the_update_ratio_of_scaled_parameters_follows_from_the_factor(seed: int, factor: float) -> None:
    before = [draw(seed, 2, 5), draw(seed + 1, 2, 3)]
    expected = torch.full((2,), abs(factor - 1), dtype=torch.float64)
    torch.testing.assert_close(update_ratio(before, [factor * p for p in before]), expected, rtol=1e-5, atol=1e-6)


@given(seeds)
def test_an_unchanged_policy_has_no_churn_and_a_changed_one_has_some(seed: int) -> None:
    first, second = (Categorical(logits=draw(seed + i, 6, 3)) for i in range(2))
    assert policy_churn(first, first) == 0 < policy_churn(first, second)


CONFIDENT = [([0, 60], [0, 120], 60 * math.exp(-60)), ([0, 0], [0, 120], 60 - math.log(2)),
             ([0, 110], [0, 20], math.log1p(math.exp(-20))), ([0, 0], [0, 1e4], 5e3 - math.log(2)),
             ([0, -math.inf], [0, -math.inf], 0)]  # fmt: skip


@pytest.mark.parametrize(("before", "now", "expected"), CONFIDENT)
def test_the_churn_of_confident_policies_is_exact(before: list[float], now: list[float], expected: float) -> None:
    a, b = torch.tensor([before], dtype=torch.float32), torch.tensor([now], dtype=torch.float32)
    assert float(policy_churn(Categorical(logits=a), Categorical(logits=b))) == pytest.approx(expected, rel=1e-6)
    if not math.isinf(before[1]):
        bits = policy_churn(independent_bits(a[:, 1:]), independent_bits(b[:, 1:]))
        assert float(bits) == pytest.approx(expected, rel=1e-6)


def test_the_update_ratio_of_zero_weights_is_nan() -> None:
    assert update_ratio([torch.tensor([[0.0], [1.0]])], [torch.ones(2, 1)]).isnan().tolist() == [True, False]


def test_churn_of_gaussians_is_the_printed_divergence() -> None:
    a, b = (
        Independent(Normal(torch.full((5, 2), mean), torch.full((5, 2), s)), 1) for mean, s in ((0.0, 1.0), (1.0, 2.0))
    )
    assert float(policy_churn(a, b)) == pytest.approx(2 * (math.log(2) + (1 + 1) / 8 - 0.5))


def test_churn_of_a_greedy_policy_is_the_share_of_changed_actions() -> None:
    assert policy_churn(torch.tensor([0, 1, 2, 1]), torch.tensor([0, 2, 2, 0])) == 0.5
    with pytest.raises(
        ValueError, match="two distributions or the actions of two policies, got Tensor and Categorical"
    ):
        policy_churn(torch.tensor([0]), Categorical(torch.ones(1, 2)))


@given(seeds, st.floats(-100, 100))
def test_values_that_are_shifted_have_the_shift_as_churn(seed: int, shift: float) -> None:
    values = draw(seed, 2, 7).double()
    torch.testing.assert_close(value_churn(values, values + shift), torch.full((2,), abs(shift), dtype=torch.float64))


@given(seeds, st.floats(1e-20, 1e20))
def test_small_gradients_are_small_beside_their_layers_whatever_its_scale(seed: int, scale: float) -> None:
    gradient = draw(seed, 10, 6).double().sign()
    gradient[:3] *= 1e-3
    gradient[3] = 0
    assert small_gradient_fraction(gradient, scale * gradient) == 0.4
    assert small_gradient_fraction(gradient, torch.zeros(10, 2)) == 0.7  # without any gradient nobody learns


def plain() -> tuple[nn.Sequential, Learner]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    target = learner_for(module, probe=lambda: (X,), loss=lambda: module(X).square().mean())
    target.values, target.policy = (lambda outputs: outputs), (lambda outputs, parameters: outputs.argmax(1))
    return module, target


def test_a_learner_is_compared_with_its_marked_parameters() -> None:
    module, target = plain()
    change = {"update_ratio", "policy_churn", "value_churn"}
    assert not change & measure(target).keys()
    target.mark()
    assert {name: measure(target)[name] for name in change} == dict.fromkeys(change, 0)
    module[2].weight.data.neg_()
    module[2].bias.data.neg_()
    now = measure(target)
    head = math.hypot(module[2].weight.norm(), module[2].bias.norm())
    assert now["update_ratio"] == pytest.approx(2 * head / now["weight_norm"])
    assert now["policy_churn"] == 1  # of two actions, the other one
    assert now["value_churn"] == pytest.approx(2 * float(module(X).abs().mean()))
    module[2] = nn.Linear(6, 3)  # another architecture: nothing to compare
    assert not change & measure(target).keys()


def test_a_dead_unit_has_small_gradients() -> None:
    module, target = plain()
    module[0].bias.data[:3] = -100
    assert measure(target)["small_gradient_fraction"] == 0.5
