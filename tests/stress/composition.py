"""Whether a member's bits depend on who else is in its stack, and where.

    python tests/stress/composition.py [--threads 2] [--way compiled] [--only ppo]

Each member makes whole updates (forward, backward, clipping, Adam) in stacks of 2, 5 and 10 members, in several orders.
Its slices of losses, parameters and Adam's slots are compared, bit for bit. Two members keep one seed, data included.
A case is expected to be the same in every stack where widths and minibatches are multiples of 16: blocks of 64 bytes,
of which the products and the vectorised loops of all members begin alike. The others show what happens otherwise.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
import tyro
from torch import Tensor, nn
from torch.nn import functional as F

from supple.agents.ppo.update import GradientStep
from supple.engine.machine.denormals import flush_denormals
from supple.networks import Adam, StackedLinear

STACKS = ((0, 1), (1, 0), (0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (5, 0, 7, 1, 9), tuple(range(10)), tuple(range(9, -1, -1)))
UPDATES = 3
Members = Sequence[int]
Losses = Callable[..., Tensor]


@dataclass(frozen=True)
class Args:
    threads: int = 1
    """Threads of PyTorch."""
    way: Literal["eager", "compiled"] = "eager"
    """Whether the updates are compiled, each stack anew: half a minute."""
    only: str = ""
    """Only cases whose name contains this."""


def draw(members: Members, name: str, *shape: int) -> Tensor:
    """Return normal numbers, (members, *shape), which are a member's own wherever it stands."""
    seed = 1000 * sum(map(ord, name))
    return torch.stack([torch.randn(shape, generator=torch.Generator().manual_seed(seed + m)) for m in members])


