"""SAC with SimBa networks, as SimBa and the FIRE paper train it (FIRE paper, Table 5).

Haarnoja et al. 2018 (soft actor–critic with a learned temperature), Lee et al. 2025 (SimBa). The update and its
order: `sac_update`; networks: `networks`. Observations are normalised by running statistics of all that was seen
while acting; the memory keeps them raw. An episode that is cut off (a time limit, a checkpoint) bootstraps from its
true last observation.
"""

from collections.abc import Callable, Iterator, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..envs import StepResult
from ..experiments.errors import RunError
from ..experiments.hooks import HookDriver
from ..experiments.learner_state import learner_state, load_learner_state
from ..experiments.seeding import generator
from ..interventions import Learner, snapshot
from ..networks import copy_module_, evaluating
from .feed import Feed
from .graph import Captured
from .networks import MLP, Actor, Critics, QNetworks, SimBa, features_of, layers_of, orthogonal, uniform, wiring_of
from .normalize import RunningMeanStd
from .replay import Layout, ReplayMemory, Sample, bytes_needed, check_room
from .sac_settings import SACSettings
from .sac_update import STATISTICS, SoftUpdate, Temperature, Transitions

BATCHES_AT_ONCE = 16  # at most, drawn together: a high replay ratio must not need more memory
Batches = Callable[[int | None], Iterator[Tensor]]
PROBE_ROWS = 256  # transitions on which metrics and interventions look at the networks


class Control(NamedTuple):
    """What an environment shows and takes: the size of an observation, and bounds of the action's entries."""

    observation: int
    low: tuple[float, ...]
    high: tuple[float, ...]


