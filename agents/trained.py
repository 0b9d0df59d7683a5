"""Use a trained agent: predict actions, and evaluate it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Tuple
from numpy.typing import NDArray

from supple.engine.loading import find_state, load_states, local_folder
from supple.engine.loop import Warn
from supple.engine.user_code import plugins
from supple.envs import Flat, Padded, flatten, make_env
from supple.envs.fault import text_of
from supple.envs.guard import find_fault
from supple.registry.errors import RunError, UsageError

from .evaluate import Member, play
from .games import is_game
from .image_settings import ImageSettings
from .work import AgentWork


class Trained:
    """The trained agent of a run, at one of its checkpoints.

        agent = Trained("runs/a")
        action = agent.predict(observation)
        agent.evaluate(episodes=10)

    Args:
        path: The run directory, a folder of `supple export`, or hf:OWNER/NAME, such a folder on the Hugging Face hub.
        step: The step of the checkpoint. By default, the newest.
        warn: Called with each warning.
        seed: The seed whose agent it is, for a run that trained several as a stack. By default, the first.
        plugin: The plug-ins with which the run was started: one or several files or packages.

    Attributes:
        step: The step of the checkpoint.
        seed: The seed of the agent.
        env: The environment of the task at that step.

    Raises:
        UsageError: A plug-in is missing or was changed.
        RunError: The run does not train an agent, it has no such checkpoint or seed, or the seed had diverged.
    """

    def __init__(
        self,
        path: str | Path,
        step: int | None = None,
        warn: Warn = print,
        *,
        seed: int | None = None,
        plugin: str | Sequence[str] = (),
    ) -> None:
        plugins.load_here(plugin)
        place = local_folder(path)
        for self.step, work in load_states(place, dict([find_state(place, step)]), warn):
            if not isinstance(work, AgentWork):
                raise RunError(f"{path} does not train an agent, so it has no policy")
            self._work, self.env = work, work.task.env
        seeds = self._work.settings.members
        self.seed = seeds[0] if seed is None else seed
        if self.seed not in seeds:
            raise RunError(f"{path} has no seed {seed}, only {', '.join(map(str, seeds))}")
        self._member = seeds.index(self.seed)
        if self._member in self._work.frozen:
            raise RunError(f"{path}: seed {self.seed} had diverged by step {self.step}, so it has no policy there")
        self._agent = Member(self._work.agent, self._member, len(seeds))
        self._flat_envs: dict[str, Any] = {}  # by environment, which makes vectors of its observations

    def predict(self, observation: Any, env: str | None = None) -> Any:
        """Return the action of the evaluation policy for an observation, or the actions for a batch of them.

        Args:
            observation: An observation as the environment returns it, or a batch of n with n as the first axis. For DQN
                on images, a stack of frames as in training, (frames, height, width). Of Dict or Tuple observations, a
                batch is a list.
            env: An environment from training, for agents with one head per environment. By default, `self.env`.

        Raises:
            UsageError: The observation is none of its space, or the agent was not trained on `env`.
        """
        env = self._check_env(env)
        seen, single = self._prepare(observation, env)
        with self._agent.greedy(env) as policy:
            actions = policy(seen)
        if (padded := self._find_padded(env)) is not None:
            actions = padded.own_actions(actions)
        return actions[0] if single else actions

    def evaluate(
        self, env: str | None = None, episodes: int = 10, seed: int = 0, *, task: int | None = None
    ) -> list[float]:
        """Return the returns of `episodes` episodes of the evaluation policy.

        Args:
            env: As in `predict`, with the shifts of the task at the checkpoint.
            episodes: Their number. They run in parallel.
            seed: The seed of the first one. The others have seed + 1, seed + 2, …
            task: The index of a task of the run, on which to evaluate instead: in its environment, with its shifts as
                they are at its end, and with the statistics of observations at the checkpoint.

        Raises:
            UsageError: The agent was not trained on `env`, there is no such task, or `episodes` is below 1.
        """
        work = self._work
        if task is not None and not 0 <= task < len(work.tasks):
            raise UsageError(f"there is no task {task}: the tasks of this run are 0 to {len(work.tasks) - 1}")
        chosen = work.task if task is None else work.tasks[task]
        if task is not None and env not in (None, chosen.env):
            raise UsageError(f"task {task} is in {chosen.env}, not in {env}: give only one of them")
        env = self._check_env(env or chosen.env)
        if episodes < 1:
            raise UsageError(f"episodes must be 1 or more, got {episodes}")
        first = self._member * episodes
        envs = work.envs(work.settings, env, work.worlds(chosen, episodes)[first : first + episodes])
        envs.progress(work._steps_of_task if task is None else chosen.steps)
        with self._agent.greedy(env) as policy:
            return [first for (first,) in play(policy, env, envs, range(seed, seed + episodes))]

    def _check_env(self, env: str | None) -> str:
        if env is not None and env not in self._work.spaces:
            raise UsageError(f"{env}: this agent was only trained on {', '.join(self._work.spaces)}")
        return env or self.env

    def _prepare(self, observation: Any, env: str) -> tuple[NDArray[Any], bool]:
        """Return the observations in the form that the agent reads, (n, …), and whether there was a single one."""
        if is_game(env):
            array = np.asarray(observation)
            return (array[None], True) if array.ndim == 3 else (array, False)
        if env not in self._flat_envs:
            s = self._work.settings
            observations = s.observations if isinstance(s, ImageSettings) else "auto"
            self._flat_envs[env] = flatten(make_env(env, kwargs=s.kwargs, united=self._work.united), observations)
        shown, padded = self._flat_envs[env], self._find_padded(env)
        outer = padded or shown
        space = (outer.env if isinstance(outer, Flat | Padded) else outer).observation_space
        if isinstance(space, Dict | Tuple):
            single = not isinstance(observation, list)
            rows: Any = [observation] if single else observation
        else:
            array, shape = np.asarray(observation), space.shape or ()
            if shape not in (array.shape, array.shape[1:]):
                raise UsageError(f"observations of {env} have shape {shape}, got {array.shape}")
            single = array.shape == shape
            rows = array[None] if single else array
        if not len(rows):
            raise UsageError(f"there are no observations of {env} to predict actions for")
        if isinstance(shown, Flat):
            if problem := next(filter(None, (find_fault(space, row) for row in rows)), None):
                raise UsageError(f"observations of {env} are {text_of(space)}, got {problem}")
            own = rows if padded is None else map(padded.observation, rows)
            rows = np.stack([shown.observation(row) for row in own])
        return rows, single

    def _find_padded(self, env: str) -> Padded | None:
        """Return the wrapper that adds channels and actions of other environments, or None if there are none."""
        inner = getattr(self._flat_envs.get(env), "env", None)
        return inner if isinstance(inner, Padded) else None
