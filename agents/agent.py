"""What the interaction loop asks of an agent."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..envs import StepResult
from ..experiments.hooks import HookDriver
from ..interventions import Learner

Policy = Callable[[np.ndarray], np.ndarray]


class Agent(Protocol):
    """act → remember → update, and everything about it in `learners` and `state_dict`."""

    learners: dict[str, Learner]

    def begin_task(self, env: str) -> None:
        """Act in this environment from now on."""

    def begin_episodes(self, observations: NDArray[Any]) -> None:
        """Begin with these first observations, (num_envs, …): all environments were reset."""

    def act(self) -> np.ndarray:
        """Return actions for the current observations, (num_envs, …)."""

    def remember(self, result: StepResult) -> None:
        """Take in what the last actions led to."""

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Learn if it is time to; `last` says that the task ends here. Whether the run may be intervened in,
        measured and saved now."""

    def numbers(self) -> dict[str, float]:
        """Return what there is to log about learning since the last call. Raises Diverged if it did."""

    def check_memory(self, runs: int) -> None:
        """Raise ValueError if so many runs at a time need more memory than there is."""

    def greedy(self, env: str) -> AbstractContextManager[Policy]:
        """Return the policy of evaluations."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that training goes on from, as a tree for `experiments.checkpoint`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
