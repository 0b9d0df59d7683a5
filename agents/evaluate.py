"""Evaluation without exploration, on environments of its own."""

import warnings
from collections.abc import Sequence

import numpy as np

from ..envs import Envs
from .agent import Agent

LONGEST = 100_000  # decisions in an episode of an evaluation; those of Atari have 27,000 at most


def evaluate(agent: Agent, env: str, envs: Envs, seeds: Sequence[int]) -> float:
    """Return the mean of `returns`."""
    return float(np.mean(returns(agent, env, envs, seeds)))


def returns(agent: Agent, env: str, envs: Envs, seeds: Sequence[int]) -> list[float]:
    """Return the returns of the policy of evaluations, of one episode per seed, all run side by side in `envs`.

    Each seed counts once, however long its episode: taking the first n episodes to finish would favour short
    ones. An episode that has not ended after `LONGEST` decisions counts as far as it came, with a warning. Closes
    `envs`.
    """
    found: dict[int, float] = {}
    with agent.greedy(env) as policy:
        observations, so_far = envs.reset(seeds), np.zeros(len(seeds))
        for _ in range(LONGEST):
            result = envs.step(policy(observations))
            observations = result.obs
            so_far += result.reward
            for episode in result.episodes:
                found.setdefault(episode.index, episode.ret)
            if len(found) == len(seeds):
                break
        else:
            warnings.warn(
                f"{env}: {len(seeds) - len(found)} of {len(seeds)} episodes of an evaluation had not ended after "
                f"{LONGEST} steps and count as far as they came; --max-episode-steps gives them an end",
                stacklevel=2,
            )
    envs.close()
    return [found[i] if i in found else float(so_far[i]) for i in range(len(seeds))]
