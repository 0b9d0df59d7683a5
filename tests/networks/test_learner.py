from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Gaussian
from supple.interventions import (
    Injectable,
    ReleasedCode,
    RetainLoss,
    StackedLinear,
    Wiring,
    activation,
    chain,
    learner_for,
    make,
    redraw,
    unit_names,
)
from supple.metrics import METRICS, measure
from tests.zoo.networks import Calls


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 3),
    )  # fmt: skip


class Actor(nn.Module):
    """What a user may bring: a norm, a loose parameter, a squashed output, this package's activations."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), activation("smooth_leaky"), nn.LayerNorm(8), nn.Linear(8, 8))
        self.act = activation("prelu")
        self.out = nn.Sequential(nn.Linear(8, 2), nn.Tanh())
        self.log_std = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.act(self.body(x))) + self.log_std.exp()


def functional() -> Calls:
    first, second = nn.Linear(4, 8), nn.Linear(8, 2)
    return Calls(lambda self, x: self.second(F.relu(self.first(x))), first=first, second=second)


def test_a_learner_offers_one_capability_of_each_class():
    learner = learner_for(network(), capabilities=(Injectable("5"),))
    learner.offer(RetainLoss(lambda: torch.zeros(())))
    learner.offer(Injectable("7"))
    assert learner.offers(Injectable) == Injectable("7")
    assert [type(each) for each in learner.capabilities] == [RetainLoss, Injectable]
    assert learner.offers(ReleasedCode) is None


def test_chain_gives_roles_and_depths_in_order():
    layers = chain(network())
    assert [(layer.name, layer.role, layer.depth) for layer in layers] == [
        ("0", "encoder", 0),
        ("2", "hidden", 1),
        ("5", "hidden", 2),
        ("7", "head", 3),
    ]
    assert [layer.name for layer in chain(nn.Sequential(nn.Linear(2, 2)), "q.")] == ["q.0"]
    assert chain(nn.Linear(2, 2))[0].role == "head"


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("all", ["0", "2", "5", "7"]),
        ("linear", ["5", "7"]),
        (("head", "conv"), ["0", "2", "7"]),
        (("hidden", "linear"), ["2", "5", "7"]),
    ],
)
def test_scopes_name_layers_by_role_kind_or_several_words(scope, expected):
    assert [layer.name for layer in learner_for(network()).select(scope)] == expected


def test_scopes_that_name_nothing_are_refused_in_one_line():
    with pytest.raises(ValueError, match=r"^unknown scope 'hiden': did you mean 'hidden'"):
        learner_for(network()).select(("head", "hiden"))
    with pytest.raises(ValueError, match=r"^scope 'conv' names no layer of 'actor'$"):
        learner_for(Actor(), name="actor").select("conv")


def test_a_tied_weight_has_one_name():
    module = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 5))
    module[3].weight = module[0].weight
    learner = learner_for(module)
    assert learner.parameters_of(learner.select("head")) == ["0.weight", "3.bias"]
    with torch.no_grad():
        module[0].weight.mul_(2)
    make("reset", what="head").apply(learner)
    assert torch.equal(module[3].weight, learner.initial["0.weight"])


def test_units_are_the_activations_between_layers_and_not_the_squashed_output():
    assert unit_names(network()) == ("1", "3", "6")
    assert unit_names(Actor()) == ("body.1", "act")
    assert unit_names(nn.Sequential(nn.Linear(2, 2), nn.Softmax(-1), nn.Linear(2, 2))) == ()


def test_an_actor_critic_knows_its_wiring():
    spaces = {"a": PolicySpace(3, Gaussian(2)), "b": PolicySpace(5, Gaussian(1))}
    shared, apart = (MultiHead(spaces, (8, 8), 4, "relu", share, torch.Generator()) for share in (True, False))
    policy, value = ("policy.a", "policy.b"), ("value.a", "value.b")
    assert shared.wiring()[0] == {
        "body.1": Wiring(("body.0",), ("body.2",)),
        "body.3": Wiring(("body.2",), policy + value),
    }
    assert apart.wiring()[0] == {
        "value_body.1": Wiring(("value_body.0",), ("value_body.2",)),
        "value_body.3": Wiring(("value_body.2",), value),
        "body.1": Wiring(("body.0",), ("body.2",)),
        "body.3": Wiring(("body.2",), policy),
    }


def test_a_wiring_that_does_not_fit_is_refused_when_the_learner_is_built():
    right = learner_for(network()).wiring
    with pytest.raises(ValueError, match="'model': the wiring says nothing of '6'"):
        learner_for(network(), wiring={unit: right[unit] for unit in ("1", "3")})
    with pytest.raises(ValueError, match="'model' has no module '8'"):
        learner_for(network(), wiring={**right, "6": Wiring(("5",), ("8",))})


def test_a_fresh_draw_covers_parameters_that_no_layer_redraws():
    module = Actor()
    learner = learner_for(module, seed=4)
    with torch.no_grad():
        module.log_std.fill_(7.0)
    make("reset", toward="fresh").apply(learner)
    expected = redraw(module, torch.Generator().manual_seed(4))
    assert module.log_std.tolist() == [0.0, 0.0]
    assert not torch.equal(module.out[0].weight, learner.initial["out.0.weight"])
    assert all(torch.equal(dict(module.named_parameters())[name], value) for name, value in expected.items())


def test_what_cannot_work_is_refused_when_the_learner_is_built():
    data = {"probe": lambda: (torch.zeros(1, 4),), "loss": lambda: torch.zeros(())}
    for module, more, words in (
        (nn.ReLU(), {}, "ReLU has no parameters to intervene in"),
        (Actor(), {"probe": data["probe"]}, "probe and loss go together"),
        (functional(), {**data, "units": ("frist",)}, "'model' has no module 'frist': did you mean 'first'"),
        (functional(), {"layers": chain(functional())}, "layer 'first' is a module of another network"),
        (functional(), {**data, "units": ("first",)}, r"'first' is a Linear.* F.relu"),
    ):
        with pytest.raises(ValueError, match=words):
            learner_for(module, **more)


def test_weights_can_be_measured_without_any_data():
    of_weights = {name for name, metric in METRICS.items() if metric.needs in ("weights", "matrices", "pairs")}
    assert measure(learner_for(functional())).keys() == of_weights > {"dfi", "weight_norm", "lambda_balance"}


def stack_of(count, **says):
    module = nn.Sequential(StackedLinear(count, 4, count), nn.ReLU(), StackedLinear(count, count, 2))
    learner = learner_for(module, name="critic")
    return replace(learner, **{"seeds": 0, "networks": 1, **says})


def test_a_learner_says_what_the_first_axis_of_its_parameters_is():
    assert stack_of(6, seeds=3, networks=2).members == 6
    assert stack_of(2, networks=2).members == 2
    assert stack_of(1).members == 1
    assert stack_of(6, seeds=3, networks=2).networks_of((0, 2)) == [0, 1, 4, 5]
    assert stack_of(6, seeds=3, networks=2).by_seed(torch.arange(6)).tolist() == [[0, 1], [2, 3], [4, 5]]
    plain = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
    assert learner_for(plain).members == 0
    assert (learner_for(nn.Sequential(StackedLinear(3, 4, 2))).networks, learner_for(plain).networks) == (3, 1)


def test_a_stack_whose_axis_is_another_is_refused():
    with pytest.raises(ValueError, match="'critic' is a stack of 6 networks: say what they are, seeds= or networks="):
        stack_of(6)
    with pytest.raises(ValueError, match=r"a stack of 4 networks \(seeds=2, networks=2\), but its layers"):
        stack_of(6, seeds=2, networks=2)
