"""The heads of value networks beside slow references from the equations of the papers."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

from supple.networks.value_heads import (
    CategoricalHead,
    HLGaussHead,
    QuantileHead,
    ValueHead,
    gaussian_histogram,
    project,
)

HEADS = [
    ValueHead(),
    ValueHead(huber=True),
    CategoricalHead(21, low=-5.0, high=5.0),
    HLGaussHead(21, low=-5.0, high=5.0),
]
HEADS += [QuantileHead(7)]
IDS = ["mse", "huber", "categorical", "hl_gauss", "quantile"]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_projection_is_equation_7_of_c51():
    """As in Dopamine's `project_distribution`: mass i is Σⱼ [1 − |clip(Tzⱼ) − zᵢ| / Δz]₀¹ pⱼ."""
    low, high, atoms = -10.0, 10.0, 51
    support, step = np.linspace(low, high, atoms), (high - low) / (atoms - 1)
    rewards, discounts = 4 * random(3, 8), torch.tensor([0.99, 0.0, 0.5, 1.0]).repeat(2)
    rewards[0] = torch.arange(8)  # lands on fixed returns with discount 0 and 1, and on the last
    masses = random(3, 8, atoms).softmax(-1)
    returns, masses = (rewards[..., None] + discounts[:, None] * torch.from_numpy(support)).float(), masses.float()
    ours = project(returns, masses, low, high, atoms)
    for member in range(3):
        for row in range(8):
            clipped = returns[member, row].double().clamp(low, high).tolist()
            wanted = [
                sum(
                    p * max(0.0, 1 - abs(z - target) / step)
                    for z, p in zip(clipped, masses[member, row].tolist(), strict=True)
                )
                for target in support
            ]
            np.testing.assert_allclose(ours[member, row], wanted, atol=1e-6)


def test_the_histogram_is_a_gaussian_cut_off_at_both_ends():
    edges = np.linspace(-2.0, 3.0, 11)
    ours = gaussian_histogram(torch.tensor([[0.3, -2.0], [2.9, 7.0]]), -2.0, 3.0, 10)
    for row, mean in zip(ours.flatten(0, 1).numpy(), [0.3, -2.0, 2.9, 3.0], strict=True):
        masses = np.diff(norm.cdf(edges, mean, 0.75 * 0.5))
        np.testing.assert_allclose(row, masses / masses.sum(), atol=1e-6)


def test_the_quantile_loss_is_equation_10_of_qr_dqn():
    head, ours, returns = QuantileHead(5), 2 * random(2, 5), 2 * random(2, 4, 7).mT[0, :2].clone()
    for row, (quantiles, samples) in enumerate(zip(ours.tolist(), returns.tolist(), strict=True)):
        wanted = 0.0
        for i, quantile in enumerate(quantiles):
            for u in (sample - quantile for sample in samples):
                huber = 0.5 * u**2 if abs(u) <= 1 else abs(u) - 0.5
                wanted += abs((2 * i + 1) / 10 - (u < 0)) * huber / len(samples)
        assert head.losses(ours, returns)[row].item() == pytest.approx(wanted)


@pytest.mark.parametrize("head", HEADS, ids=IDS)
def test_a_target_has_the_expectation_r_plus_gamma_times_the_value(head: ValueHead):
    outputs, rewards = random(3, 4, head.outputs), random(3, 4).clamp(-2, 2)
    discounts = torch.tensor([0.5, 0.0, 0.25, 0.5]).double()  # with which no return leaves the range
    wanted = rewards + discounts * head.values(outputs)
    targets = head.targets(rewards, discounts, outputs)
    if isinstance(head, CategoricalHead):  # masses, whose logarithms are outputs
        targets = head.values(targets.clamp_min(1e-30).log())
        tolerance = 1e-2 if isinstance(head, HLGaussHead) else 1e-9
        torch.testing.assert_close(targets, wanted, atol=tolerance, rtol=0)
    else:
        torch.testing.assert_close(targets if targets.ndim == 2 else targets.mean(-1), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS, ids=IDS)
def test_training_on_a_target_leads_to_its_value(head: ValueHead):
    outputs = torch.zeros(2, 3, head.outputs, requires_grad=True)
    rewards = torch.tensor([[-3.0, 0.5, 2.0], [1.0, 4.0, -0.2]])
    with torch.no_grad():
        targets = head.targets(rewards, torch.zeros(3), outputs)
    optimizer = torch.optim.Adam([outputs], lr=0.1)
    for _ in range(300):
        optimizer.zero_grad()
        head.losses(outputs, targets).sum().backward()
        optimizer.step()
    torch.testing.assert_close(head.values(outputs), rewards, atol=0.05, rtol=0)


@pytest.mark.parametrize("head", HEADS, ids=IDS)
def test_a_member_that_is_not_finite_leaves_the_others_as_they_are(head: ValueHead):
    outputs, rewards, discounts = random(2, 4, head.outputs), random(2, 4), torch.ones(2, 4)
    sound = head.losses(outputs, head.targets(rewards, discounts, outputs))
    outputs[0], rewards[0] = torch.nan, torch.inf
    lost = head.losses(outputs, head.targets(rewards, discounts, outputs))
    assert not lost[0].isfinite().any()
    assert torch.equal(lost[1], sound[1])
