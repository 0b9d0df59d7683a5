"""SAC's networks against a definition of SimBa in plain modules, stacks against separate networks, initial weights."""

import math
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from supple.agents.sac.networks import (
    CLIPPED,
    LOG_STD,
    TRUNCATED,
    Actor,
    Critics,
    MLPBody,
    QNetworks,
    Residual,
    SimBa,
    features_of,
    layers_of,
    orthogonal,
    uniform,
)
from supple.interventions import StackedLayerNorm, StackedLinear
from supple.networks import trace_wiring, unit_names

pytestmark = pytest.mark.slow


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Block(nn.Module):
    """SimBa's residual block as the paper draws it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.narrow(torch.relu(self.wide(self.norm(x))))


class Plain(nn.Module):
    """Embedding, blocks, normalisation, one head."""

    def __init__(self, d_in: int, width: int, blocks: int, d_out: int) -> None:
        super().__init__()
        self.embed = nn.Linear(d_in, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, d_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.embed(x))))


def scattered(module: nn.Module, seed: int = 1) -> None:
    """Change every parameter, so that no bias is 0 and no gain is 1."""
    generator = draws(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)


def copied(plain: nn.Module, ours: nn.Module, member: int | None = None) -> dict[str, Tensor]:
    """Copy our values into a plain network, and return our parameters under its names."""
    named = {name.removeprefix("body."): parameter for name, parameter in ours.named_parameters()}
    with torch.no_grad():
        for name, parameter in plain.named_parameters():
            parameter.copy_(named[name] if member is None else named[name][member])
    return named


def stacked_critics(blocks: int = 2, width: int = 8, d: int = 5, a: int = 2, members: int = 2) -> Critics:
    body = SimBa(d + a, width, blocks, "relu", draws(), members)
    return Critics(QNetworks(body, width, members, orthogonal(draws(3))))


# -- what they compute -------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_actor_is_simba_with_two_heads(blocks: int) -> None:
    actor = Actor(SimBa(5, 8, blocks, "relu", draws()), 8, 3, orthogonal(draws()))
    scattered(actor)
    plain = Plain(5, 8, blocks, 6)
    values = {name.removeprefix("body."): value for name, value in actor.state_dict().items()}
    for kind in ("weight", "bias"):
        values[f"head.{kind}"] = torch.cat([values.pop(f"mean.{kind}"), values.pop(f"log_std.{kind}")])
    plain.load_state_dict(values)
    x = torch.randn(7, 5)
    mean, raw = plain(x).chunk(2, -1)
    low, high = -10.0, 2.0
    torch.testing.assert_close(actor(x)[0], mean)
    torch.testing.assert_close(actor(x)[1], low + (high - low) * (torch.tanh(raw) + 1) / 2)


def test_stacked_critics_and_their_gradients_are_those_of_separate_networks() -> None:
    critics, members = stacked_critics(members=3), 3
    scattered(critics)
    states, actions = torch.randn(6, 5, requires_grad=True), torch.randn(6, 2, requires_grad=True)
    targets = torch.randn(3, 6)
    values = critics(states, actions)
    assert values.shape == (3, 6)
    (values - targets).square().sum().backward()
    of_states, of_actions = states.grad, actions.grad
    states.grad = actions.grad = None
    for member in range(members):
        plain = Plain(7, 8, 2, 1)
        ours = copied(plain, critics.net, member)
        found = plain(torch.cat([states, actions], -1)).squeeze(-1)
        torch.testing.assert_close(values[member], found)
        (found - targets[member]).square().sum().backward()
        for name, parameter in plain.named_parameters():
            assert ours[name].grad is not None
            torch.testing.assert_close(ours[name].grad[member], parameter.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(of_states, states.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(of_actions, actions.grad, rtol=1e-4, atol=1e-5)


def test_hessian_vector_products_of_stacked_critics_are_those_of_separate_networks() -> None:
    """What curvature metrics take; smooth, so that the second derivative is more than that of the square."""
    body = MLPBody(4, (6, 6), "tanh", draws(), members=2)
    critics = QNetworks(body, 6, 2, uniform(draws())).double()
    scattered(critics)
    x, parameters = torch.randn(5, 4).double(), list(critics.parameters())
    vector = [torch.randn(p.shape, generator=draws(7)).double() for p in parameters]

    def product(loss: Tensor, parameters: list[nn.Parameter], vector: list[Tensor]) -> list[Tensor]:
        gradients = torch.autograd.grad(loss, parameters, create_graph=True)
        return list(torch.autograd.grad(gradients, parameters, vector))

    found = product(critics(x).square().sum(), parameters, vector)
    for member in range(2):
        alone = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1)).double()
        with torch.no_grad():
            for theirs, ours in zip(alone.parameters(), parameters, strict=True):
                theirs.copy_(ours[member])
        wanted = product(alone(x).square().sum(), list(alone.parameters()), [v[member] for v in vector])
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours[member], theirs)


def test_epsilon_of_every_normalisation_is_that_of_flax() -> None:
    """On features of hardly any spread PyTorch's own 1e-5 gives another result."""
    networks = (stacked_critics(), Actor(SimBa(5, 8, 1, "relu", draws()), 8, 3, orthogonal(draws())))
    norms = [m for network in networks for m in network.modules() if isinstance(m, nn.LayerNorm | StackedLayerNorm)]
    assert len(norms) == 5
    for norm in norms:
        x = 1e-3 * torch.randn(2, 4, 8)
        wanted = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()
        torch.testing.assert_close(norm(x).expand(2, 4, 8), wanted, rtol=1e-4, atol=1e-5)


