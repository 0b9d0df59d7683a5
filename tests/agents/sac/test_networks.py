"""SAC's networks against a definition of SimBa in plain modules, stacks against separate networks, initial weights."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from supple.agents.sac.bodies import BODIES, TRUNCATED, Flash, MLPBody, SimBa, SimBaV2, orthogonal, uniform
from supple.agents.sac.networks import (
    CLIPPED,
    LOG_STD,
    Actor,
    Critics,
    QNetworks,
    features_of,
    layers_of,
    linear_head,
    new_head,
)
from supple.interventions import StackedLayerNorm
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


def actor_of(blocks: int = 1) -> Actor:
    return Actor(SimBa(5, 8, blocks, "relu", draws()), linear_head(8, 0, orthogonal(draws())), 3)


def critics_of(blocks: int = 2, members: int = 2) -> Critics:
    return Critics(
        QNetworks(SimBa(7, 8, blocks, "relu", draws(), members), linear_head(8, members, orthogonal(draws(3))), members)
    )


# -- what they compute -------------------------------------------------------------------------------------


def test_the_actor_is_simba_with_two_heads() -> None:
    actor, plain = actor_of(blocks=2), Plain(5, 8, 2, 6)
    scattered(actor)
    values = {name.removeprefix("body."): value for name, value in actor.state_dict().items()}
    for kind in ("weight", "bias"):
        values[f"head.{kind}"] = torch.cat([values.pop(f"mean.{kind}"), values.pop(f"log_std.{kind}")])
    plain.load_state_dict(values)
    x = torch.randn(7, 5)
    mean, raw = plain(x).chunk(2, -1)
    torch.testing.assert_close(actor(x)[0], mean)
    torch.testing.assert_close(actor(x)[1], -10 + 12 * (torch.tanh(raw) + 1) / 2)


def test_stacked_critics_and_their_gradients_are_those_of_separate_networks() -> None:
    critics = critics_of(members=3)
    scattered(critics)
    x, targets = torch.randn(6, 7, requires_grad=True), torch.randn(3, 6)
    named = {name.removeprefix("net.").removeprefix("body."): p for name, p in critics.named_parameters()}
    values = critics(x[:, :5], x[:, 5:])
    found = torch.autograd.grad((values - targets).square().sum(), [x, *named.values()])
    of_inputs = torch.zeros(6, 7)
    for member in range(3):
        plain = Plain(7, 8, 2, 1)
        plain.load_state_dict({name: p[member] for name, p in named.items()})
        alone = plain(x).squeeze(-1)
        torch.testing.assert_close(values[member], alone)
        parameters = [plain.get_parameter(name) for name in named]
        of_x, *wanted = torch.autograd.grad((alone - targets[member]).square().sum(), [x, *parameters])
        of_inputs += of_x
        for ours, theirs in zip(found[1:], wanted, strict=True):
            torch.testing.assert_close(ours[member], theirs, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found[0], of_inputs, rtol=1e-4, atol=1e-5)


def test_epsilon_of_every_normalisation_is_that_of_flax() -> None:
    """On features of hardly any spread PyTorch's own 1e-5 gives another result."""
    modules = (*critics_of().modules(), *actor_of().modules())
    norms = [module for module in modules if isinstance(module, nn.LayerNorm | StackedLayerNorm)]
    assert len(norms) == 5
    x = 1e-3 * torch.randn(2, 4, 8)
    wanted = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-6).sqrt()
    for norm in norms:
        torch.testing.assert_close(norm(x), wanted, rtol=1e-4, atol=1e-5)


BODY = {  # unit → the normalisations before or after it; the last features
    "simba_v2": ({"blocks.0.activation": ("blocks.0.scaler",)}, "blocks"),
    "flash": ({"blocks.0.activation": ("blocks.0.wide_norm",)}, "norm"),
    "crossq": ({"layers.0.1": ("layers.0.2",)}, "layers"),
}


@pytest.mark.parametrize("members", [0, 2])
@pytest.mark.parametrize("network", BODY)
def test_units_of_later_networks_are_private_with_their_normalisation(network: str, members: int) -> None:
    body = BODIES[network](5, 8, 1 + (network == "crossq"), "relu", draws(), members)
    actor = Actor(body, new_head(network, 8, members, draws()), 3)
    wiring, (units, features) = trace_wiring(actor, unit_names(actor))[0], BODY[network]
    assert {name: wires.norms for name, wires in wiring.items() if name.removeprefix("body.") in units} == {
        f"body.{name}": tuple(f"body.{norm}" for norm in norms) for name, norms in units.items()
    }
    assert features_of(actor) == f"body.{features}"
    assert [layer.role for layer in layers_of(actor)][:2] == ["encoder", "hidden"]
    assert {layer.name.split(".")[0] for layer in layers_of(actor) if layer.role == "head"} == {"mean", "log_std"}
    values = actor(torch.randn(4, 5))[0]
    assert values.shape == (members, 4, 3)[not members :]


def test_features_of_simba_v2_have_length_one_and_its_blocks_interpolate() -> None:
    body, x = SimBaV2(5, 8, 3, "relu", draws()), 100 * torch.randn(6, 5)
    scattered(body)
    torch.testing.assert_close(body(x).norm(dim=-1), torch.ones(6))
    block, features = body.blocks[0], body(x)
    block.alpha.weight.data.zero_()  # x stays; at a factor of 1 it is replaced by the block's own features
    torch.testing.assert_close(block(features), features)


def test_flash_needs_as_many_features_as_units() -> None:
    with pytest.raises(ValueError, match="--network flash adds its units to 9 features, but swiglu has 6"):
        Flash(5, 9, 1, "swiglu", draws())


