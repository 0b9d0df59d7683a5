"""Scale-invariant balancing on modules of one's own: their declared pairs, the factors, and what follows from them."""

import copy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.interventions import RetainLoss, ScalePair, learner_for, make, scale_pairs, sib_, snapshot
from tests.interventions.common import changed, exact, refused, slots, update

few = settings(max_examples=15)
X = torch.randn(30, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
Y = torch.randint(3, (30,), generator=torch.Generator().manual_seed(2))


class Gated(nn.Module):
    """A gated layer, then a fused layer of which only the last rows are a pair with what reads them."""

    def __init__(self, neurons: int = 6, heads: int = 2, groups: int = 3, width: int = 2) -> None:
        super().__init__()
        self.heads, self.groups, channels = heads, groups, heads * width
        self.gate, self.up, self.down = nn.Linear(7, neurons), nn.Linear(7, neurons), nn.Linear(neurons, 7)
        self.act = nn.SiLU()
        self.fused = nn.Linear(7, 5 + channels)
        self.out = nn.Linear(channels * groups, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.down(self.act(self.gate(x)) * self.up(x))
        other, values = self.fused(x).split([5, self.fused.out_features - 5], dim=-1)
        weights = other.softmax(-1)[..., :1]
        heads = values.unflatten(-1, (self.heads, 1, -1)).expand(*x.shape[:-1], -1, self.groups, -1)
        return self.out((heads * weights[..., None, None]).flatten(-3))

    def scale_symmetries(self) -> list[ScalePair]:
        channels = self.fused.out_features - 5
        return [
            ScalePair("mlp", self.up, self.down, self.up.out_features),
            ScalePair("attention", self.fused, self.out, channels, self.heads, first=5),
        ]


def model(seed: int = 0, **sizes: int) -> Gated:
    torch.manual_seed(seed)
    return Gated(**sizes).double()


def loss_of(module: nn.Module) -> Tensor:
    return F.cross_entropy(module(X), Y)


def channel_gradients(module: Gated) -> tuple[Tensor, Tensor]:
    """Squared gradient norms of each channel, before and behind it."""
    named = dict(module.named_parameters())
    g = dict(zip(named, torch.autograd.grad(loss_of(module), list(named.values())), strict=True))
    up = g["up.weight"].square().sum(1) + g["up.bias"].square()
    value = g["fused.weight"][5:].square().sum(1) + g["fused.bias"][5:].square()
    out = g["out.weight"].square().sum(0).view(module.heads, module.groups, -1).sum(1).flatten()
    return torch.cat([up, value]), torch.cat([g["down.weight"].square().sum(0), out])


@pytest.mark.slow
@few
@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99),
       st.floats(0.05, 20.0))  # fmt: skip
def test_the_function_stays_each_channel_is_balanced_and_no_other_factor_has_a_smaller_gradient(
    n, heads, groups, width, seed, factor
):
    net = model(seed, neurons=n, heads=heads, groups=groups, width=width)
    outputs, kept = net(X).detach(), net.fused.weight[:5].detach().clone()
    before, behind = channel_gradients(net)
    done = sib_(net, lambda: loss_of(net), ratio=1e6)
    torch.testing.assert_close(net(X), outputs, rtol=1e-6, atol=1e-9)
    assert torch.equal(net.fused.weight[:5], kept)
    div, mul = channel_gradients(net)
    torch.testing.assert_close(div, mul, rtol=1e-4, atol=1e-12)
    torch.testing.assert_close(done.alpha.double(), (behind / before) ** 0.25, rtol=1e-4, atol=0)
    best = float((div + mul).sum())
    assert done.gradient_norm == pytest.approx(float((before + behind).sum().sqrt()), rel=1e-5)
    assert done.predicted == pytest.approx(best**0.5, rel=1e-5)
    assert done.predicted <= done.gradient_norm * (1 + 1e-6)
    with torch.no_grad():
        net.up.weight[0] /= factor
        net.up.bias[0] /= factor
        net.down.weight[:, 0] *= factor
    assert sum(part.sum() for part in channel_gradients(net)) >= best * (1 - 1e-5)


def test_factors_are_clipped_and_a_channel_without_gradient_is_left_alone():
    net = model()
    with torch.no_grad():
        net.down.weight[:, 0] = 0  # up's neuron 0 has no gradient, down's has: α = ∞
        net.up.weight[1] = net.up.bias[1] = 0  # down's neuron 1 has no gradient, up's has: α = 0
        net.down.weight[:, 2] = net.up.weight[2] = net.up.bias[2] = 0  # neither has
        net.gate.weight[2] = net.gate.bias[2] = 0
    was = copy.deepcopy(net)
    done = sib_(net, lambda: loss_of(net), ratio=4.0)
    assert done.alpha[:3].tolist() == [4.0, 0.25, 1.0]
    assert done.idle == 1
    assert done.clipped == int(((done.alpha == 4) | (done.alpha == 0.25)).sum())
    assert done.alpha.clamp(0.25, 4).equal(done.alpha)
    torch.testing.assert_close(net.up.weight[0], was.up.weight[0] / 4)
    torch.testing.assert_close(net.down.weight[:, 1], was.down.weight[:, 1] / 4)
    assert torch.equal(net.up.weight[2], was.up.weight[2])