class MLP(nn.Module):
    def __init__(self, members: Members, name: str, widths: Sequence[int], act: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.act = act
        self.layers = nn.ModuleList(StackedLinear(len(members), a, b) for a, b in pairwise(widths))
        with torch.no_grad():
            for number, layer in enumerate(self.layers):
                d_out, d_in = layer.weight.shape[1:]
                layer.weight.copy_(draw(members, f"{name} weight {number}", d_out, d_in) / d_in**0.5)
                layer.bias.copy_(draw(members, f"{name} bias {number}", d_out) / 10)

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = self.act(layer(x))
        return last(x)


def ppo(widths: tuple[int, ...], n: int, act: Callable[[Tensor], Tensor], members: Members, d: int = 6) -> "Case":
    policy, value = (MLP(members, str(a), (d, *widths, a), act) for a in (3, 1))
    actions = draw(members, "actions", n, 3).argmax(-1)
    rest = (draw(members, name, n) for name in ("log-probabilities", "advantages", "returns"))

    def losses(x: Tensor, actions: Tensor, old: Tensor, advantages: Tensor, returns: Tensor) -> Tensor:
        logits = F.log_softmax(policy(x), -1)
        ratio = (logits.gather(-1, actions.unsqueeze(-1)).squeeze(-1) + old.abs()).exp()
        advantages = (advantages - advantages.mean(-1, keepdim=True)) / (advantages.std(-1, keepdim=True) + 1e-8)
        gain = torch.min(advantages * ratio, advantages * ratio.clamp(0.8, 1.2))
        error = (value(x).squeeze(-1) - returns).square()
        return 0.5 * error.mean(-1) - gain.mean(-1) + 0.01 * (logits.exp() * logits).sum(-1).mean(-1)

    return Case([policy, value], losses, n, (draw(members, "observations", n, d), actions, *rest))


def dqn(width: int, n: int, members: Members) -> "Case":
    values = MLP(members, "values", (4, width, width, 2), torch.relu)
    actions = draw(members, "actions", n, 2).argmax(-1)

    def losses(x: Tensor, actions: Tensor, targets: Tensor) -> Tensor:
        chosen = values(x).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        return F.smooth_l1_loss(chosen, targets, reduction="none").mean(-1)

    return Case([values], losses, n, (draw(members, "observations", n, 4), actions, draw(members, "targets", n)))


def critics(width: int, n: int, members: Members) -> "Case":
    values = MLP([2 * m + i for m in members for i in range(2)], "values", (4, width, width, 1), torch.relu)

    def losses(x: Tensor, targets: Tensor) -> Tensor:
        error = values(x.repeat_interleave(2, 0)).squeeze(-1) - targets.repeat_interleave(2, 0)
        return error.square().mean(-1)

    return Case([values], losses, n, (draw(members, "observations", n, 4), draw(members, "targets", n)), 2)


def actor(width: int, n: int, members: Members) -> "Case":
    policy = MLP(members, "policy", (3, width, width, 2), torch.relu)
    values = MLP([2 * m + i for m in members for i in range(2)], "values", (4, width, width, 1), torch.relu)

    def losses(x: Tensor, noise: Tensor) -> Tensor:
        mean, scale = policy(x).chunk(2, -1)
        drawn = mean + scale.tanh().exp() * noise
        log_prob = (-0.5 * noise.square() - scale.tanh() - 2 * (0.6931 - drawn - F.softplus(-2 * drawn))).sum(-1)
        both = values(torch.cat([x, drawn.tanh()], -1).repeat_interleave(2, 0)).squeeze(-1)
        return (0.2 * log_prob - both.unflatten(0, (-1, 2)).min(1).values).mean(-1)

    return Case([policy], losses, n, (draw(members, "observations", n, 3), draw(members, "noise", n, 1)))


@dataclass
class Case:
    networks: list[MLP]
    losses: Losses
    rows: int
    batch: tuple[Tensor, ...]
    per: int = 1  # networks of a member

    def update(self, step: GradientStep) -> dict[str, Tensor]:
        """Make the updates. Return what they left, by name, with the networks of all members as first axis."""
        parameters = [p for network in self.networks for p in network.parameters()]
        optimizer = Adam(parameters, lr=3e-3, eps=1e-5, networks=1)
        step.begin(optimizer, parameters, 1)

        def loss(*batch: Tensor) -> tuple[Tensor, Tensor]:
            values = self.losses(*batch)
            return values, values.detach()

        left = {}
        for number in range(UPDATES):
            left[f"loss {number}"] = step(loss, self.rows, *self.batch)[0]
        for number, p in enumerate(parameters):
            left |= {f"parameter {number}": p.detach(), f"average {number}": optimizer.state[p]["exp_avg"]}
        return left


CASES: dict[str, Callable[[Members], Case]] = {
    "ppo 3 × 128, n = 32": partial(ppo, (128,) * 3, 32, F.leaky_relu),
    "ppo 3 × 128, n = 64": partial(ppo, (128,) * 3, 64, torch.tanh),
    "ppo 2 × 64, n = 32": partial(ppo, (64,) * 2, 32, torch.tanh),
    "ppo 2 × 64, n = 64": partial(ppo, (64,) * 2, 64, torch.sigmoid),
    "dqn 2 × 256, n = 32": partial(dqn, 256, 32),
    "dqn 2 × 256, n = 128": partial(dqn, 256, 128),
    "sac critics 2 × 64, n = 256": partial(critics, 64, 256),
    "sac actor 2 × 64, n = 256": partial(actor, 64, 256),
    "odd: ppo 2 × 33, n = 25": partial(ppo, (33,) * 2, 25, torch.sigmoid, d=3),
    "odd: ppo 2 × 64, n = 25": partial(ppo, (64,) * 2, 25, torch.tanh),
    "odd: ppo 2 × 40, n = 32": partial(ppo, (40,) * 2, 32, torch.tanh),
}


def differences(make: Callable[[Members], Case], compiled: bool) -> dict[str, int]:
    """Return the number of slices that differ from those of the member's first stack, by name."""
    first: dict[tuple[int, str], Tensor] = {}
    found: dict[str, int] = {}
    for members in STACKS:
        case = make(members)
        for name, whole in case.update(GradientStep(0.5, compiled, stacked=True)).items():
            for member, part in zip(members, whole.unflatten(0, (-1, case.per)), strict=True):
                if not torch.equal(first.setdefault((member, name), part.clone()), part):
                    found[name] = found.get(name, 0) + 1
    return found


def main(args: Args) -> None:
    flush_denormals()
    torch.set_num_threads(args.threads)
    for name, make in CASES.items():
        if args.only in name:
            found = differences(make, args.way == "compiled")
            words = ", ".join(f"{what} × {count}" for what, count in list(found.items())[:6])
            print(f"{name:30} {args.way}, {args.threads} threads: {f'differs: {words}' if found else 'the same'}")


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
