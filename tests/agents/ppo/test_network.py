from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import nn

from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.policies import Bernoulli, Categorical, Gaussian, Policy

SPACES = {"a": PolicySpace(5, Gaussian(2)), "b": PolicySpace(3, Gaussian(4))}


def require_balance(groups: list[list[Any]], lam: float) -> None:
    """Require ‖outgoing‖² − ‖incoming‖² = λ of each unit between the layers of one group and those of the next."""
    for first, second in pairwise(groups):
        into = sum(layer.weight.square().sum(1) + layer.bias.square() for layer in first)
        out = sum(layer.weight.square().sum(0) for layer in second)
        torch.testing.assert_close(out - into, torch.full_like(out, lam), rtol=0, atol=1e-5)


def network(adapter: int = 6, share_value: bool = True, activation: str = "tanh", seed: int = 0) -> MultiHead:
    return MultiHead(SPACES, (8, 7), adapter, activation, share_value, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("share_value", [True, False])
def test_means_and_values_are_the_plain_forward_pass_of_their_environment(share_value: bool) -> None:
    net = network(share_value=share_value)
    own = "" if share_value else "value_"
    for key, space in SPACES.items():
        x = torch.randn(10, space.observation)
        layers = dict(net.named_modules())

        def hidden(prefix: str, x: torch.Tensor = x, key: str = key, layers: dict = layers) -> torch.Tensor:
            x = layers[f"{prefix}adapters.{key}"](x)
            for name in ("0", "2"):
                x = torch.tanh(layers[f"{prefix}body.{name}"](x))
            return x

        mean, values = net(x, key)
        assert mean.shape == (10, space.policy.outputs)
        torch.testing.assert_close(mean, net.policy[key](hidden("")))
        torch.testing.assert_close(values, net.value[key](hidden(own))[:, 0])
        assert torch.equal(mean, net.make_policy(key)(x))
        assert torch.equal(values, net.values(x, key))


def test_without_an_adapter_the_body_reads_observations_of_equal_sizes() -> None:
    net = MultiHead({key: PolicySpace(5, Gaussian(2)) for key in "ab"}, (8,), 0, "relu", True, torch.Generator())
    assert net.body[0].in_features == 5
    assert not any("adapters" in name for name, _ in net.named_parameters())
    with pytest.raises(ValueError, match=r"--adapter 0 needs .* equal observation sizes.*'b': 3"):
        network(adapter=0)


def test_layers_come_in_forward_order_with_their_roles() -> None:
    net = network(share_value=False)
    layers = net.layers()
    assert {layer.name for layer in layers} == {n for n, m in net.named_modules() if isinstance(m, nn.Linear)}
    assert [layer.role for layer in layers if layer.name.startswith(("adapters", "body", "policy"))] == [
        "encoder", "encoder", "hidden", "hidden", "head", "head",
    ]  # fmt: skip
    depth = {layer.name: layer.depth for layer in layers}
    assert depth["adapters.a"] == depth["value_adapters.b"] < depth["body.0"] < depth["body.2"] < depth["value.b"]
    assert net.units() == ("value_body.1", "value_body.3", "body.1", "body.3")


def test_initial_weights_are_orthogonal_with_the_usual_gains_and_zero_biases() -> None:
    net = network()
    gains = {"adapters.a": 1.0, "body.0": 2**0.5, "body.2": 2**0.5, "policy.a": 0.01, "value.b": 1.0}
    for name, gain in gains.items():
        layer = net.get_submodule(name)
        singular = torch.linalg.svdvals(layer.weight.detach())
        torch.testing.assert_close(singular, torch.full_like(singular, gain), rtol=1e-4, atol=1e-6)
        assert not layer.bias.any()
    assert not net.log_std["a"].any()


def test_pytorchs_initialisation_is_that_of_its_linear_layers() -> None:
    """Weights and biases lie between the same bounds, everywhere, and fill them."""
    draws = torch.Generator().manual_seed(0)
    net = MultiHead(SPACES, (200, 100), 50, "relu", False, draws, initialization="pytorch")
    for layer in [module for module in net.modules() if isinstance(module, nn.Linear)]:
        bound = layer.in_features**-0.5
        assert layer.bias.abs().max() <= bound
        assert 0.9 * bound < layer.weight.abs().max() <= bound


def test_a_separate_value_function_can_have_other_widths() -> None:
    draws = torch.Generator().manual_seed(0)
    net = MultiHead(SPACES, (8, 7), 6, "tanh", False, draws, value_hidden=(5, 4, 3))
    assert [layer.out_features for layer in net.body if isinstance(layer, nn.Linear)] == [8, 7]
    assert [layer.out_features for layer in net.value_body if isinstance(layer, nn.Linear)] == [5, 4, 3]
    outputs, values = net(torch.randn(10, 5), "a")
    assert (outputs.shape, values.shape) == ((10, 2), (10,))
    assert net.wiring()[0]["value_body.5"].outgoing == ("value.a", "value.b")
    assert net.wiring()[0]["body.3"].outgoing == ("policy.a", "policy.b")


@pytest.mark.parametrize("policy", [Categorical(3), Bernoulli(3)])
def test_only_a_gaussian_policy_has_a_standard_deviation(policy: Policy) -> None:
    spaces = {"a": PolicySpace(5, policy), "b": PolicySpace(3, Gaussian(2))}
    net = MultiHead(spaces, (8,), 6, "tanh", True, torch.Generator().manual_seed(0))
    assert net.scale("a") is None
    assert net.scale("b") is net.log_std["b"]
    assert [name for name, _ in net.named_parameters() if "log_std" in name] == ["log_std.b"]
    assert net.make_policy("a")(torch.randn(4, 5)).shape == (4, 3)


def test_initial_weights_come_from_the_given_generator_alone() -> None:
    same, other = network(seed=1).state_dict(), network(seed=2).state_dict()
    torch.manual_seed(5)
    again = network(seed=1).state_dict()
    assert all(torch.equal(same[name], again[name]) for name in same)
    assert not torch.equal(same["body.0.weight"], other["body.0.weight"])


@pytest.mark.slow
@pytest.mark.parametrize("adapter", [0, 6])
@pytest.mark.parametrize("share_value", [True, False])
@pytest.mark.parametrize("lam", [2.0, -1.0])
def test_hidden_units_begin_with_the_balance_that_is_asked_for(adapter: int, share_value: bool, lam: float) -> None:
    spaces = {"a": PolicySpace(5, Gaussian(2)), "b": PolicySpace(5, Gaussian(4))}
    net, drawn = (
        MultiHead(spaces, (8, 7), adapter, "tanh", share_value, torch.Generator().manual_seed(0), init_lambda=own)
        for own in (lam, None)
    )
    assert torch.equal(net.log_std["a"], drawn.log_std["a"])
    policy, value = [*net.policy.values()], [*net.value.values()]
    ways = [(net.adapters, net.body, [*policy, *value])]
    if not share_value:
        ways = [(net.adapters, net.body, policy), (net.value_adapters, net.value_body, value)]
    for adapters, body, heads in ways:
        require_balance([*([[*adapters.values()]] if adapter else []), [body[0]], [body[2]], heads], lam)
    ratio = net.policy["a"].weight.norm(dim=0) / drawn.policy["a"].weight.norm(dim=0)
    same = net.policy["b"].weight.norm(dim=0) / drawn.policy["b"].weight.norm(dim=0)
    torch.testing.assert_close(ratio, same)  # one factor for all that read a unit


def test_units_of_several_features_cannot_begin_balanced() -> None:
    with pytest.raises(ValueError, match="only units with one feature each can be balanced"):
        MultiHead(SPACES, (8, 7), 6, "swiglu", True, torch.Generator(), init_lambda=1.0)
