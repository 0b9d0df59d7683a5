"""What steps and updates cannot do without: matrix products, Adam's pass over memory, the simulator's own step."""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import torch
from timing import microseconds

from supple.agents.sac.agent import SAC

Product = tuple[int, int, int, int]  # (networks, n, k, m): so many times n × k by k × m


def products_of(layers: Sequence[tuple[int, int, int]], batch: int) -> list[Product]:
    """Return the products of an update of layers (networks, inputs, outputs): forward, to the weights, and to the
    inputs but for the first layer."""
    found: list[Product] = []
    for number, (networks, d_in, d_out) in enumerate(layers):
        found += [(networks, batch, d_in, d_out), (networks, d_out, batch, d_in)]
        found += [(networks, batch, d_out, d_in)] * (number > 0)
    return found


def mlp(inputs: int, widths: Sequence[int], outputs: int, networks: int = 1) -> list[tuple[int, int, int]]:
    return [(networks, a, b) for a, b in pairwise((inputs, *widths, outputs))]


def parameters(layers: Iterable[tuple[int, int, int]]) -> int:
    return sum(networks * (d_in * d_out + d_out) for networks, d_in, d_out in layers)


def products_of_sac(agent: SAC) -> tuple[list[Product], list[Product]]:
    """Return the products of the actor's loss and those of the critics', which together are an update's.

    Actor: forward and backward on s; through the critics forward on (s, π(s)) and backward to the actions alone.
    Critics: forward of the actor on s′ and of the targets on (s′, π(s′)); forward on (s, a), backward to the weights.
    Networks for which s and s′ are one batch have twice the rows. The actor's part is due at each `policy_delay`th.
    """
    n, actor, critic = agent.settings.batch_size, [], []
    joint, passes = agent.soft_update.joint, 1 + len(agent.learners["critic"].followers)
    seen, both = n * (1 + (joint == "both")), n * (1 + bool(joint))
    for layer in agent.learners["actor"].layers:
        *stack, d_out, d_in = layer.weight.shape
        seeds = prod(stack)
        actor += [(seeds, seen, d_in, d_out), (seeds, d_out, seen, d_in)]
        actor += [(seeds, seen, d_out, d_in)] * bool(layer.depth)
        critic.append((seeds, n, d_in, d_out))
    for layer in agent.learners["critic"].layers:
        members, d_out, d_in = layer.weight.shape
        actor += [(members, n, d_in, d_out), (members, n, d_out, d_in if layer.depth else agent.size)]
        critic += passes * [(members, both, d_in, d_out)] + [(members, d_out, both, d_in)]
        critic += [(members, both, d_out, d_in)] * bool(layer.depth)
    return actor, critic


def gflop(products: Iterable[Product]) -> float:
    return sum(2 * networks * n * k * m for networks, n, k, m in products) / 1e9


def multiply(products: Iterable[Product]) -> Callable[[], None]:
    """Return a call that makes the products, and nothing else, in their shapes."""
    operands = [(torch.randn(s, n, k), torch.randn(s, k, m), torch.empty(s, n, m)) for s, n, k, m in products]

    def run() -> None:
        for a, b, out in operands:
            torch.bmm(a, b, out=out)

    return run


def step_adam(size: int) -> Callable[[], object]:
    """Return a call that moves the bytes of Adam's step: four vectors read, three written."""
    vectors = torch.zeros(4, size)
    return lambda: torch._fused_adam_(
        [vectors[0]], [vectors[1]], [vectors[2]], [vectors[3]], [], [torch.ones(())], lr=1e-3, beta1=0.9, beta2=0.999,
        weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
    )  # fmt: skip


def follow(size: int) -> Callable[[], object]:
    """Return a call that moves a target network of so many parameters."""
    target, critics = torch.zeros(2, size)
    return lambda: target.lerp_(critics, 0.005)


def convolve(agent: Any, batch: int = 32) -> Callable[[], None]:
    """Return a call that makes the passes of a gradient step of DQN: the network's forward and backward, and the
    target's forward."""
    network, target = agent.network, agent.target
    frames = torch.randint(0, 256, (batch, 4, 84, 84), dtype=torch.uint8)
    x = frames.contiguous(memory_format=torch.channels_last).float()
    weights = list(network.parameters())

    def passes() -> None:
        torch.autograd.grad(network.mlp(network.encoder(x)).sum(), weights)
        with torch.no_grad():
            target.mlp(target.encoder(x))

    return passes


def simulator(name: str) -> Callable[[], object]:
    """Return the own step of an environment: MuJoCo's `mj_step`, or, where there is no MuJoCo, that of the class."""
    import gymnasium as gym

    env: Any = gym.make(name, disable_env_checker=True).unwrapped
    env.reset(seed=0)
    if hasattr(env, "frame_skip"):
        import mujoco

        return lambda: mujoco.mj_step(env.model, env.data, env.frame_skip)

    def step() -> None:
        if env.step(1)[2]:
            env.reset()

    return step


def time_simulator(name: str) -> float:
    """Return the median microseconds of an environment's own step."""
    return microseconds(simulator(name), 500)
