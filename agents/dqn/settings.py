"""Settings of DQN; the defaults are those of the FIRE paper (Table 4, Appendix E.3)."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from ...experiments.errors import UsageError
from ...experiments.settings import Device, device_here, positive
from ..settings import AgentSettings


@dataclass(kw_only=True)
class DQNSettings(AgentSettings):
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

    @property
    def untrained_steps(self) -> int:
        return self.learning_starts

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
