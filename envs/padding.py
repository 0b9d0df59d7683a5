"""Environments with images that one agent sees in turn: their channels and actions made equal in number."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from .fault import Step, text_of
from .pictures import Observations, SpacePart, find_image, picture_of


class United(NamedTuple):
    """The channels and actions that the environments of a sequence have in common.

    Attributes:
        channels: The number of channels of their images, or 0: images are left as they are.
        actions: The number of their actions, or 0: actions are left as they are.
        observations: Which side of the images has the channels (see `picture_of`).
    """

    channels: int
    actions: int
    observations: Observations = "auto"


def unite(envs: Mapping[str, gym.Env], observations: Observations = "auto") -> United | None:
    """Return the largest numbers of channels and of actions of environments whose images have the same size.

    Returns None if observations are vectors, or all are alike. Actions are left as they are if not all are Discrete,
    and so is an image that is a part of a Dict or Tuple, which must be the same in all environments.

    Args:
        envs: The environments, by name.
        observations: Which observations are images (see `find_image`).

    Raises:
        ValueError: Images differ in more than the number of channels, or only some environments show images.
    """
    shown = {name: env.observation_space for name, env in envs.items()}
    images = {name: find_image(space, observations) for name, space in shown.items()}
    if not any(images.values()):
        return None
    kinds, counts = {}, []
    for name, image in images.items():
        kinds[name] = kind = _kind(shown[name], None if image is None or image.name else image.space, observations)
        first = next(iter(kinds))
        if kind != kinds[first]:
            seen = " and ".join(
                f"{env} shows {_describe(shown[env], images[env], observations)}" for env in (first, name)
            )
            raise ValueError(
                f"{seen}: the environments of a sequence need equal observations, or images that differ in nothing but "
                "their channels (ppo also reads images as vectors, with --observations vector)"
            )
        counts.append(0 if image is None or image.name else _channels(image.space, observations)[1])
    numbers = [int(env.action_space.n) for env in envs.values() if isinstance(env.action_space, spaces.Discrete)]
    actions = max(numbers) if len(numbers) == len(envs) else 0
    alike = len(set(counts)) == 1 and (not actions or len(set(numbers)) == 1)
    return None if alike else United(max(counts), actions, observations)


def _kind(shown: spaces.Space, image: spaces.Space | None, observations: Observations) -> tuple[object, ...]:
    """Return what must be equal: an image without the number of its channels, or the whole space."""
    if image is None:
        return (shown,)
    axis, _ = _channels(image, observations)
    sides = [side for place, side in enumerate(image.shape or ()) if place != axis]
    return axis, tuple(sides), image.dtype, picture_of(image, observations)[-2:]


def _describe(shown: spaces.Space, image: SpacePart | None, observations: Observations) -> str:
    """Return what an environment shows, in words."""
    if image is not None:
        picture = picture_of(image.space, observations)
        return f"{picture}, {image.space.dtype}{image.name and f', in {image.name}'}"
    if isinstance(shown, spaces.Box) and len(shown.shape) == 1:
        return f"vectors of {shown.shape[0]} numbers"
    return text_of(shown)


def _channels(image: spaces.Space, observations: Observations) -> tuple[int, int]:
    """Return the axis of an image's channels, and their number; (-1, 0) for one of two dimensions."""
    shape = image.shape or ()
    if len(shape) < 3:
        return -1, 0
    axis = len(shape) - (1 if picture_of(image, observations).last else 3)
    return axis, shape[axis]


class Padded(gym.Wrapper):
    """A wrapper that appends channels of zeros to the image, and actions, each of which is action 0.

    Action 0 does nothing in MinAtar and in Atari.

    Args:
        env: The environment.
        united: The numbers of channels and actions, none smaller than the environment's own.
    """

    def __init__(self, env: gym.Env, united: United) -> None:
        super().__init__(env)
        self._own = united.actions
        if united.actions:
            assert isinstance(env.action_space, spaces.Discrete)
            self._own, self.action_space = int(env.action_space.n), spaces.Discrete(united.actions)
        self._place: tuple[slice, ...] = ()
        if united.channels:
            image = env.observation_space
            assert isinstance(image, spaces.Box)
            self._dtype = image.dtype
            axis, count = _channels(image, united.observations)
            added = [(0, united.channels - count if place == axis else 0) for place in range(len(image.shape))]
            self._place = tuple(map(slice, image.shape))
            low, high = (np.pad(bound, added) for bound in (image.low, image.high))
            self._shape = low.shape
            self.observation_space = spaces.Box(low, high, dtype=image.dtype.type)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.observation(observation), info

    def step(self, action: Any) -> Step:
        if self._own and action >= self._own:
            action = 0
        observation, *rest = self.env.step(action)
        return self.observation(observation), *rest

    def own_actions(self, actions: Any) -> Any:
        """Return what several actions are in the environment, (n,)."""
        return np.where(actions < self._own, actions, 0) if self._own else actions

    def observation(self, observation: Any) -> Any:
        """Return an observation of the environment with the further channels."""
        if not self._place:
            return observation
        padded: NDArray[Any] = np.zeros(self._shape, self._dtype)
        padded[self._place] = observation
        return padded