def test_plain_networks_are_layers_with_an_activation_after_each() -> None:
    body = MLPBody(5, (7, 6), "tanh", draws(), members=2)
    critics = QNetworks(body, 6, 2, uniform(draws()))
    scattered(critics)
    x = torch.randn(3, 5)
    for member in range(2):
        h = x
        for layer in body.linears:
            h = torch.tanh(h @ layer.weight[member].T + layer.bias[member])
        q = h @ critics.head.weight[member].T + critics.head.bias[member]
        torch.testing.assert_close(critics(x)[member], q.squeeze(-1))


# -- how they begin ----------------------------------------------------------------------------------------


def members_of(layer: nn.Module) -> Iterator[Tensor]:
    weight = layer.get_parameter("weight").detach()
    yield from weight if isinstance(layer, StackedLinear) else (weight,)


FULL = {
    "actor": lambda: Actor(SimBa(51, 128, 1, "relu", draws()), 128, 19, orthogonal(draws(1))),
    "critics": lambda: Critics(QNetworks(SimBa(70, 512, 2, "relu", draws(), 2), 512, 2, orthogonal(draws(1)))),
}


@pytest.fixture(scope="module")
def full() -> dict[str, nn.Module]:
    """The networks of h1-walk at full size."""
    return {name: build() for name, build in FULL.items()}


def test_networks_at_full_size_have_simbas_number_of_parameters(full: dict[str, nn.Module]) -> None:
    def body(d_in: int, width: int, blocks: int) -> int:
        return (d_in + 1) * width + blocks * (2 * width + (width + 1) * 4 * width + (4 * width + 1) * width) + 2 * width

    counts = {name: sum(p.numel() for p in network.parameters()) for name, network in full.items()}
    assert counts == {"actor": body(51, 128, 1) + 2 * 129 * 19, "critics": 2 * (body(70, 512, 2) + 513)}
    assert counts == {"actor": 143_782, "critics": 8_478_722}


def test_embedding_and_heads_begin_as_isometries_without_gain(full: dict[str, nn.Module]) -> None:
    for layer in (*layers_of(full["actor"]), *layers_of(full["critics"].net)):
        if layer.role == "hidden":
            continue
        for weight in members_of(layer.module):
            small = weight if weight.shape[0] <= weight.shape[1] else weight.T
            torch.testing.assert_close(small @ small.T, torch.eye(len(small)), rtol=0, atol=1e-5)


