"""What the interaction loop asks of an agent; PPO is the first, others follow the same form."""

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

    def begin_episodes(self, observations: NDArray[np.float64]) -> None:
        """All environments were reset to these first observations, (num_envs, d)."""

    def act(self) -> np.ndarray:
        """Actions for the current observations, (num_envs, a)."""

    def remember(self, result: StepResult) -> None:
        """What those actions led to."""

    def update(self, hooks: HookDriver, last: bool) -> dict[str, float] | None:
        """Learn if it is time to; `last` says that the task ends here. Numbers to log where the run may be
        interrupted, intervened in and saved; None where it may not."""

    def greedy(self, env: str) -> AbstractContextManager[Policy]:
        """The policy without exploration, for evaluation."""

    def state_dict(self) -> dict[str, Any]:
        """All that training goes on from, as a tree for `experiments.checkpoint`."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` gave."""
