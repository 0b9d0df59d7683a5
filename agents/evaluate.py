"""Evaluation without exploration, on environments of its own."""

from collections.abc import Sequence

import numpy as np

from ..envs import Vector, make_env
from .agent import Agent


def evaluate(agent: Agent, env: str, seeds: Sequence[int], friction: float, clip_actions: bool) -> float:
    """Mean return of the greedy policy over one episode per seed, all run side by side.

    Each seed counts once, however long its episode: taking the first n episodes to finish would favour short
    ones. friction: factor on sliding friction (1 is the training environment).
    """
    envs = Vector(lambda: make_env(env, friction=friction, clip_actions=clip_actions), len(seeds))
    returns: dict[int, float] = {}
    with agent.greedy(env) as policy:
        observations = envs.reset(seeds)
        while len(returns) < len(seeds):
            result = envs.step(policy(observations))
            observations = result.obs
            for episode in result.episodes:
                returns.setdefault(episode.index, episode.ret)
    envs.close()
    return float(np.mean(list(returns.values())))
