"""Evaluation without exploration, on environments of its own."""

from collections.abc import Sequence

import numpy as np

from ..envs import Envs
from .agent import Agent


def evaluate(agent: Agent, env: str, envs: Envs, seeds: Sequence[int]) -> float:
    """Return the mean return of the policy of evaluations over one episode per seed, all run side by side in `envs`.

    Each seed counts once, however long its episode: taking the first n episodes to finish would favour short
    ones. Closes `envs`.
    """
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
