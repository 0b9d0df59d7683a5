"""`rebalance` on learners: which pairs are found, what is refused, and what is settled."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.interventions import (
    Injectable,
    Injected,
    Layer,
    Learner,
    LinearPair,
    StackedLinear,
    Units,
    Wiring,
    learner_for,
    make,
    snapshot,
)
from supple.metrics import measure
from supple.tracks.language.adapters import maker, wrap
from tests.interventions.common import exact, refused, slots, update
from tests.interventions.common import learner as learner_of

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))


def net(*parts: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    for part in parts:
        if isinstance(part, (nn.Linear, StackedLinear)):
            part.reset_parameters()
    return nn.Sequential(*parts)


def mlp(activation: str = "relu", members: int = 0) -> nn.Sequential:
    units = Units(activation, members)

    def linear(d_in: int, d_out: int) -> nn.Module:
        return StackedLinear(members, d_in, d_out) if members else nn.Linear(d_in, d_out)

    return net(linear(6, 8), units(8), linear(8, 7), units(7), linear(7, 3))


def pairs_of(module: nn.Module | Learner) -> dict[str, str]:
    learner = module if isinstance(module, Learner) else learner_for(module, units=())
    return {pair.name: pair.between for pair in learner.linear_pairs()}


def diagonal(pair: LinearPair) -> Tensor:
    out = sum(w.square().sum(-2) for w in pair.second)
    return out - sum(w.square().sum(-1) for w in pair.first) - sum(b.square() for b in pair.bias)


def rebalance(learner: Learner, lam: float, *inputs: object) -> list[str]:
    """Rebalance a network, and require its outputs to stay and its pairs to have the balance."""
    before, rebalance = learner.module(*inputs), make("rebalance", lam=lam)
    rebalance.attach(learner)
    written = rebalance.apply(learner)
    torch.testing.assert_close(learner.module(*inputs), before, rtol=0, atol=1e-6)
    for pair in learner.linear_pairs():
        torch.testing.assert_close(diagonal(pair), torch.full_like(diagonal(pair), lam))
    return written


# -- pairs -----------------------------------------------------------------------------------------------------------


def test_layers_that_follow_each_other_are_pairs_with_what_lies_between_them():
    module = net(nn.Linear(6, 8), nn.Identity(), nn.Linear(8, 7), nn.LeakyReLU(), nn.Dropout(0.5), nn.Linear(7, 3))
    assert pairs_of(module) == {"0 and 2": "linear", "2 and 5": "homogeneous"}
    # a mask is no part of a rotation
    assert pairs_of(net(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))) == {"0 and 2": "homogeneous"}


@pytest.mark.parametrize(
    ("activation", "homogeneous"),
    [
        *[(name, True) for name in ("relu", "leaky_relu", "prelu", "prelu(granularity=neuron)", "bo_prelu", "rrelu")],
        *[(name, False) for name in ("tanh", "gelu", "elu", "smooth_leaky", "rand_smooth_leaky", "crelu")],
    ],
)
def test_activations_that_are_homogeneous_say_so_and_no_others(activation, homogeneous):
    units = Units(activation)
    module = nn.Sequential(nn.Linear(6, units.preactivations(8)), units(8), nn.Linear(units.features(8), 3))
    assert bool(learner_for(module).linear_pairs()) == homogeneous
    if homogeneous:
        x = torch.randn(50, 8)
        torch.testing.assert_close(module[1].eval()(3.5 * x), 3.5 * module[1](x))


class Functional(nn.Module):
    """relu as a function, one layer read by two, and an output that only one of them has to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.mean, self.scale = nn.Linear(6, 5), nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.body(x))
        return torch.tanh(self.mean(h)) + self.scale(h)


def test_layers_that_read_the_same_units_are_one_map():
    learner = learner_of(Functional, x=X)
    assert pairs_of(learner) == {"body and mean and scale": "homogeneous"}
    rebalance(learner, 2.0, X)


class Norm(nn.Identity):
    """An Identity by its class alone."""

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:])