def test_blocks_begin_he_normal_cut_off_at_two_deviations(full: dict[str, nn.Module]) -> None:
    """As Flax's: the variance is 2/d_in after the cut, so that the cut lies at 2/0.8796 deviations."""
    assert pytest.approx(math.sqrt(_variance_of_cut_normal()), rel=1e-6) == TRUNCATED
    for layer in (*layers_of(full["actor"]), *layers_of(full["critics"].net)):
        if layer.role != "hidden":
            continue
        for weight in members_of(layer.module):
            deviation = math.sqrt(2 / weight.shape[1])
            assert float(weight.std()) == pytest.approx(deviation, rel=0.02)
            assert float(weight.mean()) == pytest.approx(0, abs=0.02 * deviation)
            assert 0.97 < float(weight.abs().max()) / (2 * deviation / TRUNCATED) <= 1 + 1e-6


def _variance_of_cut_normal() -> float:
    density, mass = math.exp(-2) / math.sqrt(2 * math.pi), math.erf(math.sqrt(2))
    return 1 - 4 * density / mass


def test_biases_begin_at_zero_and_normalisation_as_the_identity(full: dict[str, nn.Module]) -> None:
    for network in full.values():
        for module in network.modules():
            if isinstance(module, nn.Linear | StackedLinear | nn.LayerNorm | StackedLayerNorm):
                assert not module.bias.any()
            if isinstance(module, nn.LayerNorm | StackedLayerNorm):
                assert bool((module.weight == 1).all())


def test_weights_of_plain_networks_begin_as_pytorchs_own() -> None:
    actor = Actor(MLPBody(50, (400, 300), "relu", draws()), 300, 200, uniform(draws(1)))
    for layer in layers_of(actor):
        bound = layer.weight.shape[1] ** -0.5
        assert 0.99 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert not layer.module.get_parameter("bias").any()


