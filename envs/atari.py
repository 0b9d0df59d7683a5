"""Atari games as uint8 stacks of four grey frames, for DQN and PPO.

ALE's vector environment (C++) plays and preprocesses the games. All its settings are given here, because its defaults
differ. The result equals `gymnasium.wrappers.AtariPreprocessing` pixel for pixel (the tests compare them).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

from .fault import Episode
from .make import games, import_ale, resolve_env
from .shifts import Shifted, Shifts
from .vector import Envs, Running, StepResult, Vector

STACK, SIDE = 4, 84  # frames of an observation, pixels of a side


class AtariVector:
    """A vector of `num_envs` copies of one Atari game, with the settings of the FIRE paper (Appendix E.3).

    Each action lasts for 4 frames. The last two are max-pooled, converted to grey and scaled to 84 × 84. An observation
    is a stack of 4 such frames, with zeros before the first of an episode. An episode ends at game over, not at the
    loss of a life, and starts without no-ops. Rewards and returns are not clipped; the agent may clip them. Seeds must
    be in 0 … 2³¹ − 1.

    Args:
        env: An id such as "ALE/Asterix-v5", or the game's short name.
        num_envs: Number of copies.
        sticky: Probability that the previous action is repeated instead of the chosen one.
        sticky_per: "frame" draws for each of the 4 frames, as Machado et al. (2018) define it and ALE does. "step"
            draws once per agent step, as the released code of FIRE does.
        max_frames: Frames after which an episode is truncated. One agent step is 4 frames.
        threads: Number of threads. It does not change the trajectory.

    Raises:
        ValueError: The game is unknown.
        ImportError: ale-py is not installed.
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
        env_id = resolve_env(env)
        short_names = {known: short for short, known in games().items()}
        if env_id not in short_names:
            raise ValueError(f"{env_id} is not an Atari game: see `supple list games`")
        self.num_envs = num_envs
        self._envs = import_ale().AtariVectorEnv(
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
            img_height=SIDE,
            img_width=SIDE,
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
        self._running = Running(num_envs)

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Reset all games with one seed each, and return their observations, (n, 4, 84, 84) uint8.

        Unfinished episodes are not reported, and no game is frozen any more. Raises ValueError if the number of seeds
        is wrong or one is out of range.
        """
        if len(seeds) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many seeds, got {len(seeds)}")
        if not all(0 <= seed < 2**31 for seed in seeds):  # ALE takes int32, and a negative seed changes nothing
            raise ValueError(f"Atari needs seeds from 0 to 2**31 - 1, got {list(seeds)}")
        self._generator = np.random.default_rng([*map(int, seeds)])
        self._previous = np.zeros(self.num_envs, np.int64)
        return self._running.begin(self._envs.reset(seed=np.array(seeds, np.int64))[0])

    def step(self, actions: np.ndarray) -> StepResult:
        """Make one agent step (4 frames) in all games. actions: (n,), indices in the game's minimal action set.

        Raises ValueError if the number of actions is wrong or an action is out of range.
        """
        actions = np.asarray(actions, np.int64)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"{self.num_envs} environments need as many actions, got shape {actions.shape}")
        if actions.min() < 0 or actions.max() >= self._actions:  # ALE would wait forever
            raise ValueError(f"actions must be from 0 to {self._actions - 1}, got {actions.tolist()}")
        if self._sticky:
            repeat = self._generator.random(self.num_envs) < self._sticky
            self._previous = actions = np.where(repeat, self._previous, actions)
        obs, rewards, terminated, truncated, info = self._envs.step(actions)
        reward = rewards.astype(np.float64)
        self._running.count(obs, reward, terminated, truncated)
        final_obs, episodes = obs, list[Episode]()
        done = terminated | truncated
        if done.any():
            final_obs = obs.copy()
            final_obs[done] = info["final_obs"][done]  # its other rows are no observations
            episodes = [self._running.end(i) for i in np.flatnonzero(done).tolist()]
            self._previous = np.where(done, 0, self._previous)  # before the first action of an episode: a no-op
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def progress(self, steps: int) -> None:
        """Do nothing: this vector has no shifts (see `make_pixels`)."""

    def freeze(self, rows: Sequence[int]) -> None:
        """Step these games without effect until the next `reset`, with the results of `Vector.freeze`."""
        self._running.freeze(rows)

    def close(self) -> None:
        """Stop the threads. The vector cannot be used afterwards."""
        self._envs.close()
        del self._envs


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
    render_mode: str | None = None,
    max_episode_steps: int | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Envs:
    """Return `num_envs` copies of an Atari game with observations (4, 84, 84) uint8 (see `AtariVector`).

    ALE's vector environment supports neither modes nor rendering. Therefore Atari games with shifts or a render mode
    use Gymnasium's wrappers in one thread: the pixels and rules are the same, sticky actions come from another
    generator, and the speed is about four fifths of one thread's.

    Args:
        env: A Gymnasium id, or the short name of a game.
        num_envs: Number of copies.
        sticky, sticky_per, max_frames, threads: As in `AtariVector`.
        shifts: The shifts between the tasks of a stream (see `Shifted`).
        seed: The seed of the shifts' values.
        task: The index of the task.
        render_mode: As in `make_env`.
        max_episode_steps: Refused: games have `max_frames`.
        kwargs: Refused: games have the settings above.

    Raises:
        ValueError: The environment is not an Atari game, keyword arguments or max_episode_steps are given, or a shift
            does not fit. The message names the environment.
        ImportError: Atari with shifts or a render mode needs OpenCV, which is not installed.
    """
    env_id = resolve_env(env)
    if not env_id.startswith("ALE/"):
        raise ValueError(f"{env_id} is not an Atari game: see `supple list games`")
    if max_episode_steps is not None:
        raise ValueError(f"{env_id} has no --max-episode-steps: use --max-frames, 4 for each step")
    if kwargs:
        raise ValueError(
            f"{env_id} is given the keyword arguments {', '.join(kwargs)}: use --sticky, --sticky-per, --max-frames "
            "and --shift mode instead"
        )
    if shifts is None and render_mode is None:
        return AtariVector(
            env_id, num_envs, sticky=sticky, sticky_per=sticky_per, max_frames=max_frames, threads=threads
        )

    def make() -> gym.Env:
        game = gym.make(
            env_id,
            disable_env_checker=True,
            frameskip=1,  # the wrapper skips frames
            repeat_action_probability=sticky if sticky_per == "frame" else 0.0,
            max_num_frames_per_episode=max_frames,
            render_mode=render_mode,
        )
        try:
            game = AtariPreprocessing(game, noop_max=0, frame_skip=4, screen_size=SIDE)
        except gym.error.DependencyNotInstalled as error:
            raise ImportError("shifts and videos of Atari games need OpenCV: pip install 'supple[atari]'") from error
        if sticky and sticky_per == "step":
            game = Sticky(game, sticky)
        if shifts is not None:
            game = Shifted(game, shifts, seed, task)
        return FrameStackObservation(game, STACK, padding_type="zero")

    return Vector([make] * num_envs)


class Sticky(gym.ActionWrapper):
    """A wrapper that repeats the previous action with a probability, drawn once per step.

    The action before the first step of an episode is a no-op. Gymnasium's `StickyAction` never repeats at the first
    step of an episode, and does not support a probability of 1.
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