class Autoencoder(nn.Module):
    """Decodes by the encoder's weights, which tracing sees as a tensor that a function reads."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.code = nn.Linear(6, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.code(F.relu(self.encoder(x))), self.encoder.weight.T)


@pytest.mark.parametrize(
    "module",
    [
        mlp("tanh"),
        nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)),
        nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 3)),
        nn.Sequential(nn.Linear(6, 8), nn.AlphaDropout(), nn.Linear(8, 2)),
        nn.Sequential(nn.Linear(6, 8), Norm(), nn.Linear(8, 8)),
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3)),
        nn.Sequential(layer := nn.Linear(6, 6), nn.ReLU(), layer),
        Autoencoder(),
    ],
)
def test_a_learner_without_pairs_is_refused(module):
    learner, intervention = learner_for(module, units=()), make("rebalance")
    assert not intervention.concerns(learner)
    with refused("has no two consecutive linear maps"):
        intervention.attach(learner)


def test_frozen_and_hooked_layers_are_no_pairs():
    module = mlp()
    learner = learner_for(module)
    module[4].weight.requires_grad_(False)
    assert set(pairs_of(learner)) == {"0 and 2"}
    module[4].requires_grad_(True)
    module[2].bias.requires_grad_(False)  # it would have to be written, and learning conserves nothing
    assert set(pairs_of(learner)) == {"0 and 2"}
    module[1].register_forward_pre_hook(lambda _, args: (F.layer_norm(args[0], (8,)),))
    assert not pairs_of(learner)


def test_pairs_are_those_of_the_network_as_it_is_now_and_if_they_have_disappeared_since_attach_that_is_an_error():
    module, intervention = mlp(), make("rebalance", lam=1.0)
    learner = learner_for(module)
    assert len(pairs_of(learner)) == 2
    assert intervention.concerns(learner)
    intervention.attach(learner)
    make("swap", activation="tanh").apply(learner)
    assert not pairs_of(learner)
    assert intervention.concerns(learner)
    with refused("has no two consecutive linear maps"):
        intervention.apply(learner)
    make("swap", activation="leaky_relu").apply(learner)
    assert len(pairs_of(learner)) == 2
    module[0].weight = nn.Parameter(torch.ones(8, 6))
    assert learner.linear_pairs()[0].first[0] is module[0].weight


def test_injection_leaves_the_pairs_of_the_head_that_learns():
    learner = learner_of(lambda: nn.Sequential(nn.Linear(6, 6), nn.ReLU(), mlp()), x=X)
    learner.capabilities = (Injectable("2"),)
    assert len(pairs_of(learner)) == 3
    make("injection").apply(learner)
    assert isinstance(learner.module[2], Injected)
    assert set(pairs_of(learner)) == {"2.new.0 and 2.new.2", "2.new.2 and 2.new.4"}
    rebalance(learner, 1.0, X)


def test_pairs_follow_a_wiring_that_is_given():
    spaces = {"a": PolicySpace(6, Gaussian(2)), "b": PolicySpace(5, Gaussian(1))}
    module = MultiHead(spaces, (8, 7), 4, "relu", True, torch.Generator().manual_seed(0))
    learner = learner_for(module, units=module.units(), wiring=module.wiring()[0], layers=module.layers())
    assert [len(pair.second) for pair in learner.linear_pairs()] == [1, 4]
    rebalance(learner, 1.0, X, "a")
    normed = net(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    wired = learner_for(normed, wiring={"2": Wiring(("0",), ("3",), ("1",))})
    assert not wired.linear_pairs()


# -- adapters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pairs"), [("inclora", 1), ("seqlora", 1), ("olora", 1), ("moram", 0), ("moe_lora", 0)]
)
def test_adapters_with_constant_weights_declare_a_and_b_of_the_current_task(kind, pairs):
    model = net(nn.Linear(6, 5), nn.Tanh())
    wrap(model, ["0"], maker(kind, r=3))
    adapter = model[0]
    adapter.add_task()
    learner = Learner(
        "model", model, None, (Layer("0", adapter, "head", 0),), (), probe=lambda: None, loss=lambda: model(X).sum(),
        generator=torch.Generator(), redraw=dict,
    )  # fmt: skip
    assert len(learner.linear_pairs()) == pairs
    if not pairs:
        return
    nn.init.normal_(adapter.B)
    adapter.add_task()
    nn.init.normal_(adapter.B)
    frozen = adapter.frozen_A.clone()
    assert rebalance(learner, 2.0, X) == ["0.A", "0.B"]
    assert torch.equal(adapter.frozen_A, frozen)
    assert measure(learner)["lambda_residual"] < 1e-5


# -- the intervention ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("members", [0, 2])
def test_every_pair_of_an_mlp_is_balanced_and_the_optimizer_state_of_what_was_written_is_zeroed(members):
    learner = learner_of(lambda: mlp(members=members), torch.optim.Adam, X)
    learner.followers = (copy.deepcopy(learner.module),)
    update(learner)
    assert "2 pairs" in make("rebalance").contract(learner)["weights"]
    written = rebalance(learner, -1.5, X)
    assert sorted(written) == ["0.bias", "0.weight", "2.bias", "2.weight", "4.weight"]
    exact(snapshot(learner.followers[0]), snapshot(learner.module))
    for name, state in slots(learner).items():
        assert bool(state["exp_avg"].any()) == (name not in written)


def test_units_that_no_factor_can_balance_keep_their_optimizer_state():
    learner = learner_of(
        lambda: net(*(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.ReLU(), nn.Linear(7, 3))), torch.optim.Adam, X
    )
    update(learner)
    with torch.no_grad():
        learner.module[2].weight[:, 5] = 0  # nothing goes out, which no factor makes λ ≥ 0
        learner.module[4].weight[:, 4] = 0
    before, row = slots(learner), learner.module[0].weight[5].clone()
    make("rebalance", lam=1.0).apply(learner)
    assert torch.equal(learner.module[0].weight[5], row)
    kept = {
        "0.weight": (5,),
        "0.bias": (5,),
        "2.weight": (4, 5),
        "2.bias": (4,),
        "4.weight": (slice(None), 4),
        "4.bias": (),
    }
    for name, state in slots(learner).items():
        expected = torch.zeros_like(state["exp_avg"])
        expected[kept[name]] = before[name]["exp_avg"][kept[name]]
        exact(state["exp_avg"], expected)


def test_a_chain_of_linear_maps_and_a_relu_is_balanced_all_at_once():
    module = net(nn.Linear(6, 5), nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    learner = learner_for(module)
    rebalance(learner, 0.5, X.double())
    values = measure(learner)
    assert values["lambda_balance"] == pytest.approx(0.5, abs=1e-9)
    assert values["lambda_residual"] < 1e-9


def test_both_layers_of_a_pair_must_be_in_the_scope():
    learner = learner_for(mlp())
    intervention = make("rebalance", lam=1.0, scope=("encoder", "hidden"))
    assert intervention.apply(learner) == ["0.weight", "2.weight", "0.bias"]
    with refused("scope=head contains no complete pair of 'model'"):
        make("rebalance", scope="head").attach(learner)


def test_sizes_are_refused_before_training():
    wide = learner_for(net(nn.Linear(6, 8), nn.Linear(8, 3)), units=())
    with refused("0 and 1 has 8 hidden units and 3 outputs"):
        make("rebalance", lam=1.0).attach(wide)
