"""Gradient steps of stacks: what a member of a stack costs beside an agent alone, and beside its arithmetic."""

from collections.abc import Sequence
from time import process_time

import floors
import torch
from entries import Asked, Turn, Turns
from floors import mlp
from timing import seconds

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO, UNROLL
from supple.agents.ppo.network import PolicySpace
from supple.agents.ppo.policies import Categorical
from supple.agents.ppo.update import most_in_a_stack, ppo_loss, steps_per_call
from supple.agents.presets import GYM_CONTROL
from supple.engine.machine.allocator import keep_freed_memory

ROWS, MINIBATCHES = 32, 20
INPUTS, ACTIONS = 4, 2
LOSS = PPOSettings(entropy_coefficient=0.01, normalize_advantage=False)


def gradient_steps(asked: Asked, width: str, limit: str) -> Turns:
    """Return turns of the gradient steps of PPO on CartPole, µs of the processor for one step of one member.

    The floor is the operations of the products at the rate at which a stack multiplies 32 × width by width × width.

    Args:
        asked: What was asked for.
        width: The width of three hidden layers, for policy and value each.
        limit: The norm to which gradients are clipped by member; 0: not at all.
    """
    keep_freed_memory()
    hidden = (int(width),) * 3
    layers = [mlp(INPUTS, hidden, outputs) for outputs in (ACTIONS, 1)]
    products = [product for each in layers for product in floors.products_of(each, ROWS)]
    turns: dict[str, Turn] = {"floor": floor(products, int(width), asked.small)}
    for members in (1, 5) if asked.small else (1, 2, 5, 10):
        for way in ("off",) if asked.small else ("off", "on"):
            name = f"{'alone' if members == 1 else f'{members} members'}{', compiled' * (way == 'on')}"
            turns[name] = steps(range(members), hidden, float(limit), way, asked.small)
    return turns


def floor(products: Sequence[floors.Product], width: int, small: bool) -> Turn:
    members, repeats = 5, 1 if small else 200
    of_layer = (members, ROWS, width, width)
    multiply = floors.multiply([of_layer])
    share = floors.gflop(products) / floors.gflop([of_layer])

    def turn() -> dict[str, float]:
        return {"a step": 1e6 * share * seconds(lambda: [multiply() for _ in range(repeats)], process_time) / repeats}

    return turn


def steps(seeds: Sequence[int], hidden: tuple[int, ...], limit: float, way: str, small: bool) -> Turn:
    stacked, n = len(seeds) > 1, ROWS * MINIBATCHES
    settings = PPOSettings(
        **{**GYM_CONTROL, "hidden": hidden, "max_grad_norm": limit, "compile": way},
        seed=seeds[0], seeds=tuple(seeds) if stacked else (),
    )  # fmt: skip
    agent = PPO(settings, {"env": PolicySpace(INPUTS, Categorical(ACTIONS))})
    shape = (len(seeds), n) if stacked else (n,)
    batch = torch.randn(*shape, INPUTS), torch.randint(ACTIONS, shape), *torch.randn(4, *shape)
    parameters = list(agent.network.parameters())
    most = most_in_a_stack(UNROLL, sum(p.numel() for p in parameters), ROWS) if stacked else UNROLL
    unroll = steps_per_call(MINIBATCHES, most)
    agent.gradient_step.begin(agent.optimizer, parameters, unroll)
    calls, axis = 1 if small else 10, int(stacked)

    def call() -> None:
        for rows in zip(*(tensor.split(ROWS * unroll, axis) for tensor in batch), strict=True):
            agent.gradient_step(lambda *rows: ppo_loss(agent.network, "env", rows, LOSS), ROWS, *rows)

    call()
    made = calls * MINIBATCHES * len(seeds)
    return lambda: {"a step": 1e6 * seconds(lambda: [call() for _ in range(calls)], process_time) / made}
