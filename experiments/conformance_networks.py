"""The small networks on which conformance.py tests interventions: plain, with a target network, and stacks."""

import copy
from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import Injectable, Learner, OtherMinibatch, learner_for, redraw
from supple.interventions.churn import LastLoss
from supple.networks.adam import Adam
from supple.networks.stacked import StackedConv2d, StackedLinear
from supple.networks.wiring import Wiring

SEEDS = 3  # of a stack
WIRING = {"one": Wiring(("conv",), ("hidden",)), "two": Wiring(("hidden",), ("head",))}
Network = Callable[[], Learner]
Stack = Callable[[int | None], Learner]  # of the position of a seed alone, or of None for the stack


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
        return self.head(self.two(self.hidden(self.one(self.conv(x)).flatten(-3))))


def network(seed: int | None = 0, networks: int = 0, target: bool = False) -> Learner:
    """Return a learner for one of three seeds, or for all of them as a stack, the same at every call.

    Args:
        seed: Position of the seed; None for a stack of all three.
        networks: Number of networks of one seed side by side, as SAC's critics, which learn from the same data. 0: one
            network, whose parameters have no axis for it outside a stack of seeds.
        target: Whether there is a target network.
    """
    source = torch.Generator().manual_seed(1)
    x = torch.randn(SEEDS, 24, 1, 4, 4, generator=source, dtype=torch.float64)
    y = torch.randint(3, (SEEDS, 24), generator=source)
    each = max(1, networks)
    x, y = x.repeat_interleave(each, 0), y.repeat_interleave(each, 0)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        net = stack = Net(SEEDS * each)
        alone = Net(networks)
    own: int | slice = slice(None)
    if seed is not None:
        own, net = (slice(seed * networks, (seed + 1) * networks) if networks else seed), copy.deepcopy(alone)
        net.load_state_dict({name: value[own] for name, value in stack.state_dict().items()})
    x, y = x[own], y[own]

    def losses(start: int = 0, count: int = 24) -> Tensor:
        inputs, labels = x.narrow(-4, start, count), y.narrow(-1, start, count)
        loss = F.cross_entropy(net(inputs).flatten(0, -2), labels.flatten(), reduction="none")
        return loss.view(labels.shape)

    def batches(count: int | None) -> Iterator[Tensor]:
        return (losses(8 * (i % 3), 8) for i in range(3 if count is None else count))

    stacked = seed is None or networks > 0
    learner = learner_for(
        net,
        Adam(net.parameters(), 0.02, networks=1) if stacked else torch.optim.Adam(net.parameters(), 0.02),
        units=tuple(WIRING),
        wiring=WIRING,
        probe=lambda: (x,),
        loss=lambda: losses().mean(-1).sum(),
        batches=batches,
        followers=(copy.deepcopy(net).requires_grad_(False),) if target else (),
    )
    draws, redraws = ([torch.Generator().manual_seed(first + k) for k in range(SEEDS)] for first in (100, 200))
    if seed is None:
        learner.seeds, learner.networks = SEEDS, each
        learner.generators, learner.redraw_draws = tuple(draws), tuple(redraws)
    else:
        learner.generator, learner.redraw_draws = draws[seed], (redraws[seed],)

    def draw_values() -> dict[str, Tensor]:
        drawn = [redraw(alone, source) for source in learner.redraw_draws]
        if seed is not None:
            return drawn[0]
        join = torch.cat if networks else torch.stack
        return {name: join([values[name] for values in drawn]) for name in drawn[0]}

    def draw_inputs() -> tuple[Tensor]:
        rows = [torch.randint(24, (8,), generator=source) for source in learner.generators or (learner.generator,)]
        if not stacked:
            return (x[rows[0]],)
        return (torch.stack([x[i, rows[i // each]] for i in range(len(x))]),)

    def last_loss() -> Tensor:
        means = losses().detach().mean(-1)
        return learner.by_seed(means).sum(1) if learner.seeds else means.sum()

    learner.redraw, learner.values = draw_values, lambda outputs: outputs
    learner.capabilities = Injectable("head"), OtherMinibatch(draw_inputs), LastLoss(last_loss)
    return learner


NETWORKS: dict[str, Network] = {
    "plain": network,
    "with target": lambda: network(target=True),
    "stack of 3": lambda: network(None),
}
STACKS: dict[str, Stack] = {
    "stack of 3": lambda seed: network(seed, target=True),
    "3 seeds of 2 networks": lambda seed: network(seed, networks=2, target=True),
}
