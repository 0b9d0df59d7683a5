"""REINFORCE (Williams 1992) for discrete actions: one gradient step after every `horizon` decisions."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from gymnasium.spaces import Discrete, flatdim
from torch import Tensor, nn

from supple.agents.agent import Policy
from supple.agents.settings import AgentSettings
from supple.agents.spaces import RowSpace, only_space, row_space
from supple.agents.work import AgentWork
from supple.engine.hooks.driver import HookDriver
from supple.engine.kinds import Kind, add
from supple.engine.seeding import generator
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.envs import StepResult
from supple.interventions import learner_for
from supple.registry.errors import Diverged


@dataclass(kw_only=True)
class ReinforceSettings(AgentSettings):
    horizon: int = 64
    """Decisions of each environment copy between two updates."""
    learning_rate: float = 1e-2
    """Learning rate of Adam."""
    gamma: float = 0.99
    """Discount factor."""


class Reinforce:
    def __init__(self, settings: ReinforceSettings, spaces: Mapping[str, RowSpace]) -> None:
        self.settings = settings
        space = only_space("reinforce", spaces)
        torch.manual_seed(settings.seed)
        self.network = nn.Sequential(nn.Linear(space.observation, 32), nn.Tanh(), nn.Linear(32, flatdim(space.action)))
        optimizer = torch.optim.Adam(self.network.parameters(), lr=settings.learning_rate)
        self.draws = generator(settings.seed, "actions")
        self.recent: tuple[Tensor, Tensor, Tensor] | None = None  # observations, actions, returns of the last update
        self.last_loss: Tensor | None = None
        self.updates = 0  # for hooks such as fire@updates:100
        learner = learner_for(
            self.network,
            optimizer,
            name="policy",
            probe=lambda: self.recent and self.recent[:1],
            loss=self.loss,
            seed=settings.seed,
        )
        self.learners = {"policy": learner}

    def begin_task(self, env: str) -> None:
        """Act in this environment from now on. One network serves all environments."""

    def begin_episodes(self, observations: np.ndarray) -> None:
        """Start new episodes from these observations."""
        self.now, self.steps = torch.from_numpy(observations).float(), []

    def act(self) -> np.ndarray:
        """Return actions for the current observations, (num_envs,)."""
        with torch.no_grad():
            self.chosen = torch.multinomial(self.network(self.now).softmax(1), 1, generator=self.draws)[:, 0]
        return self.chosen.numpy()

    def remember(self, result: StepResult) -> None:
        """Store the result of the last actions."""
        ended = torch.from_numpy(result.terminated | result.truncated)
        self.steps.append((self.now, self.chosen, torch.from_numpy(result.reward).float(), ended))
        self.now = torch.from_numpy(result.obs).float()

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Learn if the horizon is reached. Return whether the run may be measured and saved now."""
        if len(self.steps) < self.settings.horizon and not last:
            return False
        ahead, returns = torch.zeros(len(self.now)), []
        for *_, reward, ended in reversed(self.steps):
            ahead = reward + self.settings.gamma * ahead * ~ended
            returns.insert(0, ahead)
        observations, actions = (torch.cat([step[i] for step in self.steps]) for i in (0, 1))
        self.recent, self.steps = (observations, actions, torch.cat(returns)), []
        learner = self.learners["policy"]
        learner.optimizer.zero_grad()
        loss = self.loss()
        (loss + hooks.penalty(learner) if hooks.penalizes else loss).backward()
        hooks.before_update(learner)
        learner.optimizer.step()
        hooks.after_update(learner)
        self.last_loss = loss.detach()
        self.updates += 1
        return True

    def loss(self) -> Tensor:
        """Return −log π(a) · (return − mean return), averaged over the decisions of the last update."""
        observations, actions, returns = self.recent
        chosen = self.network(observations).log_softmax(1).gather(1, actions[:, None])[:, 0]
        return -(chosen * (returns - returns.mean())).mean()

    def numbers(self) -> dict[str, float]:
        """Return the loss of the last update. Raises Diverged if it is not finite."""
        if self.last_loss is None:
            return {}
        if not isfinite(loss := float(self.last_loss)):
            raise Diverged("the loss is not finite")
        return {"loss": loss}

    @contextmanager
    def greedy(self, env: str) -> Iterator[Policy]:
        """Yield the policy for evaluations, which takes the most probable action."""
        with torch.no_grad():
            yield lambda observations: self.network(torch.from_numpy(observations).float()).argmax(1).numpy()

    def state_dict(self) -> dict:
        """Return the complete state of the agent."""
        recent = None if self.recent is None else list(self.recent)
        return {
            "learner": learner_state(self.learners["policy"]),
            "draws": self.draws.get_state(),
            "recent": recent,
            "last_loss": self.last_loss,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict) -> None:
        """Load a state that `state_dict` returned."""
        load_learner_state(self.learners["policy"], state["learner"])
        self.draws.set_state(state["draws"])
        self.recent = None if state["recent"] is None else tuple(state["recent"])
        self.last_loss = state["last_loss"]
        self.updates = state["updates"]


class ReinforceWork(AgentWork):
    def space(self, env: str) -> RowSpace:
        """Return the length of observations and the space of actions. Raises ValueError if it is not discrete."""
        return row_space(env, "reinforce", self.settings.kwargs, actions=(Discrete,))

    def new_agent(self, settings: ReinforceSettings, spaces: Mapping[str, RowSpace]) -> Reinforce:
        """Return the agent."""
        return Reinforce(settings, spaces)


add(
    Kind(
        "reinforce",
        "an agent of your own",
        settings="reinforce:ReinforceSettings",
        build="reinforce:ReinforceWork",
        report="supple.agents.report:AGENTS",
        unit="environment steps",
        fork_at=0.5,
    )
)
