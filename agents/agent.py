"""The protocol that agents implement for the interaction loop."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from supple.engine.hooks.driver import HookDriver
from supple.engine.work import Numbers
from supple.envs import StepResult
from supple.interventions import Learner

Policy = Callable[[np.ndarray], np.ndarray]


class Agent(Protocol):
    """An agent: act → remember → update. Its networks are in `learners`, its complete state in `state_dict`."""

    learners: dict[str, Learner]

    @property
    def updates(self) -> int:
        """The optimizer steps so far, with those before a checkpoint that was loaded. Only `@updates:N` needs it."""

    def begin_task(self, env: str) -> None:
        """Act in this environment from now on."""

    def begin_episodes(self, observations: NDArray[Any]) -> None:
        """Begin episodes: all environments were reset to these observations, (num_envs, …)."""

    def act(self) -> np.ndarray:
        """Return actions for the current observations, (num_envs, *action shape)."""

    def remember(self, result: StepResult) -> None:
        """Store the result of the last actions."""

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Update the networks if an update is due. `last`: this is the last step of the task.

        Returns:
            Whether interventions, measurements and checkpoints are possible now, since nothing is half done. At the
            last step of a task, all updates must be completed and the result must be true: otherwise the run ends with
            RunError.
        """

    def sound(self) -> Tensor:
        """Return whether the losses since the last call of `numbers` are finite, by member. Only stacks are asked."""

    def freeze(self, members: Sequence[int]) -> None:
        """Let the data of these members, which have diverged, be finite. Only stacks are asked."""

    def numbers(self) -> Numbers:
        """Return the numbers to log about learning since the last call, in a stack by member.

        Raises Diverged if a loss is not finite, but not for some members of a stack.
        """

    def greedy(self, env: str) -> AbstractContextManager[Policy]:
        """Return the policy for evaluations."""

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state of training, as a tree for `engine.storage.checkpoint`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
