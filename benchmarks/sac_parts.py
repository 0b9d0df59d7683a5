"""What the benchmarks of SAC share: full-size agents, and the arithmetic of one update."""

from collections.abc import Callable
from typing import Any

import torch

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC, Control

ENV = "h1-walk"
SPACES = {ENV: Control(51, (-1.0,) * 19, (1.0,) * 19)}  # its sizes; no environment is made


SETTINGS: dict[str, Any] = {"env": ENV, "steps": 10**9, "device": "cpu", "compile": "off", "replay_size": 10_000}


def full_size(**settings: Any) -> SAC:
    """Return an agent with the networks and the batch of the FIRE paper's Table 5; from one seed, the same weights."""
    return SAC(SACSettings(**SETTINGS | settings), SPACES)


def products(agent: SAC) -> list[tuple[int, int, int, int]]:
    """Return the matrix products of one update as (stack, n, k, m), each `stack` times n × k by k × m.

    Actor: forward on s and on s′, backward on s. Critics: forward on (s, π(s)) and backward to the actions alone;
    forward of the targets on (s′, π(s′)); forward on (s, a), and backward to the weights. A backward pass has one
    product for a layer's weights and one for its inputs, which the first layer does not need.
    """
    n, found = agent.settings.batch_size, []
    for layer in agent.learners["actor"].layers:
        d_out, d_in = layer.weight.shape
        found += 2 * [(1, n, d_in, d_out)] + [(1, d_out, n, d_in)]
        if layer.depth:
            found.append((1, n, d_out, d_in))
    for layer in agent.learners["critic"].layers:
        members, d_out, d_in = layer.weight.shape
        found += 3 * [(members, n, d_in, d_out)] + [(members, d_out, n, d_in)]
        found.append((members, n, d_out, d_in if layer.depth else agent.size))
        if layer.depth:
            found.append((members, n, d_out, d_in))
    return found


def gflop(agent: SAC) -> float:
    """Return the GFLOP of one update's products. All else is below one per cent of them at full size."""
    return sum(2 * stack * n * k * m for stack, n, k, m in products(agent)) / 1e9


def products_alone(agent: SAC) -> Callable[[], None]:
    """Return the floor of an update: its matrix products and nothing else, in their shapes."""
    operands = [
        (torch.randn(stack, n, k), torch.randn(stack, k, m), torch.empty(stack, n, m))
        for stack, n, k, m in products(agent)
    ]

    def run() -> None:
        for a, b, out in operands:
            torch.bmm(a, b, out=out)

    return run
