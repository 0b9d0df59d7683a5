"""Evaluation of an agent on separate copies of an environment."""

import warnings
from collections.abc import Sequence

import numpy as np

from ..envs import Envs
from .agent import Agent

LONGEST = 100_000  # decisions in an evaluation episode; Atari's have at most 27,000


def evaluate(agent: Agent, env: str, envs: Envs, seeds: Sequence[int]) -> list[float]:
    """Return the returns of the evaluation policy, one episode per seed, and close `envs`.

    All episodes run in parallel. Each seed counts once, because taking the first n episodes to finish would favour
    short ones. An episode that has not ended after `LONGEST` decisions counts with its return so far, with a warning.

    Args:
        agent: The agent whose evaluation policy acts.
        env: The environment's name, as in training.
        envs: Copies of it, one for each seed.
        seeds: The seeds of the episodes.
    """
    returns: dict[int, float] = {}  # of the episodes that have ended
    with agent.greedy(env) as policy:
        observations, so_far = envs.reset(seeds), np.zeros(len(seeds))
        for _ in range(LONGEST):
            result = envs.step(policy(observations))
            observations = result.obs
            so_far += result.reward
            for episode in result.episodes:
                returns.setdefault(episode.index, episode.ret)
            if len(returns) == len(seeds):
                break
        else:
            warnings.warn(
                f"{env}: {len(seeds) - len(returns)} of {len(seeds)} evaluation episodes had not ended after {LONGEST} "
                f"decisions and count with their return so far; limit them with --max-episode-steps",
                stacklevel=2,
            )
    envs.close()
    return [returns[i] if i in returns else float(so_far[i]) for i in range(len(seeds))]
