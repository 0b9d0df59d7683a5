"""What tests of interventions share: a small learner, updates with all moments, and what is compared to the bit."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Intervention, Learner, learner_for, snapshot

X, Y = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
exact = partial(torch.testing.assert_close, rtol=0, atol=0)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)).double()


def normed() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 4)).double()


def learner(
    build: Callable[[], nn.Module] = mlp,
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.SGD,
    x: Tensor = X,
    lr: float = 0.05,
    **settings: Any,
) -> Learner:
    """Return a learner, always the same, whose network predicts Y from X, or ones from other inputs."""
    torch.manual_seed(0)
    module = build()
    goal = Y if x is X else 1
    return learner_for(
        module, optimizer(module.parameters(), lr=lr, **settings), probe=lambda: (x,),
        loss=lambda: (module(x) - goal).square().mean(),
    )  # fmt: skip


def update(learner: Learner, it: Intervention | None = None, count: int = 1, alone: bool = False) -> None:
    """Make updates with all moments of an intervention; alone: its penalty is the whole loss."""

    def pass_moment(moment: str) -> Any:
        return getattr(it, moment)(learner) if it and it.has(moment) else 0

    for _ in range(count):
        learner.optimizer.zero_grad()
        pass_moment("before_loss")
        ((0 if alone else learner.loss()) + pass_moment("penalty")).backward()
        pass_moment("before_update")
        learner.optimizer.step()
        pass_moment("after_update")


def disturb(learner: Learner, amount: float = 0.5) -> Learner:
    """Return the learner, with noise added to every parameter."""
    with torch.no_grad():
        for parameter in learner.module.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=amount)
    return learner


def slots(learner: Learner) -> dict[str, dict[str, Any]]:
    """Return a copy of the optimizer's state by parameter name."""
    return {
        name: {key: torch.as_tensor(value).clone() for key, value in learner.optimizer.state[p].items()}
        for name, p in learner.module.named_parameters()
        if p in learner.optimizer.state
    }


def changed(module: nn.Module, before: dict[str, Tensor]) -> set[str]:
    """Return the names of the parameters and buffers that differ from a snapshot."""
    return {name for name, value in snapshot(module).items() if not torch.equal(value, before[name])}


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Require a ValueError of one line with these words."""
    with pytest.raises(ValueError, match=words) as error:
        yield
    assert "\n" not in str(error.value)
