"""The small networks on which conformance.py tests interventions: plain, with a target network, and a stack."""

import copy
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..interventions import Injectable, Learner, OtherMinibatch, learner_for, redraw
from ..networks.stacked import StackedConv2d, StackedLinear
from ..networks.wiring import Wiring

MEMBERS = 3  # of the stack
WIRING = {"one": Wiring(("conv",), ("hidden",)), "two": Wiring(("hidden",), ("head",))}
Network = Callable[[], Learner]


class Net(nn.Module):
    """A network with a convolution, a hidden layer and a head in double precision, or a stack of `members` of them."""

    def __init__(self, members: int = 0) -> None:
        super().__init__()
        self.conv = StackedConv2d(members, 1, 2, 3) if members else nn.Conv2d(1, 2, 3)
        self.one, self.two = nn.ReLU(), nn.ReLU()
        self.hidden = StackedLinear(members, 8, 6) if members else nn.Linear(8, 6)
        self.head = StackedLinear(members, 6, 3) if members else nn.Linear(6, 3)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits, (members, n, 3) or (n, 3), for images (members, n, 1, 4, 4) or (n, 1, 4, 4)."""
        hidden: Tensor = self.two(self.hidden(self.one(self.conv(x)).flatten(-3)))
        out: Tensor = self.head(hidden)
        return out


def network(member: int | None = 0, target: bool = False, momentum: bool = False) -> Learner:
    """Return a learner with one of the three networks, the same at every call.

    Args:
        member: Index of the network; None for all three as a stack.
        target: Whether it has a target network.
        momentum: Use SGD with momentum instead of Adam, whose step counter the members of a stack would share.
    """
    source = torch.Generator().manual_seed(1)
    x = torch.randn(MEMBERS, 24, 1, 4, 4, generator=source, dtype=torch.float64)
    y = torch.randint(3, (MEMBERS, 24), generator=source)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = stack = Net(MEMBERS)
        plain = Net()
        if member is not None:
            net = copy.deepcopy(plain)
            net.load_state_dict({name: value[member] for name, value in stack.state_dict().items()})
            x, y = x[member], y[member]

    def losses(start: int = 0, count: int = 24) -> Tensor:
        inputs, labels = x.narrow(-4, start, count), y.narrow(-1, start, count)
        loss = F.cross_entropy(net(inputs).flatten(0, -2), labels.flatten(), reduction="none")
        return loss.view(labels.shape)

    def batches(count: int | None) -> Iterator[Tensor]:
        return (losses(8 * (i % 3), 8) for i in range(3 if count is None else count))

    learner = learner_for(
        net,
        torch.optim.SGD(net.parameters(), 0.1, 0.9) if momentum else torch.optim.Adam(net.parameters(), 0.02),
        wiring=WIRING,
        probe=lambda: (x,),
        loss=lambda: losses().mean(-1).sum(),
        batches=batches,
        followers=(copy.deepcopy(net).requires_grad_(False),) if target else (),
    )
    generators = tuple(torch.Generator().manual_seed(100 + k) for k in range(MEMBERS))
    if member is None:
        learner.generators = learner.redraw_draws = generators
    else:
        learner.generator = generators[member]

    def draw_values() -> dict[str, Tensor]:
        if member is not None:
            return redraw(plain, learner.generator)
        members = [redraw(plain, generator) for generator in generators]
        return {name: torch.stack([values[name] for values in members]) for name in members[0]}

    def draw_inputs() -> tuple[Tensor]:
        if member is not None:
            return (x[torch.randint(24, (8,), generator=learner.generator)],)
        rows = [torch.randint(24, (8,), generator=generator) for generator in generators]
        return (torch.stack([inputs[chosen] for inputs, chosen in zip(x, rows, strict=True)]),)

    learner.redraw, learner.values = draw_values, lambda outputs: outputs
    learner.capabilities = Injectable("head"), OtherMinibatch(draw_inputs)
    return learner


NETWORKS: dict[str, Network] = {
    "plain": network,
    "with target": lambda: network(target=True),
    "stack of 3": lambda: network(None, momentum=True),
}
