"""Settings of DQN; the defaults are those of the FIRE paper on Atari (Table 4, Appendix E.3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import tyro

from ...experiments.settings import Device, device_here, not_positive
from ..adam import wrong_adam_betas
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
    """Environment steps before learning begins."""
    priming_updates: int = 0
    """Gradient steps taken at once when learning begins (heavy priming, Nikishin et al. 2022); the target stays."""
    target_period: int = 2_000
    """Environment steps between two copies of the network to the target network."""
    learning_rate: float = 6.25e-5
    """Adam's step size."""
    adam_epsilon: float = 1.5e-4
    """Adam's ε."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Adam's β₁ and β₂."""
    weight_decay: float = 0.0
    """Adam's L2 penalty: this times each parameter joins its gradient."""
    max_grad_norm: float = 0.0
    """Largest global gradient norm; 0: gradients are not clipped."""
    loss: Annotated[Literal["huber", "mse"], tyro.conf.arg(metavar="huber|mse")] = "huber"
    """Loss of the temporal-difference error: Huber's (threshold 1), or its square."""
    double_q: bool = False
    """The online network chooses the action at s′ whose value the target network gives (double DQN)."""
    gamma: float = 0.99
    """Discount factor."""
    clip_rewards: bool = True
    """Learn from the sign of each reward; logged returns are the true ones in any case."""
    exploration_start: float = 1.0
    """ε until learning starts: 1, random actions; 0, greedy ones from the first."""
    exploration: float = 0.01
    """Final ε of ε-greedy exploration."""
    exploration_steps: int = 250_000
    """Environment steps, after learning starts, over which ε falls to its final value."""
    eval_epsilon: float = 0.001
    """ε in evaluations."""
    hidden: int = 512
    """Width of the linear layer after the Nature CNN's convolutions, for images."""
    widths: tuple[int, ...] = (256, 256)
    """Widths of the hidden layers, for vectors."""
    activation: str = "relu"
    """Activation of the network by name, with parameters if wanted: leaky_relu(slope=0.1)."""
    normalization: Annotated[Literal["none", "layer", "spectral"], tyro.conf.arg(metavar="none|layer|spectral")] = (
        "none"
    )
    """Layer or spectral normalisation of hidden linear layers, before their activation."""
    initialization: Annotated[Literal["xavier", "pytorch"], tyro.conf.arg(metavar="xavier|pytorch")] = "xavier"
    """Initial values: Xavier-uniform weights and biases of 0, or PyTorch's own for both."""
    softmax_values: bool = False
    """For vectors: action values are a softmax over the actions, as in the code of Switching FrozenLake."""
    device: Annotated[Device, tyro.conf.arg(metavar="auto|cpu|cuda")] = "auto"
    """Where the network learns; auto: on a CUDA GPU if there is one."""
    capture: bool = True
    """On a GPU, record the update once and replay it (a CUDA graph)."""

    shrinks: ClassVar[tuple[str, ...]] = (
        *AgentSettings.shrinks, "learning_starts", "exploration_steps", "target_period", "priming_updates",
        "replay_size",
    )  # fmt: skip

    def least(self, name: str) -> tuple[int, int]:
        return (self.batch_size, 1) if name == "replay_size" else super().least(name)

    @property
    def untrained_steps(self) -> int:
        return self.learning_starts

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for name in (
            "max_frames", "replay_ratio", "batch_size", "replay_size", "target_period", "learning_rate",
            "adam_epsilon", "exploration_steps", "hidden",
        ):  # fmt: skip
            yield from not_positive(**{f"--{name.replace('_', '-')}": getattr(self, name)})
        yield from not_positive(**{"--widths": min(self.widths, default=0)})
        for name in ("sticky", "gamma", "exploration_start", "exploration", "eval_epsilon"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                yield f"--{name.replace('_', '-')} must lie in [0, 1], got {getattr(self, name)}"
        yield from wrong_adam_betas(self.adam_betas)
        for name in ("learning_starts", "priming_updates", "weight_decay", "max_grad_norm"):
            if getattr(self, name) < 0:
                yield f"--{name.replace('_', '-')} must be 0 or more, got {getattr(self, name)}"
        if self.env_workers and self.sticky_per == "step":
            yield ("--sticky-per step draws for all games together: it needs them in one process, --env-workers 0")
        if self.life is not None and self.learning_starts >= self.life:
            yield (f"--learning-starts {self.learning_starts} leaves none of the {self.life} steps to learn in")
        if self.replay_size < self.batch_size:
            yield f"--replay-size {self.replay_size} holds less than one batch of {self.batch_size}"

    def resolve(self) -> str | None:
        self.device = device_here(self.device)
        return super().resolve()
