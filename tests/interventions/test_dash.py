from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import EndlessData, Learner, learner_for, make
from supple.interventions.dash import shrink_

X = torch.randn(40, 2, 5, 5, generator=torch.Generator().manual_seed(1))
Y = torch.randint(3, (40,), generator=torch.Generator().manual_seed(2))


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6), nn.ReLU(), nn.Linear(6, 3)
    ).eval()

    def batches(count: int | None) -> Iterator[Tensor]:
        for k in range(5 if count is None else count):
            rows = slice(8 * (k % 5), 8 * (k % 5) + 8)
            yield F.cross_entropy(module(X[rows]), Y[rows], reduction="none")

    optimizer = torch.optim.Adam(module.parameters())
    F.cross_entropy(module(X), Y).backward()
    optimizer.step()
    return learner_for(module, optimizer, batches=batches)


def by_hand(target: Learner, alpha: float, lam: float, batches: int) -> dict[str, Tensor]:
    """The equations, one vector after the other."""
    named = dict(target.module.named_parameters())
    average = {name: torch.zeros_like(p) for name, p in named.items()}
    for k in range(batches):
        loss = F.cross_entropy(target.module(X[8 * k : 8 * k + 8]), Y[8 * k : 8 * k + 8])
        for name, g in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
            average[name] = (1 - alpha) * average[name] + alpha * -g
    wanted = {name: p.detach().clone() for name, p in named.items()}

    def scale(w: Tensor, g: Tensor) -> None:
        w *= min(max(float(F.cosine_similarity(w.flatten(), g.flatten(), dim=0)), lam), 1.0)

    for out in range(4):
        for into in range(2):
            scale(wanted["0.weight"][out, into], average["0.weight"][out, into])
    for layer in ("4", "6"):
        for row, gradient in zip(wanted[f"{layer}.weight"], average[f"{layer}.weight"], strict=True):
            scale(row, gradient)
    for layer in ("0", "4", "6"):
        scale(wanted[f"{layer}.bias"], average[f"{layer}.bias"])
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize(("params", "batches"), [({}, 5), ({"alpha": 0.1, "lam": 0.3, "batches": 2}, 2)])
def test_kernels_rows_and_biases_shrink_as_in_the_equations_and_the_rest_is_kept(params, batches):
    target, dash = learner(), make("dash", **params)
    wanted = by_hand(target, params.get("alpha", 0.3), params.get("lam", 0.05), batches)
    dash.attach(target)
    written = dash.apply(target)
    assert sorted(written) == sorted(f"{layer}.{name}" for layer in "046" for name in ("weight", "bias"))
    for name, parameter in target.module.named_parameters():
        torch.testing.assert_close(parameter.detach(), wanted[name])
        assert bool(target.optimizer.state[parameter]["exp_avg"].any()) == (name not in written)
    assert "dash" not in dash.contract(target)["weights"]


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
    torch.manual_seed(0)
    module = nn.ModuleDict({"body": nn.Linear(3, 4), "mine": nn.Linear(4, 2), "other": nn.Linear(4, 2)})
    x = torch.randn(8, 3)

    def batches(count: int | None) -> Iterator[Tensor]:
        yield module["mine"](module["body"](x).relu()).square().mean(1)

    target = learner_for(module, batches=batches, units=())
    other = module["other"].weight.detach().clone()
    written = make("dash").apply(target)
    assert written == ["body.weight", "body.bias", "mine.weight", "mine.bias"]
    assert torch.equal(module["other"].weight, other)


def test_a_learner_without_batches_or_with_a_replay_memory_is_refused_before_training():
    target = learner()
    target.offer(EndlessData())
    with pytest.raises(ValueError, match=r"dash: 'model' learns from a replay memory.*batches=100"):
        make("dash").attach(target)
    make("dash", batches=3).attach(target)
    with pytest.raises(ValueError, match=r"dash: 'model' .* Learner.batches"):
        make("dash").attach(learner_for(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))))