@pytest.mark.slow
def test_under_adam_it_equals_a_learning_rate_for_each_channel():
    """Proposition C.1: Adam on the balanced model is Adam on the unbalanced one with η·α and η/α."""
    balanced, plain, untouched = model(3), model(3), model(3)
    alpha = sib_(balanced, lambda: loss_of(balanced)).alpha.double()
    neurons, values = alpha[:6], alpha[6:]
    rates = {
        "up.weight": neurons[:, None],
        "up.bias": neurons,
        "down.weight": 1 / neurons,
        "fused.weight": torch.cat([torch.ones(5), values])[:, None],
        "fused.bias": torch.cat([torch.ones(5), values]),
        "out.weight": 1 / values.view(2, 1, 2).expand(2, 3, 2).flatten(),
    }
    for net in (balanced, plain, untouched):
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, eps=1e-30)
        for _ in range(10):
            optimizer.zero_grad()
            loss_of(net).backward()
            before = snapshot(net)
            optimizer.step()
            with torch.no_grad():
                for name, p in net.named_parameters() if net is plain else ():
                    p.copy_(before[name] + (p - before[name]) * rates.get(name, 1.0))
    torch.testing.assert_close(balanced(X), plain(X), rtol=1e-5, atol=1e-7)
    assert not torch.allclose(untouched(X), plain(X), rtol=1e-3)


@pytest.mark.parametrize("retain", [False, True])
def test_the_intervention_uses_the_retain_loss_if_there_is_one(retain):
    net = model()
    target = learner_for(net, torch.optim.AdamW(net.parameters()), probe=lambda: (X,), loss=lambda: loss_of(net))
    update(target)
    expected = copy.deepcopy(net)
    if retain:
        target.offer(RetainLoss(lambda: net(X).square().mean()))
    sib_(expected, (lambda: expected(X).square().mean()) if retain else (lambda: loss_of(expected)), ratio=50.0)
    sib = make("sib", ratio=50.0)
    sib.attach(target)
    assert sib.concerns(target)
    assert "function kept" in sib.contract(target)["weights"]
    before = snapshot(net)
    written = sib.apply(target)
    exact(snapshot(net), snapshot(expected))
    assert changed(net, before) == set(written)
    assert set(written) == set(before) - {"gate.weight", "gate.bias", "down.bias", "out.bias"}
    for name, slot in slots(target).items():
        first = 5 if name.startswith("fused") else 0  # of a fused layer only the values' part was written
        assert bool(slot["exp_avg"][first:].any()) == (name not in written)
        assert bool(slot["exp_avg"][:first].any()) == (first > 0)


def test_grad_fields_of_the_caller_are_unchanged_and_the_loss_is_called_once():
    net, calls = model(), []
    net.up.weight.grad = torch.full_like(net.up.weight, 7.0)
    with torch.no_grad():
        sib_(net, lambda: calls.append(1) or loss_of(net))
    assert calls == [1]
    assert net.up.weight.grad.unique().tolist() == [7.0]
    assert net.down.weight.grad is None
    assert all(p.requires_grad for p in net.parameters())


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda net: loss_of(net) * float("nan"), "one finite number"),
        (lambda net: net(X), "one finite number"),
        (lambda net: (net.up.weight - net.up.weight.detach()).abs().sqrt().sum(), "gradients .* are not finite"),
        (lambda net: torch.zeros(()), "does not depend"),
        (lambda net: net.gate.weight.sum(), "does not depend"),
    ],
)
def test_a_loss_that_is_no_finite_number_of_the_pairs_is_refused_and_nothing_is_written(loss, reason):
    net = model()
    before = snapshot(net)
    with refused(reason):
        sib_(net, lambda: loss(net))
    assert not changed(net, before)


@pytest.mark.parametrize(
    ("pairs", "reason"),
    [
        (lambda net: [], "has no pairs of scale-symmetric"),
        (
            lambda net: [ScalePair("mlp", net.up, net.down, 5)],
            "5 channels in 1 heads do not fit 6 outputs",
        ),
        (lambda net: [ScalePair("v", net.fused, net.out, 4, 2, first=6)], "do not fit"),
        (lambda net: [ScalePair("v", net.fused, net.out, 4, 3, first=5)], "do not fit"),
        (lambda net: [ScalePair("mlp", model().up, net.down, 6)], "no parameter of this model"),
        (lambda net: [ScalePair("mlp", nn.Bilinear(7, 7, 6), net.down, 6)], "torch's Bilinear of torch.float32, not"),
    ],
)
def test_pairs_that_do_not_fit_are_refused(pairs, reason):
    net = model()
    net.scale_symmetries = lambda: pairs(net)
    with refused(reason):
        scale_pairs(net)
