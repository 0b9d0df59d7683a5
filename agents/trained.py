"""An agent that a run has trained, to act with."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..envs import Flat, flat, make_env
from ..experiments.errors import RunError, UsageError
from ..experiments.looking import states, steps_of
from ..experiments.loop import Warn
from .dqn.agent import Pixels
from .evaluate import returns
from .work import AgentWork


class Trained:
    """The agent of a run, at its newest checkpoint or another.

        agent = Trained("runs/a")
        action = agent.predict(observation)
        agent.evaluate(episodes=10)

    path: the run's folder. step: of a checkpoint; default: the newest. Raises RunError for a run that is no agent's,
    or has no such checkpoint.

    Attributes
    ----------
    step: of the checkpoint.
    env: the environment of the task that was trained on there.
    """

    def __init__(self, path: str | Path, step: int | None = None, warn: Warn = print) -> None:
        folders = steps_of(Path(path))
        self.step = max(folders) if step is None else step
        if self.step not in folders:
            raise RunError(f"{path} has no checkpoint of step {step}: it has {', '.join(map(str, folders))}")
        for _, work in states(Path(path), {self.step: folders[self.step]}, warn):
            if not isinstance(work, AgentWork):
                raise RunError(f"{path} is no agent's run: it has nothing that acts")
            self._work, self.env = work, work.task.env
        self._shown: dict[str, Any] = {}  # by environment, which makes vectors of its observations

    def predict(self, observation: Any, env: str | None = None) -> Any:
        """Return the action of the policy of evaluations, for an observation as the environment shows it; for several,
        as one array with them along its first axis, as many actions.

        DQN on images is given what it was trained on: stacked frames, (frames, height, width).
        env: one of those it was trained on, where it has a head for each; default: `env`. Raises UsageError for an
        observation of another shape.
        """
        env = self._known(env)
        seen, single = self._seen(observation, env)
        with self._work.agent.greedy(env) as policy:
            actions = policy(seen)
        return actions[0] if single else actions

    def evaluate(self, env: str | None = None, episodes: int = 10, seed: int = 0) -> list[float]:
        """Return the returns of so many episodes, all run side by side, of the policy of evaluations.

        env: as in `predict`. seed: of the first episode; the others follow it. Shifts are those of the task.
        """
        env, work = self._known(env), self._work
        if episodes < 1:
            raise UsageError(f"episodes must be 1 or more, got {episodes}")
        envs = work.envs(work.settings, env, episodes, **work.world(work.task))
        envs.progress(work.task.end - work.task.start)
        return returns(work.agent, env, envs, list(range(seed, seed + episodes)))

    def _known(self, env: str | None) -> str:
        if env is not None and env not in self._work.spaces:
            raise UsageError(f"{env}: this agent was trained on {', '.join(self._work.spaces)}")
        return env or self.env

    def _seen(self, observation: Any, env: str) -> tuple[NDArray[Any], bool]:
        """Return observations as the agent reads them, (n, …), and whether it was a single one."""
        array = np.asarray(observation)
        if isinstance(self._work.spaces[env], Pixels):
            return (array[None], True) if array.ndim == 3 else (array, False)
        if env not in self._shown:
            self._shown[env] = flat(make_env(env))
        shown = self._shown[env]
        own = shown.unwrapped.observation_space.shape or ()
        if own not in (array.shape, array.shape[1:]):
            raise UsageError(f"{env} shows observations of shape {own}, not {array.shape}")
        single = array.shape == own
        rows = array[None] if single else array
        return np.stack([shown.observation(row) for row in rows]) if isinstance(shown, Flat) else rows, single
