"""Adam for one network is PyTorch's to the bit; for a stack it is that on each member, step counters included."""

from typing import Any

import pytest
import torch
from torch import nn

from supple.interventions.contract import zero_slots_
from supple.networks import Adam

SHAPES = [(16, 4), (5, 4), (5,), (2, 1, 3, 3), ()]
OPTIONS = {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}
KINDS = pytest.mark.parametrize("decoupled", [False, True], ids=["Adam", "AdamW"])


def stack_of(members: int) -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(members, *shape)) for shape in SHAPES]


@KINDS
@pytest.mark.parametrize("networks", [1, 2])
@pytest.mark.parametrize("options", [{}, OPTIONS], ids=["", "decay"])
def test_members_take_the_steps_of_optimizers_of_their_own(
    decoupled: bool, networks: int, options: dict[str, Any]
) -> None:
    """Each of three members has a step counter, which its networks share; one is reset for one unit's sake."""
    stack = stack_of(3 * networks)
    apart = [[nn.Parameter(p.detach().split(networks)[member].clone()) for p in stack] for member in range(3)]
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    singles = [kind(each, lr=1e-2, fused=True, **{"weight_decay": 0.0, **options}) for each in apart]
    optimizer = Adam(stack, lr=1e-2, decoupled=decoupled, networks=networks, **options)

    def step(rate: float) -> None:
        for parameter in stack:
            parameter.grad = torch.randn_like(parameter)
        for member in range(3):
            for own, ours in zip(apart[member], stack, strict=True):
                own.grad = ours.grad.split(networks)[member].clone()  # type: ignore[union-attr]
        for one in (optimizer, *singles):
            one.param_groups[0]["lr"] = rate
            one.step()
        for index, parameter in enumerate(stack):
            assert torch.equal(parameter, torch.cat([own[index] for own in apart]))

    for update in range(4):
        step(1e-2 / (update + 1))
    mask = torch.zeros(3 * networks, 5, 1, dtype=torch.bool)
    mask[2 * networks, 1] = True  # one unit of the first network of the last member
    zero_slots_(optimizer, stack[1:2], [mask])
    zero_slots_(singles[2], apart[2][1:2], [mask[2 * networks :]])
    assert optimizer.state[stack[1]]["step"].tolist() == [4.0, 4.0, 0.0]
    for _ in range(4):
        step(1e-2)
    assert [optimizer.state[p]["step"].tolist() for p in stack[1:3]] == [[8.0, 8.0, 4.0], [8.0] * 3]


@KINDS
def test_one_network_takes_the_steps_of_pytorchs_fused_adam(decoupled: bool) -> None:
    ours, theirs = stack_of(2), stack_of(2)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    optimizer, reference = Adam(ours, 1e-2, decoupled=decoupled, **OPTIONS), kind(theirs, 1e-2, fused=True, **OPTIONS)
    for _ in range(3):
        for own, other in zip(ours, theirs, strict=True):
            own.grad = torch.randn_like(own)
            other.grad = own.grad.clone()
        optimizer.step()
        reference.step()
    for own, other in zip(ours, theirs, strict=True):
        assert torch.equal(own, other)
        assert all(torch.equal(optimizer.state[own][name], slot) for name, slot in reference.state[other].items())


@pytest.mark.parametrize("options", [{"lr": -1.0}, {"betas": (0.9, 1.0)}])
def test_rates_and_betas_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Adam: rates must be 0 or more"):
        Adam(stack_of(1), **options)


def test_a_parameter_without_gradient_stays() -> None:
    frozen, trained = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
    optimizer = Adam([frozen, trained], lr=0.1, networks=1)
    optimizer.step()
    trained.grad = torch.ones(2, 3)
    optimizer.step()
    assert torch.equal(frozen, torch.ones(2, 3))
    torch.testing.assert_close(trained.detach(), torch.full((2, 3), 0.9))
    assert frozen not in optimizer.state


def test_a_closure_is_called_and_its_value_returned() -> None:
    parameter = nn.Parameter(torch.ones(2, 3))

    def closure() -> float:
        parameter.grad = torch.ones(2, 3)
        return 3.0

    assert Adam([parameter]).step(closure) == 3.0
    assert not parameter.eq(1).any()
