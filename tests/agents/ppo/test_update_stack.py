"""Gradient steps of a stack: each member's are those that it makes alone."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.ppo.update import GradientStep, most_in_a_stack
from supple.networks import Adam, StackedLinear
from supple.networks.optimizers import clip_, norms_by_member

MEMBERS, ROWS, MINIBATCHES = 3, 8, 4
LIMIT = 10.0  # of norms, above which only the second member's are
OPTIONS = [
    {},
    {"weight_decay": 0.1, "betas": (0.5, 0.9), "eps": 1e-3},
]


def stack(members: int = MEMBERS, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(StackedLinear(members, 4, 6), nn.Tanh(), StackedLinear(members, 6, 1)).to(dtype)


def rows() -> tuple[Tensor, Tensor]:
    """Inputs and targets, of which the second member's are so large that it alone has gradients to be clipped."""
    g = torch.Generator().manual_seed(1)
    x, y = (torch.randn(MEMBERS, ROWS * MINIBATCHES, d, generator=g, dtype=torch.float64) for d in (4, 1))
    return x, y * torch.tensor([0.1, 30.0, 0.1]).view(-1, 1, 1)


def loss_of(network: nn.Module) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    def loss(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        error = (network(x) - y).square().mean((-2, -1))
        return error, torch.stack([error.detach()] * 5, -1)

    return loss


@pytest.fixture(params=["eager", "compiled"])
def compiled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """What is compiled runs as it is, in eager mode: that is quick."""
    monkeypatch.setattr("supple.agents.ppo.update._compile", lambda function: function)
    return request.param == "compiled"


@pytest.mark.parametrize("limit", [0.0, LIMIT])
@pytest.mark.parametrize("options", OPTIONS, ids=["", "decay"])
def test_a_member_makes_the_steps_that_it_makes_alone(compiled: bool, limit: float, options: dict[str, Any]) -> None:
    network, singles = stack(), [nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)).double() for _ in range(3)]
    for member, single in enumerate(singles):
        for ours, whole in zip(single.parameters(), network.parameters(), strict=True):
            ours.data.copy_(whole[member])
    optimizer = Adam(network.parameters(), lr=0.01, networks=1, **options)
    step = GradientStep(limit, compiled, stacked=True)
    step.begin(optimizer, [*network.parameters()], 2)
    x, y = rows()
    for _ in range(5):
        for part in zip(x.split(2 * ROWS, 1), y.split(2 * ROWS, 1), strict=True):
            numbers = step(loss_of(network), ROWS, *part)
            assert numbers.shape == (2, MEMBERS, 5)
    norms = []
    for member, single in enumerate(singles):
        plain = torch.optim.Adam(single.parameters(), lr=0.01, **options)
        for _ in range(5):
            for minibatch in zip(x[member].split(ROWS), y[member].split(ROWS), strict=True):
                plain.zero_grad()
                value, _ = loss_of(single)(*minibatch)
                value.backward()
                norms.append((member, float(nn.utils.clip_grad_norm_(single.parameters(), limit or 1e9))))
                plain.step()
        for ours, whole in zip(single.parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(whole[member], ours, rtol=1e-10 if not compiled else 1e-5, atol=1e-7)
            slots = optimizer.state[whole]
            assert slots["step"].tolist() == [20.0] * MEMBERS
            for name in ("exp_avg", "exp_avg_sq"):
                torch.testing.assert_close(slots[name][member], plain.state[ours][name], rtol=1e-5, atol=1e-6)
    assert {member for member, norm in norms if norm > LIMIT} == {1}
    assert all(parameter.grad is None for parameter in network.parameters())


def test_counters_of_members_differ_where_one_was_reset(compiled: bool) -> None:
    networks, x, y = [stack(), stack()], *rows()
    for network, ways in zip(networks, (compiled, False), strict=True):
        optimizer = Adam(network.parameters(), lr=0.01, networks=1)
        step = GradientStep(0.0, ways, stacked=True)
        step.begin(optimizer, [*network.parameters()], MINIBATCHES)
        step(loss_of(network), ROWS, x, y)
        for slots in optimizer.state.values():
            for value in slots.values():
                value[1] = 0.0
        step(loss_of(network), ROWS, x, y)
        assert all(slots["step"].tolist() == [8.0, 4.0, 8.0] for slots in optimizer.state.values())
    for one, other in zip(*(network.parameters() for network in networks), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-7)


def test_a_hook_sees_the_clipped_gradient_of_every_member(compiled: bool) -> None:
    network, seen = stack(), []
    step = GradientStep(LIMIT, compiled, stacked=True)
    step.begin(Adam(network.parameters(), lr=0.01, networks=1), [*network.parameters()], 1)
    before = lambda: seen.append(norms_by_member([p.grad for p in network.parameters() if p.grad is not None]))  # noqa: E731
    step(loss_of(network), ROWS, *rows(), before=before)
    assert len(seen) == MINIBATCHES
    torch.testing.assert_close(
        torch.stack(seen)[:, 1], torch.full((MINIBATCHES,), LIMIT, dtype=torch.float64), rtol=1e-5, atol=0
    )
    assert bool((torch.stack(seen)[:, [0, 2]] < LIMIT).all())


@pytest.mark.parametrize("members", [2, 5, 10])
def test_the_clipped_gradients_of_a_member_do_not_depend_on_the_others(members: int) -> None:
    g = torch.Generator().manual_seed(0)
    shapes = [(7, 5), (7,), (3, 7), (3,), *[(4, 4, 2)] * 9]  # so many that a sum over them is vectorised by members
    whole = [torch.randn(10, *shape, generator=g) for shape in shapes]
    clipped = []
    for count in (10, members):
        parameters = [nn.Parameter(torch.zeros(count, *shape)) for shape in shapes]
        for parameter, gradient in zip(parameters, whole, strict=True):
            parameter.grad = gradient[:count].clone()
        clip_(parameters, 0.5, stacked=True)
        clipped.append([p.grad for p in parameters])
    for ten, fewer in zip(*clipped, strict=True):
        assert ten is not None
        assert fewer is not None
        assert torch.equal(ten[:members], fewer)


@pytest.mark.parametrize(("parameters", "most"), [(1_000, 5), (100_000, 3), (350_000, 1), (10**8, 1)])
def test_calls_of_large_stacks_make_fewer_steps(parameters: int, most: int) -> None:
    assert most_in_a_stack(5, parameters, rows=32) == most
