"""Adam for a stack is torch.optim.Adam on each member, step counters included."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.interventions.contract import zero_slots_
from supple.networks import StackedAdam

SHAPES = [(3, 16, 4), (3, 5, 4), (3, 5), (3, 2, 1, 3, 3), (3,)]


def pair() -> tuple[list[nn.Parameter], list[list[nn.Parameter]]]:
    """A stack of three, and the same apart."""
    torch.manual_seed(0)
    stack = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    return stack, [[nn.Parameter(p.detach()[member].clone()) for p in stack] for member in range(3)]


def step(
    optimizer: StackedAdam, stack: list[nn.Parameter], singles: list[torch.optim.Adam], rate: float = 1e-2
) -> None:
    for parameter in stack:
        parameter.grad = torch.randn_like(parameter)
    for group in (*optimizer.param_groups, *(g for single in singles for g in single.param_groups)):
        group["lr"] = rate
    for member, single in enumerate(singles):
        for parameter, ours in zip(single.param_groups[0]["params"], stack, strict=True):
            assert ours.grad is not None
            parameter.grad = ours.grad[member].clone()
        single.step()
    optimizer.step()


def assert_same(stack: list[nn.Parameter], apart: list[list[nn.Parameter]]) -> None:
    """To the bit: a member is what its own optimizer makes of it."""
    for index, parameter in enumerate(stack):
        assert torch.equal(parameter, torch.stack([own[index] for own in apart]))


@pytest.mark.parametrize("decoupled", [False, True], ids=["Adam", "AdamW"])
@pytest.mark.parametrize("options", [{}, {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}], ids=["", "decay"])
def test_members_take_the_steps_of_optimizers_of_their_own(decoupled: bool, options: dict[str, Any]) -> None:
    stack, apart = pair()
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    singles = [kind(each, lr=1e-2, fused=True, **{"weight_decay": 0.0, **options}) for each in apart]
    optimizer = StackedAdam(stack, lr=1e-2, decoupled=decoupled, **options)
    for update in range(5):
        step(optimizer, stack, singles, rate=1e-2 / (update + 1))
        assert_same(stack, apart)


@pytest.mark.parametrize("member", [0, 2])
def test_members_match_single_optimizers_after_one_step_counter_is_reset(member: int) -> None:
    stack, apart = pair()
    optimizer, singles = StackedAdam(stack, lr=1e-2), [torch.optim.Adam(each, lr=1e-2, fused=True) for each in apart]
    for _ in range(4):
        step(optimizer, stack, singles)
    mask = torch.zeros(3, 5, 1, dtype=torch.bool)
    mask[member, 1] = True  # one unit of one member
    zero_slots_(optimizer, stack[1:2], [mask])
    zero_slots_(singles[member], apart[member][1:2], [mask[member]])
    assert optimizer.state[stack[1]]["step"].tolist() == [0.0 if m == member else 4.0 for m in range(3)]
    for _ in range(4):
        step(optimizer, stack, singles)
        assert_same(stack, apart)
    assert optimizer.state[stack[1]]["step"].tolist() == [4.0 if m == member else 8.0 for m in range(3)]
    assert optimizer.state[stack[2]]["step"].tolist() == [8.0] * 3


@pytest.mark.parametrize("decoupled", [False, True])
def test_networks_of_a_member_share_its_counter_and_weights_decay_as_in_adam_or_adamw(decoupled: bool) -> None:
    torch.manual_seed(0)
    stack = nn.Parameter(torch.randn(6, 5, 4))  # three members with two networks each
    apart = [nn.Parameter(part.clone()) for part in stack.detach().split(2)]
    constants = 1e-2, (0.8, 0.99), 1e-6, 0.1
    optimizer = StackedAdam([stack], *constants, decoupled=decoupled, networks=2)
    kind = torch.optim.AdamW if decoupled else torch.optim.Adam
    singles = [kind([each], *constants) for each in apart]

    def step() -> None:
        stack.grad = torch.randn_like(stack)
        for each, gradient in zip(apart, stack.grad.split(2), strict=True):
            each.grad = gradient.clone()
        for one in (optimizer, *singles):
            one.step()

    for _ in range(3):
        step()
    mask = torch.zeros(6, 5, 1, dtype=torch.bool)
    mask[2, 1] = True  # one unit of the first network of the second member
    zero_slots_(optimizer, [stack], [mask])
    zero_slots_(singles[1], [apart[1]], [mask[2:4]])
    assert optimizer.state[stack]["step"].tolist() == [3.0, 0.0, 3.0]
    for _ in range(3):
        step()
    torch.testing.assert_close(stack, torch.cat(apart), rtol=1e-6, atol=1e-7)
    assert optimizer.state[stack]["step"].tolist() == [6.0, 3.0, 6.0]


def test_a_parameter_without_gradient_stays() -> None:
    frozen, trained = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
    optimizer = StackedAdam([frozen, trained], lr=0.1)
    optimizer.step()
    trained.grad = torch.ones(2, 3)
    optimizer.step()
    assert torch.equal(frozen, torch.ones(2, 3))
    torch.testing.assert_close(trained.detach(), torch.full((2, 3), 0.9))
    assert frozen not in optimizer.state


def test_a_closure_is_called_once_and_its_value_returned() -> None:
    parameter = nn.Parameter(torch.ones(2, 3))
    calls: list[Tensor] = []

    def closure() -> float:
        calls.append(parameter.detach().clone())
        parameter.grad = torch.ones(2, 3)
        return 3.0

    assert StackedAdam([parameter]).step(closure) == 3.0
    assert len(calls) == 1