def test_plain_networks_are_layers_with_an_activation_after_each() -> None:
    body = MLPBody(5, (7, 6), "tanh", draws(), members=2)
    critics = QNetworks(body, linear_head(6, 2, uniform(draws())), 2)
    scattered(critics)
    x = torch.randn(3, 5)
    for member in range(2):
        h = x
        for layer in body.linears:
            h = torch.tanh(h @ layer.weight[member].T + layer.bias[member])
        q = h @ critics.head.weight[member].T + critics.head.bias[member]
        torch.testing.assert_close(critics(x)[member], q.squeeze(-1))


# -- how they begin ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["actor", "critics"])
def test_simba_begins_as_released(name: str) -> None:
    """The networks of h1-walk: embedding and heads are isometries, and blocks are drawn as Flax's `he_normal`, whose
    variance is 2/d_in after the cut, so that the cut lies at 2/0.8796 deviations."""
    if name == "actor":
        network = Actor(SimBa(51, 128, 1, "relu", draws()), linear_head(128, 0, orthogonal(draws(1))), 19)
    else:
        network = QNetworks(SimBa(70, 512, 2, "relu", draws(), 2), linear_head(512, 2, orthogonal(draws(1))), 2)
    assert sum(p.numel() for p in network.parameters()) == {"actor": 143_782, "critics": 8_478_722}[name]
    for layer in layers_of(network):
        weights = layer.weight.detach()
        for weight in weights if weights.ndim == 3 else (weights,):
            if layer.role == "hidden":
                deviation = math.sqrt(2 / weight.shape[1])
                assert float(weight.std()) == pytest.approx(deviation, rel=0.02)
                assert float(weight.mean()) == pytest.approx(0, abs=0.02 * deviation)
                assert 0.97 < float(weight.abs().max()) / (2 * deviation / TRUNCATED) <= 1 + 1e-6
            else:
                small = weight if weight.shape[0] <= weight.shape[1] else weight.T
                torch.testing.assert_close(small @ small.T, torch.eye(len(small)), rtol=0, atol=1e-5)
    for key, value in network.named_parameters():
        if key.endswith("bias") or ".norm" in key:
            assert bool((value == float(key.endswith("weight"))).all())
    density, mass = math.exp(-2) / math.sqrt(2 * math.pi), math.erf(math.sqrt(2))
    assert pytest.approx(math.sqrt(1 - 4 * density / mass), rel=1e-6) == TRUNCATED


def test_weights_of_plain_networks_begin_as_pytorchs_own() -> None:
    actor = Actor(MLPBody(50, (400, 300), "relu", draws()), linear_head(300, 0, uniform(draws(1))), 200)
    for layer in layers_of(actor):
        bound = layer.weight.shape[1] ** -0.5
        assert 0.99 * bound < float(layer.weight.detach().abs().max()) <= bound
        assert float(layer.weight.detach().std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)
        assert not layer.module.get_parameter("bias").any()


def test_critics_begin_different_and_the_same_seed_gives_the_same() -> None:
    critics, again = critics_of(members=3), critics_of(members=3)
    for name, weight in critics.named_parameters():
        assert torch.equal(weight, again.get_parameter(name))
        assert weight.ndim < 3 or not any(torch.equal(weight[i], weight[j]) for i, j in ((0, 1), (0, 2), (1, 2)))


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


def test_a_policys_deviation_is_clipped_or_squashed() -> None:
    x = torch.randn(64, 5, generator=draws())
    for clipped, at_0, (low, high) in ((True, 0.0, CLIPPED), (False, -4.0, LOG_STD)):
        actor = Actor(MLPBody(5, (8,), "relu", draws()), linear_head(8, 0, uniform(draws())), 3, clipped)
        with torch.no_grad():
            actor.log_std.weight.zero_()
            for bias, found in ((-1e3, low), (0.0, at_0), (1e3, high)):
                actor.log_std.bias.fill_(bias)
                torch.testing.assert_close(actor(x)[1], torch.full((64, 3), found))


# -- what interventions and metrics see --------------------------------------------------------------------


def test_layers_are_named_in_forward_order_with_their_roles_and_units_lie_between_them() -> None:
    critics = critics_of(blocks=1)
    layers = ["net.body.embed", "net.body.blocks.0.wide", "net.body.blocks.0.narrow", "net.head"]
    roles = ["encoder", "hidden", "hidden", "head"]
    assert [(x.name, x.role, x.depth) for x in layers_of(critics.net, "net.")] == list(
        zip(layers, roles, range(4), strict=True)
    )
    found, _ = trace_wiring(critics, unit_names(critics))
    assert {name: (wires.incoming, wires.outgoing) for name, wires in found.items()} == {
        "net.body.blocks.0.activation": ((layers[1],), (layers[2],))
    }
    assert features_of(critics.net, "net.") == "net.body.norm"
    assert [(x.name, x.role, x.depth) for x in layers_of(actor_of())][-2:] == [
        ("mean", "head", 3),
        ("log_std", "head", 3),
    ]


@pytest.mark.parametrize("normalization", ["none", "layer", "spectral"])
def test_units_of_plain_networks_lie_between_layers_the_last_before_the_heads(normalization: Any) -> None:
    actor = Actor(
        MLPBody(5, (8, 6), "relu", draws(), normalization=normalization), linear_head(6, 0, uniform(draws())), 3
    )
    found, _ = trace_wiring(actor, unit_names(actor))
    norms = [(f"body.norms.{i}.0",) if normalization == "layer" else () for i in range(2)]
    assert {name: (wires.incoming, wires.norms, wires.outgoing) for name, wires in found.items()} == {
        "body.activations.0": (("body.linears.0",), norms[0], ("body.linears.1",)),
        "body.activations.1": (("body.linears.1",), norms[1], ("mean", "log_std")),
    }
    assert features_of(actor) is None
