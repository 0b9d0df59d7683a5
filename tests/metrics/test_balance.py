"""The balance of consecutive linear maps, against plain loops and a least-squares fit."""

import pytest
import torch
from torch import nn

from supple.interventions import learner_for, rebalance_
from supple.metrics import lambda_balance, lambda_residual, measure


def pair(seed: int = 0) -> tuple[nn.Linear, nn.Linear]:
    torch.manual_seed(seed)
    return nn.Linear(5, 4), nn.Linear(4, 6)


def difference(first: nn.Linear, second: nn.Linear) -> torch.Tensor:
    w1, w2, b = (t.detach().double() for t in (first.weight, second.weight, first.bias))
    return w2.T @ w2 - w1 @ w1.T - torch.outer(b, b)


def test_lambda_is_the_nearest_multiple_of_the_identity_and_the_residual_the_rest() -> None:
    first, second = pair()
    d, eye = difference(first, second), torch.eye(4, dtype=torch.float64)
    lam = float((d * eye).sum() / eye.square().sum())  # least squares
    assert lambda_balance(first, second) == pytest.approx(lam)
    assert lambda_residual(first, second) == pytest.approx(float((d - lam * eye).norm()))
    assert lambda_residual(first, second, lam=2.0) == pytest.approx(float((d - 2 * eye).norm()))
    assert lambda_residual(first, second, lam=lam + 0.1) > lambda_residual(first, second)
    without = lambda_balance(first.weight, second.weight)
    assert lambda_balance(first.weight, second.weight, first.bias) == pytest.approx(lam)
    assert without > lam


@pytest.mark.parametrize("lam", [-3.0, 0.0, 2.5])
def test_balanced_maps_have_the_lambda_of_their_balancing(lam: float) -> None:
    first, second = (layer.double() for layer in pair())
    rebalance_(first, second, lam)
    assert lambda_balance(first, second) == pytest.approx(lam, abs=1e-12)
    assert lambda_residual(first, second, lam) < 1e-12


def test_matrices_that_are_no_pair_are_refused() -> None:
    with pytest.raises(ValueError, match=r"must be matrices that fit, got \(4, 5\) and \(4, 5\)"):
        lambda_balance(torch.ones(4, 5), torch.ones(4, 5))
    with pytest.raises(ValueError, match=r"bias must have the shape \(4,\)"):
        lambda_residual(torch.ones(4, 5), torch.ones(3, 4), bias=torch.ones(3))


def test_a_learner_is_measured_on_the_conserved_entries_only() -> None:
    """With a relu between the maps that is the diagonal; without, every entry. The mean over pairs is taken."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 6), nn.Linear(6, 7))
    values = measure(learner_for(module))
    behind, direct = difference(module[0], module[2]), difference(module[2], module[3])
    lams = [float(d.diagonal().mean()) for d in (behind, direct)]
    rms = float((behind.diagonal() - lams[0]).square().mean().sqrt())
    rms_of_all = float(((direct - lams[1] * torch.eye(6)).square().sum() / 6).sqrt())
    assert values["lambda_balance"] == pytest.approx(sum(lams) / 2)
    assert values["lambda_residual"] == pytest.approx((rms + rms_of_all) / 2)


def test_without_pairs_the_metrics_of_balance_are_left_out() -> None:
    values = measure(learner_for(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))))
    assert not {"lambda_balance", "lambda_residual"} & values.keys()
