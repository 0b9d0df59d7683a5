"""DQN with the Nature CNN, as the FIRE paper trains it (Table 4, Appendix E.3).

    L = Huber(Q(s, a) − [sign(r) + γ·(1 − terminated)·max Q⁻(s′)]),   Q⁻ := Q every `target_period` steps

(Mnih et al. 2015.) Plain DQN: no double Q, no clipping of gradients, uniform replay. Where an episode is cut off
(a time limit, a checkpoint) its last transition bootstraps from the true last observation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
import tyro
from numpy.typing import NDArray
from torch import Tensor

from ..envs import StepResult
from ..experiments.errors import RunError, UsageError
from ..experiments.hooks import HookDriver
from ..experiments.learner_state import learner_state, load_learner_state
from ..experiments.seeding import generator
from ..experiments.settings import Device, RunSettings, device_here, positive
from ..interventions import Learner
from ..networks import copy_module_, evaluating
from .feed import Feed
from .graph import Captured
from .nature import NatureCNN
from .replay import Layout, ReplayMemory, Sample, bytes_needed, check_room

BATCHES_AT_ONCE = 16  # at most, drawn and valued together: a high replay ratio must not need more memory
PROBE_ROWS = 256  # transitions on which metrics and ReDo look at the network


class Pixels(NamedTuple):
    """What an environment shows and takes: frames in an observation, their size, the number of actions."""

    stack: int
    height: int
    width: int
    actions: int

    @property
    def layout(self) -> Layout:
        """What the memory keeps of it."""
        return Layout((self.height, self.width), np.uint8, self.stack)


@dataclass(kw_only=True)
class DQNSettings(RunSettings):
    num_envs: int = 4
    """Parallel copies of the environment."""
    eval_every: int = 250_000
    """Environment steps between evaluations; 0: at the end of each task only."""
    sticky: float = 0.25
    """Probability that an Atari game repeats the previous action (sticky actions)."""
    sticky_per: Annotated[Literal["frame", "step"], tyro.conf.arg(metavar="frame|step")] = "frame"
    """Draw stickiness for each frame (ALE's own) or for each agent step (as released with FIRE)."""
    max_frames: int = 108_000
    """Frames after which an Atari episode is cut off; 4 frames are one agent step."""
    replay_ratio: float = 1.0
    """Gradient steps per environment step: 0.25 is DQN's own, 1 the FIRE paper's."""
    batch_size: int = 32
    """Transitions in one gradient step."""
    replay_size: int = 1_000_000
    """Transitions that the replay memory holds; 84 × 84 frames take 7.1 kB each."""
    replay_folder: str | None = None
    """Keep the memory's frames in a file in this folder instead of in RAM."""
    learning_starts: int = 20_000
    """Environment steps with random actions before learning begins."""
    target_period: int = 2_000
    """Environment steps between two copies of the network to the target network."""
    learning_rate: float = 6.25e-5
    """Adam's step size."""
    adam_epsilon: float = 1.5e-4
    """Adam's ε."""
    gamma: float = 0.99
    """Discount factor."""
    clip_rewards: bool = True
    """Learn from the sign of each reward; logged returns are the true ones in any case."""
    exploration: float = 0.01
    """Final ε of ε-greedy exploration."""
    exploration_steps: int = 250_000
    """Environment steps, after learning starts, over which ε falls from 1 to its final value."""
    eval_epsilon: float = 0.001
    """ε in evaluations."""
    hidden: int = 512
    """Width of the linear layer."""
    activation: str = "relu"
    """Activation of the network by name, with parameters if wanted: leaky_relu(slope=0.1)."""
    device: Annotated[Device, tyro.conf.arg(metavar="auto|cpu|cuda")] = "auto"
    """Where the network learns; auto: on a CUDA GPU if there is one."""
    capture: bool = True
    """On a GPU, record the update once and replay it (a CUDA graph)."""

    def check(self) -> None:
        super().check()
        for name in (
            "max_frames", "replay_ratio", "batch_size", "replay_size", "target_period", "learning_rate",
            "adam_epsilon", "exploration_steps", "hidden",
        ):  # fmt: skip
            positive(**{f"--{name.replace('_', '-')}": getattr(self, name)})
        for name in ("sticky", "gamma", "exploration", "eval_epsilon"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"--{name.replace('_', '-')} must lie in [0, 1], got {getattr(self, name)}")
        if self.learning_starts < 0:
            raise UsageError(f"--learning-starts must be 0 or more, got {self.learning_starts}")
        if self.env and self.steps is not None and self.learning_starts >= self.steps:
            raise UsageError(
                f"--learning-starts {self.learning_starts} leaves none of the {self.steps} steps to learn in"
            )
        if self.replay_size < self.batch_size:
            raise UsageError(f"--replay-size {self.replay_size} holds less than one batch of {self.batch_size}")

    def resolve(self) -> str | None:
        self.device = device_here(self.device)
        return None


class DQN:
    """The agent. The loop calls act → remember → update."""

    def __init__(self, settings: DQNSettings, spaces: Mapping[str, Pixels]) -> None:
        """spaces: environment id → what it shows and takes; all environments of a stream must agree."""
        s = self.settings = settings
        name, self.pixels = next(iter(spaces.items()))
        for other, pixels in spaces.items():
            if pixels != self.pixels:
                raise ValueError(f"DQN has one network for all tasks, but {name} is {self.pixels}, {other} {pixels}")
        self.device = torch.device(s.device)
        self._draws = generator(s.seed, "initial parameters")
        self.network = self._new_network().to(self.device)
        self.target = self._new_network().to(self.device).requires_grad_(False)
        copy_module_(self.target, self.network)
        on_gpu = self.device.type == "cuda"
        self.exploration, self.sampling = generator(s.seed, "exploration"), generator(s.seed, "replay")
        folder = Path(s.replay_folder) if s.replay_folder else None
        self.check_room(runs=1)
        self.memory = ReplayMemory(s.replay_size, s.num_envs, self.pixels.layout, folder)
        self.feed = Feed(self.memory, self.device)
        self.captured = Captured(lambda *sample: self._learn_from(Sample(*sample))) if on_gpu and s.capture else None
        self.steps = 0  # environment steps so far
        self.taken = 0  # gradient steps so far
        self.sums = torch.zeros(2, dtype=torch.float64, device=self.device)  # of loss and of Q(s, a), since `numbers`
        self.updates = 0  # since `numbers`
        self._looked_at: tuple[int, Sample] | None = None
        self.learner = self._learner()
        self.learners = {"q": self.learner}

    def _new_network(self) -> NatureCNN:
        s = self.settings
        return NatureCNN(*self.pixels, hidden=s.hidden, activation=s.activation, generator=self._draws)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """The learner's, which an intervention may exchange."""
        optimizer = self.learner.optimizer
        assert optimizer is not None
        return optimizer

    def _learner(self) -> Learner:
        s, on_gpu = self.settings, self.device.type == "cuda"

        def redraw() -> dict[str, Tensor]:
            return {name: p.detach() for name, p in self._new_network().named_parameters()}

        return Learner(
            "q",
            self.network,
            torch.optim.Adam(
                self.network.parameters(), lr=s.learning_rate, eps=s.adam_epsilon, fused=True, capturable=on_gpu
            ),
            self.network.layers(),
            self.network.units(),
            probe=self._probe,
            loss=self._probe_loss,
            batches=self._batches,
            endless=True,
            generator=generator(s.seed, "interventions"),
            redraw=redraw,
            followers=(self.target,),
            algorithm="dqn",
            injectable="mlp",
        )

    def _recent(self) -> Sample | None:
        """Transitions to look at the network on: the same ones all through a step, drawn without a trace."""
        if not len(self.memory):
            return None
        if self._looked_at is None or self._looked_at[0] != self.steps:
            draws = generator(self.settings.seed, f"probe {self.steps}")
            sample = self.memory.sample(PROBE_ROWS, draws)
            self._looked_at = self.steps, Sample(*(tensor.to(self.device) for tensor in sample))
        return self._looked_at[1]

    def _probe(self) -> tuple[Tensor] | None:
        sample = self._recent()
        return None if sample is None else (sample.frames[:, :-1],)

    def _probe_loss(self) -> Tensor:
        if (sample := self._recent()) is None:
            raise RuntimeError("there are no recent transitions before the first step")
        return self._td_loss(sample.frames[:, :-1], sample.actions, self._targets(sample))[0]

    def _batches(self, count: int | None) -> Iterator[Tensor]:
        """Losses on batches from the memory, drawn by the learner's own generator, in evaluation mode."""
        if count is None:
            raise ValueError("a replay memory has no end to pass to: say how many batches")
        if not len(self.memory):
            raise ValueError("the replay memory is still empty: schedule it later")
        return (self._losses() for _ in range(count))

    def _losses(self) -> Tensor:
        drawn = self.memory.sample(self.settings.batch_size, self.learner.generator)
        sample = Sample(*(tensor.to(self.device) for tensor in drawn))
        with evaluating(self.network):
            return self._td_loss(sample.frames[:, :-1], sample.actions, self._targets(sample), reduction="none")[0]

    def check_room(self, runs: int) -> None:
        s, folder = self.settings, self.settings.replay_folder
        needed = bytes_needed(s.replay_size, s.num_envs, self.pixels.layout)
        check_room(needed, s.replay_size, Path(folder) if folder else None, runs)

    # -- interaction ---------------------------------------------------------------------------------------

    def begin_task(self, env: str) -> None:
        """Network and memory go on as they are: the stream's tasks share them."""

    def begin_episodes(self, observations: NDArray[np.uint8]) -> None:
        """Every environment was reset; `observations` (num_envs, stack, H, W) are the first of new episodes."""
        self.memory.begin(observations)
        self.current = observations

    @property
    def epsilon(self) -> float:
        """ε of the next action: 1 until learning starts, then falling linearly."""
        s = self.settings
        progress = (self.steps - s.learning_starts) / s.exploration_steps
        return 1.0 - (1.0 - s.exploration) * min(max(progress, 0.0), 1.0)

    def act(self) -> NDArray[np.int64]:
        """An action for each current observation, (num_envs,); each environment draws for itself."""
        self.actions = self.epsilon_greedy(self.current, self.epsilon, self.exploration)
        return self.actions

    @torch.no_grad()
    def epsilon_greedy(self, observations: np.ndarray, epsilon: float, draws: torch.Generator) -> NDArray[np.int64]:
        """Random actions with probability `epsilon`, else the best: (n, stack, H, W) → (n,)."""
        n = len(observations)
        actions = torch.randint(self.pixels.actions, (n,), generator=draws)
        greedy = torch.rand(n, generator=draws) >= epsilon
        if greedy.any():
            values = self.network(torch.from_numpy(observations).to(self.device, non_blocking=True))
            actions = torch.where(greedy, values.argmax(1).cpu(), actions)
        return actions.numpy()

    def remember(self, result: StepResult) -> None:
        """Store what the actions just drawn led to."""
        reward = np.sign(result.reward) if self.settings.clip_rewards else result.reward
        self.memory.add(self.actions, reward, result.terminated, result.truncated, result.final_obs, result.obs)
        self.current = result.obs
        self.steps += len(reward)

    def greedy(self, env: str) -> "Greedy":
        """The nearly greedy policy of evaluations."""
        return Greedy(self)

    # -- learning ------------------------------------------------------------------------------------------

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Take the gradient steps that the replay ratio asks for; always a place to stop at."""
        s = self.settings
        due = int(s.replay_ratio * max(0, self.steps - s.learning_starts) + 1e-9)  # 0.3 · 40 is 11.999…
        while self.taken < due:
            self._learn(min(due - self.taken, BATCHES_AT_ONCE), hooks)
        if self.steps // s.target_period > (self.steps - s.num_envs) // s.target_period:
            copy_module_(self.target, self.network)
        return True

    def _learn(self, count: int, hooks: HookDriver) -> None:
        """`count` gradient steps, on batches drawn at once: nothing enters the memory between them."""
        sample = self.feed(count * self.settings.batch_size, self.sampling)
        self.taken += count
        self.updates += count
        if self.captured and not (hooks.penalizes or hooks.follows_updates):
            self.captured(*sample, structure=len(self.learner.changes))
        else:
            self._learn_from(sample, hooks)

    def _learn_from(self, sample: Sample, hooks: HookDriver | None = None) -> None:
        """One gradient step on each batch in the sample, in order. No value is looked at from the CPU."""
        size = self.settings.batch_size
        targets = self._targets(sample)  # of all batches: the target network stays
        states = sample.frames[:, :-1]
        for batch in zip(*(tensor.split(size) for tensor in (states, sample.actions, targets)), strict=True):
            loss, value = self._td_loss(*batch)
            total = loss + hooks.penalty(self.learner) if hooks and hooks.penalizes else loss
            self.optimizer.zero_grad(set_to_none=True)
            total.backward()
            if hooks:
                hooks.before_update(self.learner)
            self.optimizer.step()
            self.sums += torch.stack([loss.detach(), value.detach()])
            if hooks:
                hooks.after_update(self.learner)

    @torch.no_grad()
    def _targets(self, sample: Sample) -> Tensor:
        """r + γ·(1 − terminated)·max Q⁻(s′), (n,).

        The target network is in evaluation mode: a random activation takes its mean slope, so that targets are not
        noisy and measuring the loss draws nothing that training would miss."""
        self.target.eval()
        values = self.target(sample.frames[:, 1:]).amax(1)
        return sample.rewards + self.settings.gamma * values * ~sample.terminated

    def _td_loss(
        self, states: Tensor, actions: Tensor, targets: Tensor, reduction: str = "mean"
    ) -> tuple[Tensor, Tensor]:
        """Mean Huber loss (threshold 1) of the temporal-difference error, and the mean of Q(s, a).
        With reduction "none" the loss of each transition, (n,)."""
        values = self.network(states).gather(1, actions[:, None]).squeeze(1)
        return F.smooth_l1_loss(values, targets, reduction=reduction), values.mean()

    def numbers(self) -> dict[str, float]:
        """Means since the last call, the exploration rate, and how full the memory is."""
        found = {"exploration/epsilon": self.epsilon, "replay/size": float(len(self.memory))}
        if self.updates:
            loss, value = (self.sums / self.updates).tolist()
            if not (isfinite(loss) and isfinite(value)):
                raise RunError("training diverged: the loss is not finite; try a smaller --learning-rate")
            found |= {"loss/td": loss, "q/mean": value, "updates": float(self.updates)}
        self.sums.zero_()
        self.updates = 0
        return found

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "learner": learner_state(self.learner),
            "memory": self.memory.state_dict(),
            "generators": {name: g.get_state() for name, g in self._generators().items()},
            "steps": self.steps,
            "taken": self.taken,
            "sums": self.sums,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_learner_state(self.learner, state["learner"])
        self.memory.load_state_dict(state["memory"])
        for name, random in self._generators().items():
            random.set_state(state["generators"][name])
        self.steps, self.taken, self.updates = state["steps"], state["taken"], state["updates"]
        self.sums.copy_(state["sums"])

    def _generators(self) -> dict[str, torch.Generator]:
        return {
            "exploration": self.exploration,
            "sampling": self.sampling,
            "draws": self._draws,
        }


class Greedy:
    """The ε-greedy policy of evaluations, with draws of its own; the network in evaluation mode while it is used."""

    def __init__(self, agent: DQN) -> None:
        self.agent, self.epsilon = agent, agent.settings.eval_epsilon
        self.draws = generator(agent.settings.seed, f"evaluation {agent.steps}")

    def __enter__(self) -> "Greedy":
        self.agent.network.eval()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.network.train()

    def __call__(self, observations: NDArray[np.uint8]) -> NDArray[np.int64]:
        """(n, stack, H, W) → (n,)."""
        return self.agent.epsilon_greedy(observations, self.epsilon, self.draws)
