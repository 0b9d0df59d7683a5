"""Adam for one network is PyTorch's to the bit; for a stack it is that on each member, step counters included."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.interventions.contract import zero_slots_
from supple.networks import Adam

SHAPES = [(3, 16, 4), (3, 5, 4), (3, 5), (3, 2, 1, 3, 3), (3,)]


def pair() -> tuple[list[nn.Parameter], list[list[nn.Parameter]]]:
    """A stack of three, and the same apart."""
    torch.manual_seed(0)
    stack = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    return stack, [[nn.Parameter(p.detach()[member].clone()) for p in stack] for member in range(3)]


def step(optimizer: Adam, stack: list[nn.Parameter], singles: list[torch.optim.Adam], rate: float = 1e-2) -> None:
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
    optimizer = Adam(stack, lr=1e-2, decoupled=decoupled, networks=1, **options)
    for update in range(5):
        step(optimizer, stack, singles, rate=1e-2 / (update + 1))
        assert_same(stack, apart)


@pytest.mark.parametrize("decoupled", [False, True], ids=["Adam", "AdamW"])
def test_one_network_takes_the_steps_of_pytorchs_fused_adam(decoupled: bool) -> None:
    (ours, *_), options = pair()[1], {"lr": 1e-2, "weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3}
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    optimizer, kind = Adam(ours, decoupled=decoupled, **options), torch.optim.AdamW if decoupled else torch.optim.Adam
    reference = kind(theirs, fused=True, **options)
    for _ in range(3):
        for own, other in zip(ours, theirs, strict=True):
            own.grad = torch.randn_like(own)
            other.grad = own.grad.clone()
        optimizer.step()
        reference.step()
        for own, other in zip(ours, theirs, strict=True):
            assert torch.equal(own, other)
            assert all(torch.equal(optimizer.state[own][name], slot) for name, slot in reference.state[other].items())


@pytest.mark.parametrize("options", [{"lr": -1.0}, {"betas": (0.9, 1.0)}, {"eps": -1.0}, {"weight_decay": -1.0}])
def test_rates_and_betas_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Adam: rates must be 0 or more"):
        Adam(pair()[0], **options)


@pytest.mark.parametrize("member", [0, 2])
def test_members_match_single_optimizers_after_one_step_counter_is_reset(member: int) -> None:
    stack, apart = pair()
    optimizer, singles = (
        Adam(stack, lr=1e-2, networks=1),
        [torch.optim.Adam(each, lr=1e-2, fused=True) for each in apart],
    )
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
    optimizer = Adam([stack], *constants, decoupled=decoupled, networks=2)
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
    optimizer = Adam([frozen, trained], lr=0.1, networks=1)
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

    assert Adam([parameter]).step(closure) == 3.0
    assert len(calls) == 1
