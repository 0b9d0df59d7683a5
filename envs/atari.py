"""Atari games and other images, in the form that DQN sees: uint8 stacks of four grey frames.

ALE's own vector (C++) plays and preprocesses; every one of its settings is given here, since its defaults are
not ours. The result equals `gymnasium.wrappers.AtariPreprocessing` pixel for pixel (the tests compare them).
"""

from collections.abc import Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from .make import ale, games, make_env, resolve_env
from .shifts import Shifted, Shifts
from .vector import Envs, Episode, StepResult, Vector

STACK = 4
SMALLEST = 36  # pixels: below, the third convolution of the Nature CNN has nothing left to see


class AtariVector:
    """`num_envs` copies of one Atari game, with the settings of the FIRE paper (Appendix E.3).

    Each action is held for 4 frames; the last two are max-pooled, made grey and scaled to 84 × 84; 4 of these
    are stacked, zeros before the first of an episode. An episode ends at game over, not with a life, and starts
    without no-ops. Rewards and returns are the true ones: clipping is the agent's business.

    env: an id such as "ALE/Asterix-v5", or the game's short name.
    sticky: probability that the previous action is repeated instead of the chosen one.
    sticky_per: "frame", a draw for each of the 4 frames, as Machado et al. (2018) define it and ALE does it; or
        "step", one draw for each agent step, as the code released with FIRE does it.
    max_frames: frames (a quarter as many agent steps) after which an episode is truncated.
    threads: how many play. The trajectory does not depend on it.

    Seeds must lie in 0 … 2³¹ − 1. Raises ValueError for anything out of range and for unknown games; ImportError,
    in one line, if ale-py is not installed.
    """

    def __init__(
        self,
        env: str,
        num_envs: int,
        *,
        sticky: float = 0.25,
        sticky_per: Literal["frame", "step"] = "frame",
        max_frames: int = 108_000,
        threads: int = 1,
    ) -> None:
        _check_settings(num_envs, sticky, sticky_per, max_frames, threads)
        env_id = resolve_env(env)
        short_names = {known: short for short, known in games().items()}
        if env_id not in short_names:
            raise ValueError(f"{env_id} is no Atari game: `supple list games` names them")
        self.num_envs = num_envs
        self._envs = ale().AtariVectorEnv(
            short_names[env_id],
            num_envs,
            batch_size=0,  # all of them in every step
            num_threads=threads,
            thread_affinity_offset=-1,
            max_num_frames_per_episode=max_frames,
            repeat_action_probability=sticky if sticky_per == "frame" else 0.0,
            full_action_space=False,
            continuous=False,
            autoreset_mode=AutoresetMode.SAME_STEP,
            img_height=84,
            img_width=84,
            grayscale=True,
            stack_num=STACK,
            frameskip=4,
            maxpool=True,
            noop_max=0,
            episodic_life=False,
            life_loss_info=False,
            reward_clipping=False,
            use_fire_reset=False,
        )
        self.single_observation_space: gym.Space = self._envs.single_observation_space
        self.single_action_space: gym.Space = self._envs.single_action_space
        self._actions = int(self._envs.single_action_space.n)
        self._sticky = sticky if sticky_per == "step" else 0.0
        self._generator = np.random.default_rng()
        self._previous = np.zeros(num_envs, np.int64)
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, int)

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Seed and reset all games, one seed each; returns their observations, (n, 4, 84, 84) uint8.

        Unfinished episodes are dropped and not reported. Raises ValueError for seeds of the wrong number or size.
        """
        if len(seeds) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many seeds, got {len(seeds)}")
        if not all(0 <= seed < 2**31 for seed in seeds):  # ALE takes int32, and a negative one as "as you were"
            raise ValueError(f"Atari needs seeds from 0 to 2**31 - 1, got {list(seeds)}")
        self._generator = np.random.default_rng([*map(int, seeds)])
        self._previous = np.zeros(self.num_envs, np.int64)
        self._returns[:] = 0.0
        self._lengths[:] = 0
        obs, _ = self._envs.reset(seed=np.array(seeds, np.int64))
        return obs

    def step(self, actions: np.ndarray) -> StepResult:
        """Take one agent step (4 frames) of every game; `actions` is (n,), numbers of the game's minimal action set.

        Raises ValueError for actions of the wrong number or out of range.
        """
        actions = np.asarray(actions, np.int64)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"{self.num_envs} environments need as many actions, got shape {actions.shape}")
        if actions.min() < 0 or actions.max() >= self._actions:  # ALE would wait for ever
            raise ValueError(f"actions must be from 0 to {self._actions - 1}, got {actions.tolist()}")
        if self._sticky:
            actions = stick(actions, self._previous, self._generator.random(self.num_envs) < self._sticky)
            self._previous = actions
        obs, rewards, terminated, truncated, info = self._envs.step(actions)
        reward = rewards.astype(np.float64)
        self._returns += reward
        self._lengths += 1
        final_obs, episodes = obs, []
        done = terminated | truncated
        if done.any():
            final_obs = obs.copy()
            final_obs[done] = info["final_obs"][done]  # its other rows hold no observation
            for i in np.flatnonzero(done).tolist():
                episodes.append(Episode(i, float(self._returns[i]), int(self._lengths[i])))
            self._returns[done], self._lengths[done] = 0.0, 0
            self._previous = np.where(done, 0, self._previous)  # an episode begins as if after a no-op
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def progress(self, steps: int) -> None:
        """Do nothing: no shift comes gradually here (see `make_pixels`)."""

    def close(self) -> None:
        """Stop the threads; the vector cannot be used afterwards."""
        self._envs.close()
        del self._envs


def _check_settings(num_envs: int, sticky: float, sticky_per: str, max_frames: int, threads: int) -> None:
    for name, value in (("num_envs", num_envs), ("max_frames", max_frames), ("threads", threads)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not 0.0 <= sticky <= 1.0:
        raise ValueError(f"sticky is a probability, from 0 to 1, got {sticky}")
    if sticky_per not in ("frame", "step"):
        raise ValueError(f"sticky_per must be 'frame' or 'step', got {sticky_per!r}")


def stick(actions: np.ndarray, previous: np.ndarray, repeat: np.ndarray) -> np.ndarray:
    """Return the actions that reach the game: the previous one where `repeat`, the chosen one elsewhere; all (n,)."""
    return np.where(repeat, previous, actions)


def make_pixels(
    env: str,
    num_envs: int,
    *,
    sticky: float = 0.25,
    sticky_per: Literal["frame", "step"] = "frame",
    max_frames: int = 108_000,
    threads: int = 1,
    shifts: Shifts | str | None = None,
    seed: int = 0,
    task: int = 0,
) -> Envs:
    """Return `num_envs` copies of an environment that shows (4, height, width) uint8 and takes numbered actions.

    An Atari game (see `AtariVector`, for the settings too), or any registered environment that shows one grey
    frame, (height, width) uint8, of which four are stacked, zeros before the first of an episode. Only Atari has
    stickiness, a cap on frames and threads: elsewhere these settings have no effect.

    shifts, seed, task: what changes between the tasks of a stream, see `Shifted`. ALE's vector knows no modes, so
    with shifts Gymnasium's own wrappers play an Atari game, in one thread: the same pixels and rules, sticky
    actions from another generator, and about four fifths of the speed of one thread.

    Raises ValueError, by name, for an environment with other actions or observations, with images smaller
    than 36 × 36, the smallest that the Nature CNN can take, or for a shift that does not fit; ImportError, in one
    line, where Atari with shifts lacks OpenCV.
    """
    env_id = resolve_env(env)
    if env_id.startswith("ALE/") and shifts is not None:
        _check_settings(num_envs, sticky, sticky_per, max_frames, threads)

        def make() -> gym.Env:
            game = Shifted(_game(env_id, sticky, sticky_per, max_frames), shifts, seed, task)
            return FrameStackObservation(game, STACK, padding_type="zero")

        return Vector(make, num_envs)
    if env_id.startswith("ALE/"):
        return AtariVector(
            env_id, num_envs, sticky=sticky, sticky_per=sticky_per, max_frames=max_frames, threads=threads
        )
    return Vector(lambda: _stacked(env_id, shifts, seed, task), num_envs)


def _game(env_id: str, sticky: float, sticky_per: str, max_frames: int) -> gym.Env:
    """Return one Atari game that shows what `AtariVector` stacks, (84, 84) uint8."""
    ale()
    env = gym.make(
        env_id,
        disable_env_checker=True,
        frameskip=1,  # the wrapper skips
        repeat_action_probability=sticky if sticky_per == "frame" else 0.0,
        max_num_frames_per_episode=max_frames,
    )
    try:
        env = AtariPreprocessing(env, noop_max=0, frame_skip=4, screen_size=84)
    except gym.error.DependencyNotInstalled as error:
        raise ImportError("shifts of Atari games need OpenCV: pip install supple[atari]") from error
    return Sticky(env, sticky) if sticky and sticky_per == "step" else env


class Sticky(gym.ActionWrapper):
    """Repeats the previous action with a probability, one draw a step; an episode begins as if after a no-op.

    Gymnasium's `StickyAction` never repeats at an episode's first step, and takes no probability of 1.
    """

    def __init__(self, env: gym.Env, probability: float) -> None:
        super().__init__(env)
        self.probability = probability
        self._previous = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._previous = 0
        return self.env.reset(seed=seed, options=options)

    def action(self, action: int) -> int:
        if self.np_random.random() >= self.probability:
            self._previous = action
        return self._previous


def _stacked(env_id: str, shifts: Shifts | str | None, seed: int, task: int) -> gym.Env:
    env = make_env(env_id, shifts=shifts, seed=seed, task=task)
    try:
        _check_spaces(env_id, env.observation_space, env.action_space)
    except ValueError:
        env.close()
        raise
    return FrameStackObservation(env, STACK, padding_type="zero")


def _check_spaces(env_id: str, observation: gym.Space, action: gym.Space) -> None:
    if not isinstance(action, gym.spaces.Discrete):
        other = ": use ppo" if isinstance(action, gym.spaces.Box) else ""
        raise ValueError(f"DQN needs discrete actions; {env_id} has {action}{other}")
    shape = observation.shape or ()
    if observation.dtype != np.uint8 or len(shape) != 2:
        colour = observation.dtype == np.uint8 and len(shape) == 3 and shape[-1] == 3
        wrappers = "GrayscaleObservation" if colour else "AddRenderObservation, then GrayscaleObservation,"
        raise ValueError(
            f"DQN needs grey images, (height, width) uint8; {env_id} shows {observation}: register it with "
            f"gymnasium.wrappers.{wrappers} around it"
        )
    if min(shape) < SMALLEST:
        raise ValueError(
            f"the Nature CNN needs images of at least {SMALLEST} × {SMALLEST}; {env_id} shows {shape[0]} × {shape[1]}: "
            "register it with gymnasium.wrappers.ResizeObservation around it"
        )
