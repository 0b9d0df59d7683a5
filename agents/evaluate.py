"""Evaluation of an agent on separate copies of an environment."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from gymnasium import Space
from gymnasium.vector.utils import batch_space

from supple.envs import Envs

from .agent import Agent, Policy

LONGEST = 100_000  # decisions in an evaluation episode; Atari's have at most 27,000


class Member:
    """The evaluation policy of one member of a stack of agents, exactly its part of that of the stack, or of one agent.

    Args:
        agent: The stack, or the agent.
        member: The position of the member.
        members: The number of members.
    """

    def __init__(self, agent: Agent, member: int, members: int) -> None:
        self.agent, self.member, self.members = agent, member, members

    @contextmanager
    def greedy(self, env: str) -> Iterator[Policy]:
        """Yield the policy for evaluations. The other members are shown the same observations."""

        def act(observations: np.ndarray) -> np.ndarray:
            rows = len(observations)
            actions = policy(np.concatenate([observations] * self.members))
            return actions[self.member * rows : (self.member + 1) * rows]

        with self.agent.greedy(env) as policy:
            yield act


def uniform(space: Space, copies: int, seeds: Sequence[int]) -> Policy:
    """Return a policy that draws actions uniformly within the bounds of a space, whatever is observed.

    Args:
        space: The action space of an environment. Where it has no bounds, actions are drawn as by `Space.sample`.
        copies: The number of environments for each seed.
        seeds: Those of the draws, of which each has its own generator.
    """
    batches = [batch_space(space, copies) for _ in seeds]
    for batch, seed in zip(batches, seeds, strict=True):
        batch.seed(seed)
    return lambda _: np.concatenate([batch.sample() for batch in batches])


def play(
    policy: Policy, env: str, envs: Envs, seeds: Sequence[int], episodes: int = 1, steps: int = 0
) -> list[list[float]]:
    """Return the returns of a policy, of each copy of an environment, and close `envs`.

    All copies run in parallel. Each plays whole episodes, a number that does not depend on the others, because taking
    the first n episodes to finish would favour short ones. An episode that has not ended after `LONGEST` decisions
    counts with its return so far, with a warning.

    Args:
        policy: Returns the actions for the observations of all copies.
        env: The environment's name.
        envs: Copies of it, one for each seed.
        seeds: The seeds of the copies.
        episodes: The most episodes of each copy.
        steps: The decisions of a copy after which it begins no other episode.
    """
    returns: list[list[float]] = [[] for _ in seeds]
    left = set(range(len(seeds)))  # the copies whose episodes count
    observations, so_far = envs.reset(seeds), np.zeros(len(seeds))
    for step in range(1, LONGEST + 1):
        result = envs.step(policy(observations))
        observations = result.obs
        so_far += result.reward
        for episode in result.episodes:
            so_far[i := episode.index] = 0.0
            if i in left:
                returns[i].append(episode.ret)
                if step >= steps or len(returns[i]) >= episodes:
                    left.remove(i)
        if not left:
            break
    else:
        warnings.warn(
            f"{env}: {len(left)} of {len(seeds)} evaluation episodes had not ended after {LONGEST} "
            f"decisions and count with their return so far; limit them with --max-episode-steps",
            stacklevel=2,
        )
        for i in left:
            returns[i].append(float(so_far[i]))
    envs.close()
    return returns
