"""Record one evaluation episode per task of a trained agent, as pictures."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..envs import Envs
from ..envs.vector import Vector
from ..experiments.errors import RunError
from .agent import Agent
from .evaluate import LONGEST
from .work import AgentWork

MOST_FRAMES = 200

Frame = NDArray[np.uint8]


@dataclass(frozen=True)
class Film:
    """The pictures of one evaluation episode, its task and its return.

    ret is the return so far if the episode had not ended after `LONGEST` decisions.
    """

    env: str
    task: int
    ret: float
    frames: list[Frame]


def films(work: AgentWork, seed: int = 0) -> Iterator[Film]:
    """Yield one episode of the evaluation policy for each task of the first cycle, with the task's shifts.

    The environments are new ones, so neither those of the run nor its generators move.

    Raises:
        RunError: An environment makes no pictures.
    """
    for task in work.tasks:
        if task.cycle:
            return
        envs = work.envs(work.settings, task.env, 1, **work.world(task), render_mode="rgb_array")
        try:
            envs.progress(task.end - task.start)
            yield Film(task.env, task.index, *_episode(work.agent, task.env, envs, seed))
        finally:
            envs.close()


def _episode(agent: Agent, env: str, envs: Envs, seed: int) -> tuple[float, list[Frame]]:
    """Return the return of one episode and at most `MOST_FRAMES` evenly spaced pictures of it."""
    if not isinstance(envs, Vector):
        raise RunError(f"{env}: no video, because its copies do not run one after the other in this process")
    with agent.greedy(env) as policy:
        observations = envs.reset([seed])
        frames, every, total = [_picture(env, envs)], 1, 0.0
        for step in range(1, LONGEST + 1):
            result = envs.step(policy(observations))
            observations, total = result.obs, total + float(result.reward[0])
            if result.episodes:  # the environment shows the next episode already
                return result.episodes[0].ret, frames
            if step % every == 0:
                frames.append(_picture(env, envs))
            if len(frames) > MOST_FRAMES:  # keep every second picture, so that long episodes fit into memory
                frames, every = frames[::2], 2 * every
    return total, frames


def _picture(env: str, envs: Vector) -> Frame:
    picture = envs.envs[0].render()
    if not isinstance(picture, np.ndarray):
        raise RunError(f"{env}: no video, because the environment makes no pictures")
    return picture.copy()
