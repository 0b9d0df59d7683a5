"""The settings of DQN. The defaults are those of the FIRE paper for Atari (Table 4, Appendix E.3)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

from supple.agents.games import GameSettings
from supple.agents.limits import in_one_line
from supple.agents.offpolicy.settings import ReplaySettings, Start
from supple.agents.settings import Copies
from supple.engine.settings import Groups, Interval
from supple.registry.schema import BelowOne, NotNegative, Positive, Share, Widths

RMSPROP = ("rmsprop_decay", "rmsprop_epsilon", "rmsprop_momentum")
MUCH = 0.5  # ε with which most actions are random
USUAL = (256, 256)  # widths of the hidden layers for vectors
LARGEST = 2**19  # weights between hidden layers from which on a stack saves little on a CPU


@dataclass(kw_only=True)
class DQNSettings(ReplaySettings, GameSettings):
    num_envs: Copies = 4
    """Number of parallel copies of the environment."""
    eval_every: NotNegative[int] = 250_000
    """Environment steps between evaluations; 0: only at the end of each task."""
    replay_ratio: Positive[float] = 1.0
    """Gradient steps per environment step. The DQN paper uses 0.25, the FIRE paper 1."""
    batch_size: Positive[int] = 32
    """Transitions per gradient step."""
    replay_size: Positive[int] = 1_000_000
    """Capacity of the replay memory in transitions. Each takes 7.1 kB with 84 × 84 frames of a game."""
    learning_starts: Start = "auto"
    """Environment steps before learning begins. auto: 1 % of the run, all tasks together, but at least a batch; for
    Atari games 20,000."""
    target_period: Positive[int] = 2_000
    """Environment steps between updates of the target network."""
    optimizer: Literal["adam", "rmsprop"] = "adam"
    """Adam, or centred RMSprop as in MinAtar's DQN (ε outside the root)."""
    learning_rate: Positive[float] = 6.25e-5
    """Learning rate of the optimizer."""
    adam_epsilon: Positive[float] = 1.5e-4
    """Adam's ε."""
    adam_betas: tuple[BelowOne, BelowOne] = (0.9, 0.999)
    """Adam's β₁ and β₂."""
    rmsprop_decay: BelowOne = 0.95
    """RMSprop's decay of the averages of gradients and of their squares."""
    rmsprop_epsilon: Positive[float] = 0.01
    """RMSprop's ε."""
    rmsprop_momentum: BelowOne = 0.95
    """RMSprop's momentum. Mnih et al. (2015) have none: their "gradient momentum" is --rmsprop-decay here."""
    weight_decay: NotNegative[float] = 0.0
    """Weight decay, added to the gradient as an L2 penalty (torch.optim.Adam, not AdamW)."""
    max_grad_norm: NotNegative[float] = 0.0
    """Clip the global gradient norm to this value; 0: no clipping."""
    loss: Literal["huber", "mse"] = "huber"
    """Loss of the temporal-difference error with --critic-head mse: Huber loss with threshold 1, or squared error."""
    double_q: bool = False
    """Double DQN: choose the action at s′ by the online network, and evaluate it by the target network."""
    gamma: Share = 0.99
    """Discount factor."""
    clip_rewards: bool = True
    """Learn from the sign of each reward. Logged returns are not clipped."""
    exploration_start: Share = 1.0
    """ε of ε-greedy exploration until learning starts: 1 for random actions, 0 for greedy ones."""
    exploration: Share = 0.01
    """Final ε of ε-greedy exploration."""
    exploration_steps: Interval = "auto"
    """Environment steps after the start of learning over which ε falls linearly to its final value. auto: 10 % of the
    run, all tasks together; for Atari games 250,000."""
    eval_epsilon: Share = 0.001
    """ε in evaluations."""
    hidden: Widths | None = None
    """Widths of the linear hidden layers (default: 256 256; after convolutions 512 for nature, 256 for impala, 128 for
    minatar)."""
    activation: str = "relu"
    """Activation of the network, with optional parameters: leaky_relu(negative_slope=0.1)."""
    normalization: Literal["none", "layer", "spectral"] = "none"
    """Layer or spectral normalisation of the hidden linear layers, before their activation."""
    initialization: Literal["xavier", "pytorch"] = "xavier"
    """Initial parameters: Xavier-uniform weights and zero biases, or PyTorch's default for both."""
    softmax_values: bool = False
    """Apply a softmax over the actions to the action values, as the code of Switching FrozenLake does."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Precision of the products of updates. bfloat16 is faster on processors with AMX; weights stay float32."""
    compile: Literal["auto", "on", "off"] = "auto"
    """On a CPU, compile the update: a third more steps on MinAtar, after about 30 s, once. auto: from 86,000 gradient
    steps on, for vectors 190,000 over all seeds of a stack, but not for Atari games."""

    groups: ClassVar[Groups] = {
        "environment": ("clip_rewards",),
        "network": ("hidden", "activation", "normalization", "initialization", "softmax_values"),
        "measuring": ("eval_epsilon",),
        "speed": ("precision",),
    }
    same_network: ClassVar[tuple[str, ...]] = (
        *ReplaySettings.same_network, "exploration", "exploration_start", "exploration_steps", "eval_epsilon",
    )  # fmt: skip

    @property
    def first_decisions(self) -> int:
        return 20_000 if self.learning_starts == "auto" and self.plays_games() else super().first_decisions

    @property
    def exploring_steps(self) -> int:
        """The steps over which ε falls. "auto" is a tenth of the agent's, or 250,000 for games."""
        if self.exploration_steps == "auto":
            return 250_000 if self.plays_games() else max(1, self.life // 10)
        return self.exploration_steps

    def epsilon_after(self, steps: int) -> float:
        """Return ε after so many steps of the agent: constant until learning starts, then falling linearly."""
        progress = (steps - self.first_decisions) / self.exploring_steps
        return self.exploration_start - (self.exploration_start - self.exploration) * min(max(progress, 0.0), 1.0)

    def unstackable(self) -> str:
        in_vain = "on a CPU, the networks of Atari games are no faster in a stack"
        return super().unstackable() or (in_vain if self.on_cpu and self.plays_games() else "")

    def worth_stacking(self) -> bool:
        """Return whether a stack saves time: of large networks and of convolutions on a CPU, arithmetic is all."""
        weights = sum(a * b for a, b in pairwise(self.hidden or USUAL))
        return not self.on_cpu or (weights <= LARGEST and self.find_picture() is None)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        of_other = ("adam_betas", "adam_epsilon") if self.optimizer == "rmsprop" else RMSPROP
        yield from self.without_effect(of_other, f"--optimizer {self.optimizer}")
        if self.critic_head != "mse" and (self.softmax_values or self.loss != "huber"):
            single = "--softmax-values True" if self.softmax_values else f"--loss {self.loss}"
            yield f"{single} needs single values, --critic-head mse, got --critic-head {self.critic_head}"

    def resolve(self) -> str | None:
        note, self.exploration_steps = super().resolve(), self.exploring_steps
        if (left := self.epsilon_after(self.life)) > MUCH:
            note = in_one_line(
                note, f"the agent still explores at its end, with ε = {left:.2f}: see --exploration-steps"
            )
        return note

    def compile_pays(self) -> bool:
        if self.device == "cuda" or self.plays_games():
            return False
        # 30 s the first time, and seconds later, for 0.35 ms a step of MinAtar's images or 0.16 of a member's vectors
        return self.planned_updates() >= (86_000 if self.find_picture() else 190_000 / len(self.members))

    def compile_problem(self) -> str | None:
        if self.device == "cuda":
            return "--compile on is for CPUs: on a GPU, updates are recorded instead (--capture)"
        return super().compile_problem()
