"""The returns of an agent, or of random actions, on several tasks of a run."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

import numpy as np

from supple.engine.seeding import derive
from supple.envs import Envs

from .evaluate import play, uniform
from .tasks import EnvTask

RANDOM_EPISODES, RANDOM_STEPS = 200, 20_000  # of random actions on a task, whichever comes first
MOST_EPISODES = 64  # of one member that are played side by side, unless one task has more

Returns = dict[int, list[float]]  # index of a task → the mean return of each member


def returns_on(
    work: Any, tasks: Sequence[EnvTask], known: Mapping[int, list[float]] | None = None, random: bool = False
) -> Returns:
    """Return the mean returns of `eval_episodes` copies of tasks as these are at their ends, of each member.

    Equal tasks share their returns. The copies for the others are stepped together if they are in one environment, so
    that the policy is called once for all of them.

    Args:
        work: The `AgentWork`: the agent and its tasks.
        tasks: Those to evaluate on.
        known: The returns on some of them.
        random: Whether actions are random, instead of those of the agent's evaluation policy. Each copy then plays
            several episodes.

    Raises:
        EnvironmentFault: An environment fails.
    """
    first: dict[tuple[str, str], int] = {}  # of equal tasks
    same = [first.setdefault((task.env, repr(task.shift)), task.index) for task in work.tasks]
    found = {same[index]: returns for index, returns in (known or {}).items()}
    left = [work.tasks[i] for i in dict.fromkeys(same[task.index] for task in tasks) if i not in found]
    most = max(1, MOST_EPISODES // work.settings.eval_episodes)
    for env in dict.fromkeys(task.env for task in left):
        own = [task for task in left if task.env == env]
        for some in (own[i : i + most] for i in range(0, len(own), most)):
            found |= _returns_together(work, env, some, random)
    return {task.index: found[same[task.index]] for task in tasks}


def _returns_together(work: Any, env: str, tasks: Sequence[EnvTask], random: bool) -> Returns:
    """Return the mean returns on tasks in one environment, with all copies in one vector: first member first."""
    episodes = work.settings.eval_episodes
    of_tasks = [work.worlds(task, episodes) for task in tasks]
    members = [slice(i * episodes, (i + 1) * episodes) for i in range(len(work.settings.members))]
    worlds = [world for own in members for worlds in of_tasks for world in worlds[own]]
    return mean_returns(work, tasks, work.envs(work.settings, env, worlds), tasks[0].steps, random)


def mean_returns(work: Any, tasks: Sequence[EnvTask], envs: Envs, progress: int, random: bool = False) -> Returns:
    """Return the mean returns on tasks in one environment, after so many steps of each.

    Args:
        work: The `AgentWork`.
        tasks: The tasks.
        envs: `eval_episodes` copies of each task for each member, those of the first member first.
        progress: The steps of the task, with which gradual shifts go on.
        random: Whether actions are random.
    """
    s, episodes, env = work.settings, work.settings.eval_episodes, tasks[0].env
    envs.progress(progress)
    seeds = [i for seed in s.members for task in tasks for i in work.evaluation_seeds(seed, task, episodes)]
    draws = [derive(seed, "random actions", tasks[0].index) % 2**31 for seed in s.members]
    drawn = uniform(envs.single_action_space, len(tasks) * episodes, draws) if random else None
    with nullcontext(drawn) if drawn else work.agent.greedy(env) as policy:
        many = (-(-RANDOM_EPISODES // episodes), RANDOM_STEPS // episodes) if random else ()
        played = play(policy, env, envs, seeds, *many)
    parts = [float(np.mean([*chain(*played[i : i + episodes])])) for i in range(0, len(played), episodes)]
    return {task.index: parts[i :: len(tasks)] for i, task in enumerate(tasks)}