@pytest.mark.parametrize("network", ["simba", "mlp"])
def test_critics_begin_different_and_the_same_seed_gives_the_same(network: str) -> None:
    def build() -> QNetworks:
        one = draws(5)
        body = SimBa(6, 8, 1, "relu", one, 3) if network == "simba" else MLPBody(6, (8, 8), "relu", one, 3)
        return QNetworks(body, 8, 3, orthogonal(one))

    critics, again = build(), build()
    for name, weight in critics.named_parameters():
        assert torch.equal(weight, again.get_parameter(name))
        if weight.ndim == 3:
            assert not any(torch.equal(weight[i], weight[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


# -- the policy --------------------------------------------------------------------------------------------


class Fixed(Actor):
    """An actor with fixed outputs."""

    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        nn.Module.__init__(self)
        self.answer = mean, log_std

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        return self.answer


@settings(max_examples=30)
@given(seed=st.integers(0, 2**31), spread=st.floats(0.01, 3.0), actions=st.integers(1, 5))
def test_log_density_is_that_of_a_squashed_gaussian(seed: int, spread: float, actions: int) -> None:
    generator = draws(seed)
    mean, log_std, noise = (torch.randn(6, actions, generator=generator).double() for _ in range(3))
    mean, log_std = spread * mean, (log_std - 1).clamp(*LOG_STD)
    found, log_probs = Fixed(mean, log_std).sample(torch.zeros(6, 1), noise)
    base = Normal(mean, log_std.exp())
    squashed = TransformedDistribution(base, [TanhTransform(cache_size=1)])
    wanted = squashed.transforms[0](mean + log_std.exp() * noise)  # cached: its inverse is exact
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(log_probs, squashed.log_prob(wanted).sum(-1), rtol=1e-6, atol=1e-5)


def test_log_density_of_saturated_actions_is_exact_and_has_gradients() -> None:
    """Where tanh is 1 in float32, log(1 − tanh²) would be −∞: the density is compared with float64's."""
    mean = torch.tensor([[12.0], [-12.0], [40.0], [-40.0], [0.0]], requires_grad=True)
    log_std = torch.full((5, 1), -2.0, requires_grad=True)
    noise = torch.tensor([[0.5], [-0.5], [1.0], [0.0], [0.0]])
    actions, log_probs = Fixed(mean, log_std).sample(torch.zeros(5, 1), noise)
    assert actions.abs().max() == 1
    u = (mean + log_std.exp() * noise).double()
    wanted = Normal(mean.double(), log_std.double().exp()).log_prob(u) + 2 * u.cosh().log()  # 1 − tanh² = 1/cosh²
    torch.testing.assert_close(log_probs.double(), wanted.sum(-1), rtol=1e-6, atol=1e-5)
    log_probs.sum().backward()
    torch.testing.assert_close(mean.grad, (2 * torch.tanh(u)).float().detach())  # d log π/dμ = 2·tanh u
    assert bool(log_std.grad.isfinite().all())


@settings(max_examples=20)
@given(seed=st.integers(0, 2**31), size=st.floats(1e-3, 1e6))
def test_log_deviations_stay_within_their_range(seed: int, size: float) -> None:
    actor = Actor(SimBa(4, 8, 1, "relu", draws(seed)), 8, 2, orthogonal(draws(seed)))
    with torch.no_grad():
        actor.log_std.weight.mul_(size)
    _, log_std = actor(torch.randn(20, 4, generator=draws(seed)))
    assert float(log_std.detach().min()) >= -10
    assert float(log_std.detach().max()) <= 2


# -- what interventions and metrics see --------------------------------------------------------------------


def test_layers_are_named_in_forward_order_with_their_roles() -> None:
    critics = stacked_critics(blocks=1)
    assert [(x.name, x.role, x.depth) for x in layers_of(critics.net, "net.")] == [
        ("net.body.embed", "encoder", 0),
        ("net.body.blocks.0.wide", "hidden", 1),
        ("net.body.blocks.0.narrow", "hidden", 2),
        ("net.head", "head", 3),
    ]
    actor = Actor(SimBa(5, 8, 1, "relu", draws()), 8, 3, orthogonal(draws()))
    assert [(x.name, x.role, x.depth) for x in layers_of(actor)][-2:] == [
        ("mean", "head", 3),
        ("log_std", "head", 3),
    ]
    for network in (actor, critics.net):
        linears = [m for m in network.modules() if isinstance(m, nn.Linear | StackedLinear)]
        assert {id(layer.module) for layer in layers_of(network)} == set(map(id, linears))  # none is left out


def test_units_lie_inside_the_blocks_and_heads_read_the_last_normalisation() -> None:
    whole = stacked_critics(blocks=2)
    critics, (wiring, _) = whole.net, trace_wiring(whole, unit_names(whole))
    assert list(wiring) == ["net.body.blocks.0.activation", "net.body.blocks.1.activation"]
    wires = wiring["net.body.blocks.1.activation"]
    assert (wires.incoming, wires.outgoing) == (("net.body.blocks.1.wide",), ("net.body.blocks.1.narrow",))
    assert features_of(critics, "net.") == "net.body.norm"
    block = critics.body.blocks[0]
    assert isinstance(block, Residual)
    units = block.activation(block.wide(block.norm(torch.randn(2, 4, 8))))
    assert units.shape == (2, 4, 32)


def test_a_policys_deviation_is_clipped_or_squashed() -> None:
    x = torch.randn(64, 5, generator=draws())
    for clipped, at_0, (low, high) in ((True, 0.0, CLIPPED), (False, -4.0, LOG_STD)):
        actor = Actor(MLPBody(5, (8,), "relu", draws()), 8, 3, uniform(draws()), clipped)
        with torch.no_grad():
            actor.log_std.weight.zero_()
            torch.testing.assert_close(actor(x)[1], torch.full((64, 3), at_0))
            for bias, end in ((-1e3, low), (1e3, high)):
                actor.log_std.bias.fill_(bias)
                torch.testing.assert_close(actor(x)[1], torch.full((64, 3), end))


def test_units_of_plain_networks_lie_between_layers_the_last_before_the_heads() -> None:
    actor = Actor(MLPBody(5, (8, 6), "relu", draws()), 6, 3, uniform(draws()))
    found, _ = trace_wiring(actor, unit_names(actor))
    wiring = {name: (wires.incoming, wires.outgoing) for name, wires in found.items()}
    assert wiring == {
        "body.activations.0": (("body.linears.0",), ("body.linears.1",)),
        "body.activations.1": (("body.linears.1",), ("mean", "log_std")),
    }
    assert features_of(actor) is None
