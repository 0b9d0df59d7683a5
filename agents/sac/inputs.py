"""What SAC's networks read: observations normalised by the statistics of their environment, and which one it is.

A row of the replay memory has an observation, which is only centred (see `Centre`), since the statistics change. With
several heads, or one head that reads the environment as a one-hot vector, the last number of a row is that of the
environment in which the transition was made. So a batch may have transitions of several environments, as long as the
memory keeps them, and each is normalised by the statistics of its own environment and read by its own head.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supple.agents.normalize import EPSILON, Centre, RunningMeanStd
from supple.agents.offpolicy.replay import ReplayLayout
from supple.agents.spaces import only_space
from supple.agents.stacks import by_member
from supple.envs import Picture, StepResult

from .settings import HeadsSetting

SHARED = "all"  # the key of the statistics that all environments share
MOST = 256  # environments whose number fits into a pixel


class Control(NamedTuple):
    """The length of an environment's observations, the bounds of each entry of its actions, and what is an image.

    Attributes:
        observation: The length of an observation as a row of numbers.
        low: The smallest values of an action.
        high: The largest.
        picture: How an image lies in a row, or None.
        dtype: The type in which rows are stored.
    """

    observation: int
    low: tuple[float, ...]
    high: tuple[float, ...]
    picture: Picture | None = None
    dtype: str = "float32"

    def __str__(self) -> str:
        image = f" ({self.picture})" if self.picture else ""
        seen = f"{self.observation} observations{image}"
        return f"{seen} and {len(self.low)} actions between {list(self.low)} and {list(self.high)}"


def shared_control(spaces: Mapping[str, Control], heads: HeadsSetting) -> Control:
    """Return the space of all environments, with the action bounds of the first.

    Raises ValueError if they differ, with several heads or a one-hot vector in more than the bounds, or if there are
    too few or too many environments for these."""
    if heads == "one":
        return only_space("SAC", spaces)
    if not 2 <= len(spaces) <= MOST:
        raise ValueError(f"--heads {heads} needs 2 to {MOST} environments (--sequence), got {len(spaces)}")
    (first, common), *others = spaces.items()
    for env, space in others:
        if space._replace(low=common.low, high=common.high) != common or len(space.low) != len(common.low):
            raise ValueError(
                f"--heads {heads} needs as many observations and actions in all environments, but {first} has {common} "
                f"and {env} has {space}"
            )
    return common


class Inputs:
    """The running statistics of each environment, or the one set that all share, and the inputs made with them.

    Args:
        spaces: Environment id → its space.
        heads: As in the settings.
        stack: (members,), or () for one agent.
        device: The device of the networks.

    Attributes:
        keys: The environments that have statistics of their own, or `SHARED`.
        key: The present one.
        size: The number of inputs of a network: those of an observation, and of the mark.
        layout: The layout of the replay memory.
    """

    def __init__(
        self, spaces: Mapping[str, Control], heads: HeadsSetting, stack: tuple[int, ...], device: torch.device
    ) -> None:
        control = shared_control(spaces, heads)
        self.stack, self.device, self.heads = stack, device, heads
        self.keys = (SHARED,) if heads == "one" else tuple(spaces)
        self.key = self.keys[0]
        self.several = heads != "one"
        self.pixels = control.picture.size if control.picture else 0
        d = control.observation
        self.statistics = {key: RunningMeanStd(d - self.pixels, stack) for key in self.keys}
        self.centres = {key: Centre(d, stack) for key in self.keys}
        self.mean = torch.zeros(*stack, len(self.keys), d - self.pixels, device=device)
        self.scale = torch.ones(*stack, len(self.keys), d - self.pixels, device=device)
        self.size = d + {"one": 0, "environment": 1, "one-hot": len(self.keys)}[heads]
        self.layout = ReplayLayout((d + self.several,), control.dtype, action=(len(control.low),))
        self.dtype = torch.from_numpy(np.empty(0, control.dtype)).dtype
        self._one_hot = torch.eye(len(self.keys), device=device)

    def observe(self, rows: NDArray[Any]) -> None:
        """Count observations of the present environment, (rows, d), in its statistics."""
        self.statistics[self.key].update(by_member(rows, self.stack)[..., self.pixels :])
        self.refresh(self.key)

    def refresh(self, *keys: str) -> None:
        """Copy statistics to the networks' device, in place, because a CUDA graph reads that memory.

        The means are those of centred observations."""
        for key in keys:
            statistics, number = self.statistics[key], self.keys.index(key)
            deviation = np.sqrt(statistics.variance + EPSILON)
            mean = statistics.mean - self.centres[key].offset[..., self.pixels :]
            self.mean[..., number, :].copy_(torch.from_numpy(mean))
            self.scale[..., number, :].copy_(torch.from_numpy(1.0 / deviation))

    # -- rows of the replay memory -------------------------------------------------------------------------

    @property
    def centre(self) -> Centre:
        """How observations of the present environment are stored."""
        return self.centres[self.key]

    def stored(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return observations, (rows, d), as the replay memory stores them."""
        return self._numbered(self.centre.centre_rows(rows))

    def stored_result(self, result: StepResult) -> StepResult:
        """Return the result of a step with observations as the replay memory stores them."""
        result = self.centre.centre_result(result)
        return result._replace(obs=self._numbered(result.obs), final_obs=self._numbered(result.final_obs))

    def _numbered(self, rows: NDArray[Any]) -> NDArray[Any]:
        if not self.several:
            return rows
        number = np.full((len(rows), 1), self.keys.index(self.key), rows.dtype)
        return np.concatenate([rows, number], 1)

    # -- inputs of the networks ----------------------------------------------------------------------------

    def of(self, rows: NDArray[Any], env: str) -> Tensor:
        """Return the inputs for observations of one environment, (rows, d) → (*stack, n, inputs)."""
        key = env if self.several else SHARED
        number = self.keys.index(key)
        rows = self.centres[key](by_member(rows, self.stack))
        mean, scale = self.mean[..., number, None, :], self.scale[..., number, None, :]
        inputs = self._normalize(torch.from_numpy(rows).to(self.device, self.dtype), mean, scale)
        if not self.several:
            return inputs
        return self._marked(inputs, torch.full(inputs.shape[:-1], number, device=self.device))

    def of_frames(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Return the inputs for s and s′ of rows of the memory: (*stack, n, 2, d or d + 1) → (*stack, n, inputs)."""
        if not self.several:
            mean, scale = self.mean[..., :, None, :], self.scale[..., :, None, :]
            states, next_states = self._normalize(frames, mean, scale).unbind(-2)
            return states, next_states
        numbers = frames[..., 0, -1].long()  # s′ of a termination is blank
        rows = numbers
        if self.stack:  # a row of each member's tables
            rows = numbers + len(self.keys) * torch.arange(len(numbers), device=self.device)[:, None]
        mean, scale = (table.flatten(0, -2)[rows][..., None, :] for table in (self.mean, self.scale))
        states, next_states = self._normalize(frames[..., :-1], mean, scale).unbind(-2)
        return self._marked(states, numbers), self._marked(next_states, numbers)

    def _normalize(self, rows: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
        """Return rows whose numbers are normalised. Those of an image, which come first, stay as they are."""
        if not self.pixels:
            return (rows - mean) * scale
        if self.pixels == rows.shape[-1]:
            return rows
        return torch.cat([rows[..., : self.pixels], (rows[..., self.pixels :] - mean) * scale], -1)

    def _marked(self, inputs: Tensor, numbers: Tensor) -> Tensor:
        """Return inputs, (*stack, n, d), with the mark of their environments, whose numbers are (*stack, n)."""
        mark = self._one_hot[numbers] if self.heads == "one-hot" else numbers[..., None]
        return torch.cat([inputs, mark.to(inputs.dtype)], -1)

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            name: {key: part.state_dict() for key, part in parts.items()}
            if self.several
            else parts[SHARED].state_dict()
            for name, parts in self._parts.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        for name, parts in self._parts.items():
            for key, part in parts.items():
                part.load_state_dict(state[name][key] if self.several else state[name])

    @property
    def _parts(self) -> dict[str, dict[str, Any]]:
        return {"statistics": self.statistics, "centre": self.centres}
