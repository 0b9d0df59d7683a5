"""State dicts of other people: under which names and shapes they fit, and the one line in which they are refused."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from supple.networks.state_dicts import fit_state

State = dict[str, Any]


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def shared() -> nn.Module:
    body, out = nn.Linear(3, 3), nn.Linear(3, 3)
    out.weight = body.weight
    return nn.ModuleDict({"body": body, "head": nn.Linear(3, 2), "other": body, "out": out})


def other(module: nn.Module) -> nn.Module:
    """The same network with other values."""
    changed = copy.deepcopy(module)
    for value in changed.state_dict().values():
        value.add_(1)
    return changed


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile, lambda net: torch.compile(nn.DataParallel(net))])
def test_names_of_wrappers_are_not_compared_on_either_side(wrap: Callable[[nn.Module], nn.Module]) -> None:
    plain, trained = network(), other(network())
    for given, onto in ((wrap(trained), plain), (trained, wrap(plain))):
        found = fit_state(given.state_dict(), onto, "it")
        assert found.keys() == onto.state_dict().keys()
        onto.load_state_dict(found)
        assert all(map(torch.equal, onto.state_dict().values(), trained.state_dict().values()))
        plain = network()


def test_a_part_that_is_called_module_keeps_its_name() -> None:
    inner = nn.Module()
    inner.module = nn.Linear(2, 2)
    assert fit_state(inner.state_dict(), inner, "it").keys() == inner.state_dict().keys()
    assert fit_state(nn.DataParallel(inner).state_dict(), inner, "it").keys() == inner.state_dict().keys()


def test_a_tied_tensor_may_have_any_of_its_names_but_only_one_value() -> None:
    module, trained = shared(), other(shared())
    state = dict(trained.state_dict())
    for left_out in (["out.weight"], ["other.weight", "other.bias"], ["body.weight", "body.bias", "out.weight"]):
        given = {name: value for name, value in state.items() if name not in left_out}
        found = fit_state(given, module, "it")
        assert found.keys() == state.keys()
        assert all(torch.equal(found[name], state[name]) for name in state)
    with pytest.raises(ValueError, match=r"'body\.weight' and 'out.weight' differ, but are one tensor"):
        fit_state({**state, "out.weight": torch.zeros(3, 3)}, module, "it")


def test_values_are_copies_on_the_devices_and_in_the_types_of_the_module() -> None:
    module, given = network(), network().double().state_dict()
    found = fit_state(given, module, "it")
    assert all(value.dtype == module.state_dict()[name].dtype for name, value in found.items())
    found["0.weight"].zero_()
    assert module[0].weight.any()
    assert given["0.weight"].any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda state: (
                [state.pop(name) for name in list(state)] and state.update({"net.0.weight": torch.ones(4, 3)})
            ),
            "it lacks '0.weight', '0.bias', '1.weight' and 5 more, and it has 'net.0.weight', which",
        ),
        (lambda state: state.update({"0.weight": torch.ones(5, 3)}), r"size mismatch for '0.weight': \(5, 3\), not"),
        (lambda state: state.pop("1.running_mean"), "lacks '1.running_mean'"),
        (lambda state: state.update(epoch=3), "its 'epoch' is an int, not a tensor"),
    ],
)
def test_what_does_not_fit_is_named_in_one_line(change: Callable[[State], Any], words: str) -> None:
    state = dict(network().state_dict())
    change(state)
    with pytest.raises(ValueError, match=words) as refusal:
        fit_state(state, network(), "it")
    assert "\n" not in str(refusal.value)


def test_a_list_is_no_state_dict_and_counters_of_batches_may_be_missing() -> None:
    with pytest.raises(ValueError, match="it is no state dict, but a list"):
        fit_state([1], network(), "it")
    state = dict(network().state_dict())
    del state["1.num_batches_tracked"]
    assert fit_state(state, network(), "it").keys() == state.keys()
