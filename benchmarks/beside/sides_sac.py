"""SAC: supple, Stable-Baselines3 and SBX in their own loops; and the update alone at the size of SimBa.

The updates alone start from the same weights and learn from the same batch with the same noise; a test holds that they
compute the same (tests/benchmarks/test_beside.py).
"""

from collections.abc import Callable
from typing import Any

import floors
import gymnasium as gym
import subjects
from stepped import SteppedAgent

from supple.agents.sac.agent import SAC

Side = tuple[Callable[[], object], int]
STEPS, WARM_UP = 300, 300  # environment steps of a turn; before the first, so that all learn from the beginning
UPDATES = 5  # of a turn, at SimBa's size


def supple(threads: int) -> Side:
    run = SteppedAgent("sac", subjects.sac_settings(threads=threads, compile="on"))
    run.live(WARM_UP)
    return lambda: run.live(STEPS), STEPS


def sb3(threads: int) -> Side:
    from stable_baselines3 import SAC as Peer

    return _baselines(Peer("MlpPolicy", gym.make(subjects.CHEETAH), seed=0, device="cpu"))


def sbx(threads: int) -> Side:
    from sbx import SAC as Peer

    return _baselines(Peer("MlpPolicy", gym.make(subjects.CHEETAH), seed=0))


def _baselines(model: Any) -> Side:
    model.learn(WARM_UP)
    return lambda: model.learn(STEPS, reset_num_timesteps=False), STEPS


def simba(threads: int) -> Side:
    agent = subjects.simba(compile="on")
    return _updates(agent, agent.soft_update)


def simba_plain(threads: int) -> Side:
    agent = subjects.simba()
    return _updates(agent, plain(agent))


def simba_jax(threads: int) -> Side:
    agent = subjects.simba()
    return _updates(agent, jitted(agent))


def simba_floor(threads: int) -> Side:
    actor, critic = floors.products_of_sac(subjects.simba())
    multiply = floors.multiply(actor + critic)
    return lambda: [multiply() for _ in range(UPDATES)], UPDATES


def _updates(agent: SAC, update: Any) -> Side:
    batch, noise = subjects.transitions(agent)
    return lambda: [update(batch, noise) for _ in range(UPDATES)], UPDATES


def plain(agent: SAC) -> Any:
    from simba_plain import PlainUpdate

    stacked = agent.critics.net.state_dict()
    members = [{name: values[i] for name, values in stacked.items()} for i in range(agent.settings.critics)]
    return PlainUpdate(agent.actor.state_dict(), members, agent.settings.temperature)


def jitted(agent: SAC) -> Any:
    import torch
    from simba_jax import JaxUpdate

    update = JaxUpdate(agent)
    return lambda batch, noise: torch.from_numpy(update(batch, noise).copy())
