from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import learner_for, make, snapshot
from supple.interventions.dash import shrink_
from tests.interventions.common import learner, slots, update

X = torch.randn(40, 2, 5, 5, generator=torch.Generator().manual_seed(1))


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6), nn.ReLU(), nn.Linear(6, 3)
    ).eval()


@pytest.mark.slow
@pytest.mark.parametrize(("alpha", "lam", "count"), [(0.3, 0.05, None), (0.1, 0.3, 2)])
def test_kernels_rows_and_biases_shrink_as_in_the_equations_and_the_rest_is_kept(alpha, lam, count):
    target, dash = learner(network, torch.optim.Adam, X), make("dash", alpha=alpha, lam=lam, batches=count)
    update(target)
    module = target.module
    target.batches = lambda count: ((module(x) - 1).square().mean(1) for x in X.split(8)[:count])
    wanted = snapshot(module)
    average = {name: torch.zeros_like(p) for name, p in module.named_parameters()}
    for losses in target.batches(count):
        for name, g in zip(average, torch.autograd.grad(losses.mean(), list(module.parameters())), strict=True):
            average[name] = (1 - alpha) * average[name] + alpha * -g
    parts = [("0.weight", (out, into)) for out in range(4) for into in range(2)]
    parts += [("4.weight", row) for row in range(6)] + [("6.weight", row) for row in range(3)]
    parts += [(f"{layer}.bias", slice(None)) for layer in "046"]
    for name, part in parts:  # one vector after the other
        cosine = F.cosine_similarity(wanted[name][part].flatten(), average[name][part].flatten(), dim=0)
        wanted[name][part] *= min(max(float(cosine), lam), 1.0)
    dash.attach(target)
    written = dash.apply(target)
    assert set(written) == {name for name, _ in parts}
    torch.testing.assert_close(snapshot(module), wanted)
    for name, slot in slots(target).items():
        assert bool(slot["exp_avg"].any()) == (name not in written)


@pytest.mark.slow
@settings(max_examples=25)
@given(seed=st.integers(0, 999), lam=st.floats(0, 1))
def test_vectors_keep_their_direction_and_shrink_by_lambda_at_most(seed, lam):
    source = torch.Generator().manual_seed(seed)
    before, uphill = torch.randn(2, 6, 3, generator=source, dtype=torch.float64)
    after = before.clone()
    shrink_(after, uphill, lam, (-1,))
    factors = after.norm(dim=1) / before.norm(dim=1)
    assert (factors >= lam - 1e-12).all()
    assert (factors <= 1 + 1e-12).all()
    torch.testing.assert_close(after, before * factors[:, None])


def test_a_vector_that_grows_along_the_gradient_is_kept_and_one_without_gradient_shrinks_to_lambda():
    weight = torch.tensor([[3.0, 4.0], [3.0, 4.0], [3.0, 4.0], [0.0, 0.0]])
    shrink_(weight, torch.tensor([[-6.0, -8.0], [0.0, 0.0], [6.0, 8.0], [1.0, 1.0]]), 0.1, (-1,))
    torch.testing.assert_close(weight, torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.3, 0.4], [0.0, 0.0]]))


def test_parameters_without_a_gradient_are_unchanged():
    module = nn.ModuleDict({"body": nn.Linear(3, 4), "mine": nn.Linear(4, 2), "other": nn.Linear(4, 2)})

    def batches(count: int | None) -> Iterator[Tensor]:
        yield module["mine"](module["body"](torch.ones(8, 3)).relu()).square().mean(1)

    other = module["other"].weight.detach().clone()
    written = make("dash").apply(learner_for(module, batches=batches, units=()))
    assert written == ["body.weight", "body.bias", "mine.weight", "mine.bias"]
    assert torch.equal(module["other"].weight, other)