class SAC:
    """The agent. The loop calls act → remember → update."""

    def __init__(self, settings: SACSettings, spaces: Mapping[str, Control]) -> None:
        """spaces: environment id → what it shows and takes; all environments of a stream must agree."""
        s = self.settings = settings
        name, self.control = next(iter(spaces.items()))
        for other, control in spaces.items():
            if control != self.control:
                raise ValueError(f"SAC has one network for all tasks, but {name} is {self.control}, {other} {control}")
        self.device = torch.device(s.device)
        self.size = len(self.control.low)  # of an action
        self._draws = generator(s.seed, "initial parameters")
        self.actor, self.critics = self._new_actor().to(self.device), self._new_critics().to(self.device)
        self.target = self._new_critics().to(self.device).requires_grad_(False).eval()  # see `Learner.followers`
        copy_module_(self.target, self.critics)
        self.temperature = Temperature(s.temperature).to(self.device)
        self.statistics = RunningMeanStd(self.control.observation)
        self.mean = torch.zeros(self.control.observation, device=self.device)
        self.scale = torch.ones(self.control.observation, device=self.device)
        self.exploration, self.sampling = generator(s.seed, "exploration"), generator(s.seed, "replay")
        self.noise = generator(s.seed, "action noise")
        self.check_room(runs=1)
        folder = Path(s.replay_folder) if s.replay_folder else None
        self.memory = ReplayMemory(s.replay_size, s.num_envs, self._layout(), folder)
        self.feed = Feed(self.memory, self.device)
        self.decisions = 0  # so far, of all environments
        self.taken = 0  # gradient steps so far
        self.sums = torch.zeros(len(STATISTICS), dtype=torch.float64, device=self.device)  # since `numbers`
        self.updates = 0  # since `numbers`
        self._looked_at: tuple[int, Transitions, Tensor] | None = None
        self.learners = self._learners()
        actor, critic = self.learners["actor"], self.learners["critic"]
        self.soft_update = SoftUpdate(actor, critic, s.gamma, s.tau, s.target_entropy * self.size, s.compile == "on")
        on_gpu = self.device.type == "cuda"
        self.captured = Captured(self._learn_from) if on_gpu and s.capture else None

    # -- networks and what interventions see of them ---------------------------------------------------------

    def _body(self, d_in: int, width: int, blocks: int, members: int = 0) -> tuple[SimBa | MLP, int]:
        s = self.settings
        if s.network == "simba":
            return SimBa(d_in, width, blocks, s.activation, self._draws, members), width
        body = MLP(d_in, s.hidden, s.activation, self._draws, members)
        return body, body.width

    def _new_actor(self) -> Actor:
        s = self.settings
        draw = (orthogonal if s.network == "simba" else uniform)(self._draws)
        return Actor(*self._body(self.control.observation, s.actor_width, s.actor_blocks), self.size, draw)

    def _new_critics(self) -> Critics:
        s = self.settings
        draw = (orthogonal if s.network == "simba" else uniform)(self._draws)
        body, width = self._body(self.control.observation + self.size, s.critic_width, s.critic_blocks, s.critics)
        return Critics(QNetworks(body, width, s.critics, draw))

    def _adam(self, module: nn.Module, weight_decay: float) -> torch.optim.AdamW:
        on_gpu = self.device.type == "cuda"
        return torch.optim.AdamW(
            module.parameters(), self.settings.learning_rate, weight_decay=weight_decay, fused=True, capturable=on_gpu
        )

    def _learners(self) -> dict[str, Learner]:
        s = self.settings

        def common(name: str) -> dict[str, Any]:
            return {"generator": generator(s.seed, f"interventions on {name}"), "algorithm": "sac", "endless": True}

        temperature = Learner(
            "temperature", self.temperature, self._adam(self.temperature, 0.0), (), (),
            probe=lambda: None, loss=lambda: torch.zeros(()), redraw=dict, **common("temperature"),
        )  # fmt: skip
        actor = Learner(
            "actor", self.actor, self._adam(self.actor, s.weight_decay), layers_of(self.actor),
            tuple(wiring := wiring_of(self.actor)), wiring=wiring,
            probe=lambda: (recent := self._recent()) and recent[0][:1], loss=self._actor_probe_loss,
            redraw=lambda: snapshot(self._new_actor()), temperature=temperature,
            features=features_of(self.actor), **common("actor"), batches=self._batches(
                lambda batch, noise: self.soft_update.actor_losses_of(batch.states, noise[:, 0])[0], "actor"
            ),
        )  # fmt: skip
        net = self.critics.net
        critic = Learner(
            "critic", self.critics, self._adam(self.critics, s.weight_decay), layers_of(net, "net."),
            tuple(wiring := wiring_of(net, "net.")), wiring=wiring,
            probe=lambda: (recent := self._recent()) and recent[0][:2], loss=self._critic_probe_loss,
            redraw=lambda: snapshot(self._new_critics()), followers=(self.target,),
            temperature=temperature, injectable="net", features=features_of(net, "net."), **common("critic"),
            batches=self._batches(
                lambda batch, noise: self.soft_update.critic_losses_of(batch, noise[:, 1])[0], "critic"
            ),
        )  # fmt: skip
        return {"actor": actor, "critic": critic}

    def _recent(self) -> tuple[Transitions, Tensor] | None:
        """Transitions to look at the networks on, and the noise of the actions there: the same all through a step,
        drawn without a trace."""
        if not len(self.memory):
            return None
        if self._looked_at is None or self._looked_at[0] != self.decisions:
            draws = generator(self.settings.seed, f"probe {self.decisions}")
            self._looked_at = self.decisions, *self._drawn(PROBE_ROWS, draws)
        return self._looked_at[1:]

    def _drawn(self, rows: int, draws: torch.Generator) -> tuple[Transitions, Tensor]:
        sample = Sample(*(tensor.to(self.device) for tensor in self.memory.sample(rows, draws)))
        return self._transitions(sample), torch.randn(rows, 2, self.size, generator=draws).to(self.device)

    def _batches(self, losses: Callable[[Transitions, Tensor], Tensor], name: str) -> Batches:
        """Losses on batches from the memory, drawn by the learner's own generator, in evaluation mode."""

        def one() -> Tensor:
            batch, noise = self._drawn(self.settings.batch_size, self.learners[name].generator)
            with evaluating(self.actor), evaluating(self.critics):
                return losses(batch, noise)

        def batches(count: int | None) -> Iterator[Tensor]:
            if count is None:
                raise ValueError("a replay memory has no end to pass to: say how many batches")
            if not len(self.memory):
                raise ValueError("the replay memory is still empty: schedule it later")
            return (one() for _ in range(count))

        return batches

    def _actor_probe_loss(self) -> Tensor:
        batch, noise = self._known()
        with evaluating(self.critics):
            return self.soft_update.actor_loss_of(batch.states, noise[:, 0])[0]

    def _critic_probe_loss(self) -> Tensor:
        batch, noise = self._known()
        with evaluating(self.actor):
            return self.soft_update.critic_loss_of(batch, noise[:, 1])[0]

    def _known(self) -> tuple[Transitions, Tensor]:
        if (recent := self._recent()) is None:
            raise RuntimeError("there are no recent transitions before the first step")
        return recent

    def _layout(self) -> Layout:
        return Layout((self.control.observation,), np.float32, action=(self.size,))

    def check_room(self, runs: int) -> None:
        s, folder = self.settings, self.settings.replay_folder
        needed = bytes_needed(s.replay_size, s.num_envs, self._layout())
        check_room(needed, s.replay_size, Path(folder) if folder else None, runs)

    # -- interaction ---------------------------------------------------------------------------------------

    def begin_task(self, env: str) -> None:
        """Networks, memory and statistics go on as they are: the stream's tasks share them."""

    def begin_episodes(self, observations: NDArray[np.float64]) -> None:
        """Every environment was reset; `observations` (num_envs, d) are the first of new episodes."""
        self.memory.begin(observations)
        self.current = observations

    def act(self) -> NDArray[np.float32]:
        """An action for each current observation, (num_envs, a), within the environment's bounds."""
        s = self.settings
        if s.normalize_observations:
            self.statistics.update(self.current)
            self._refresh()
        shape = (s.num_envs, self.size)
        if self.decisions < s.learning_starts:
            self.actions = torch.rand(shape, generator=self.exploration).mul_(2).sub_(1).numpy()
        else:
            noise = torch.randn(shape, generator=self.exploration)
            self.actions = self.choose(self.current, noise)
        return self.to_bounds(self.actions)

    @torch.no_grad()
    def choose(self, observations: np.ndarray, noise: Tensor | None) -> NDArray[np.float32]:
        """Actions in [−1, 1], (n, a), of observations (n, d): with this noise (n, a), or the policy's mean action."""
        states = self._normalize(torch.from_numpy(observations).to(self.device, torch.float32))
        if noise is None:
            actions = torch.tanh(self.actor(states)[0])
        else:
            actions = self.actor.sample(states, noise.to(self.device))[0]
        return actions.cpu().numpy()

    def to_bounds(self, actions: NDArray[np.float32]) -> NDArray[np.float32]:
        """From [−1, 1] to the environment's own bounds, which rounding must not pass."""
        low, high = (np.asarray(bound, np.float32) for bound in self.control[1:])
        return np.minimum(np.maximum(low + 0.5 * (actions + 1.0) * (high - low), low), high)

    def remember(self, result: StepResult) -> None:
        """Store what the actions just chosen led to."""
        self.memory.add(self.actions, result.reward, result.terminated, result.truncated, result.final_obs, result.obs)
        self.current = result.obs
        self.decisions += len(result.reward)

    def greedy(self, env: str) -> "Mean":
        """The policy of evaluations: the mean action, with the statistics as they are."""
        return Mean(self)

    def _refresh(self) -> None:
        """Bring the statistics to where the networks are, in the memory that a recorded update reads."""
        deviation = np.sqrt(self.statistics.variance + self.statistics.epsilon)
        self.mean.copy_(torch.from_numpy(self.statistics.mean))
        self.scale.copy_(torch.from_numpy(1.0 / deviation))

    def _normalize(self, observations: Tensor) -> Tensor:
        return (observations - self.mean) * self.scale

    def _transitions(self, sample: Sample) -> Transitions:
        states, next_states = self._normalize(sample.frames).unbind(1)
        return Transitions(states, sample.actions, sample.rewards, sample.terminated, next_states)

    # -- learning ------------------------------------------------------------------------------------------

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Take the gradient steps that the replay ratio asks for; always a place to stop at."""
        s = self.settings
        due = int(s.replay_ratio * max(0, self.decisions - s.learning_starts) + 1e-9)  # 0.3 · 40 is 11.999…
        while self.taken < due:
            self._learn(min(due - self.taken, BATCHES_AT_ONCE), hooks)
        return True

    def _learn(self, count: int, hooks: HookDriver) -> None:
        """`count` gradient steps, on batches drawn at once: nothing enters the memory between them."""
        size = count * self.settings.batch_size
        sample = self.feed(size, self.sampling)
        noise = torch.randn(size, 2, self.size, generator=self.noise).to(self.device)
        self.taken += count
        self.updates += count
        if self.captured and not (hooks.penalizes or hooks.follows_updates):
            changes = sum(len(learner.changes) for learner in self.learners.values())
            self.captured(*sample, noise, structure=changes)
        else:
            self._learn_from(*sample, noise, hooks=hooks)

    def _learn_from(
        self, frames: Tensor, actions: Tensor, rewards: Tensor, terminated: Tensor, noise: Tensor,
        hooks: HookDriver | None = None,
    ) -> None:  # fmt: skip
        """One gradient step on each batch in the sample, in order. No value is looked at from the CPU."""
        tensors = (*self._transitions(Sample(frames, actions, rewards, terminated)), noise)
        for *batch, draws in zip(*(tensor.split(self.settings.batch_size) for tensor in tensors), strict=True):
            self.sums += self.soft_update(Transitions(*batch), draws, hooks)

    def numbers(self) -> dict[str, float]:
        """Means since the last call, and how full the memory is."""
        found = {"replay/size": float(len(self.memory))}
        if self.updates:
            means = (self.sums / self.updates).tolist()
            if not all(map(isfinite, means)):
                raise RunError("training diverged: the loss is not finite; try a smaller --learning-rate")
            found |= dict(zip(STATISTICS, means, strict=True)) | {"updates": float(self.updates)}
        self.sums.zero_()
        self.updates = 0
        return found

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "learners": {name: learner_state(learner) for name, learner in self._all_learners().items()},
            "statistics": self.statistics.state_dict(),
            "memory": self.memory.state_dict(),
            "generators": {name: random.get_state() for name, random in self._generators().items()},
            "decisions": self.decisions,
            "taken": self.taken,
            "sums": self.sums,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, learner in self._all_learners().items():
            load_learner_state(learner, state["learners"][name])
        self.statistics.load_state_dict(state["statistics"])
        self._refresh()
        self.memory.load_state_dict(state["memory"])
        for name, random in self._generators().items():
            random.set_state(state["generators"][name])
        self.decisions, self.taken, self.updates = state["decisions"], state["taken"], state["updates"]
        self.sums.copy_(state["sums"])

    def _all_learners(self) -> dict[str, Learner]:
        return {**self.learners, "temperature": self.soft_update.temperature}

    def _generators(self) -> dict[str, torch.Generator]:
        return {
            "exploration": self.exploration,
            "noise": self.noise,
            "sampling": self.sampling,
            "draws": self._draws,
        }


class Mean:
    """The policy of evaluations: the mean action, in evaluation mode while it is used."""

    def __init__(self, agent: SAC) -> None:
        self.agent = agent

    def __enter__(self) -> "Mean":
        self.agent.actor.eval()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.actor.train()

    def __call__(self, observations: NDArray[np.float64]) -> NDArray[np.float32]:
        """(n, d) → (n, a)."""
        return self.agent.to_bounds(self.agent.choose(observations, noise=None))
