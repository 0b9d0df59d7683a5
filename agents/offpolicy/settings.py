"""The settings of agents that learn from a replay memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, ClassVar, Literal

from supple.agents.image_settings import ImageSettings
from supple.agents.limits import compile_problem, drawn_by_member, in_one_line
from supple.engine.settings import Device, Groups, device_here
from supple.registry.schema import NotNegative, Positive, Share

if TYPE_CHECKING:
    from supple.networks.value_heads import ValueHead

Start = NotNegative[int] | Literal["auto"]


@dataclass(kw_only=True)
class ReplaySettings(ImageSettings):
    # Each agent gives those without a help line its own default and help line.
    replay_ratio: Positive[float]
    batch_size: Positive[int]
    replay_size: Positive[int] = 1_000_000
    """Capacity of the replay memory in decisions."""
    replay_folder: str | None = None
    """Keep the observations of the replay memory in a file in this folder instead of in RAM."""
    replay_sampling: str = "uniform"
    """Which transitions are learned: uniform, recency(horizon=80000,low=.1), or reservoir, a sample of all so far."""
    learning_starts: Start
    gamma: Share
    n_step: Positive[int] = 1
    """Rewards that a target sums before it bootstraps. Windows are shorter where an episode ends."""
    scale_rewards: NotNegative[float] = 0.0
    """Scale rewards by statistics of their discounted returns: to a standard deviation of 1, but within ± this bound
    (SimBaV2: 5). 0: rewards as they are."""
    critic_head: Literal["mse", "categorical", "hl_gauss", "quantile"] = "mse"
    """What is learned of the return: its mean, or its distribution, as C51 (categorical), HL-Gauss or QR-DQN do."""
    atoms: Positive[int] = 51
    """Outputs for each value: fixed returns (C51 51, SimBaV2 101), intervals, or quantiles (QR-DQN 200)."""
    value_range: tuple[float, float] | None = None
    """Least and largest return that categorical and hl_gauss represent (default: ± --scale-rewards). C51: -10 10."""
    priming_updates: NotNegative[int] = 0
    """Gradient steps made at once when learning begins (heavy priming, Nikishin et al. 2022). DQN's target stays."""
    device: Device = "auto"
    """Device of the networks; auto: a CUDA GPU if there is one."""
    compile: Literal["auto", "on", "off"]
    capture: bool = True
    """On a GPU, record the update as a CUDA graph and replay it, which is faster."""

    groups: ClassVar[Groups] = {
        "environment": ("scale_rewards",),
        "network": ("critic_head", "atoms", "value_range"),
        "speed": ("replay_folder", "device", "compile", "capture"),
    }
    stackable = True
    same_network: ClassVar[tuple[str, ...]] = (*ImageSettings.same_network, "learning_rate", "gamma", "learning_starts")

    @property
    def action_repeat(self) -> int:
        """The environment steps for which each action is repeated."""
        return 1

    @property
    def stride(self) -> int:
        return self.num_envs * self.action_repeat

    @property
    def untrained_steps(self) -> int:
        return self.first_decisions * self.action_repeat

    @property
    def first_decisions(self) -> int:
        """The decisions before learning begins. "auto" is 1 % of the agent's, but at least a batch."""
        if self.learning_starts == "auto":
            return max(self.batch_size, self.life // self.action_repeat // 100)
        return self.learning_starts

    def updates_after(self, decisions: int) -> int:
        """Return the gradient steps that belong to so many decisions, with the priming updates."""
        learning = decisions - self.first_decisions
        return 0 if learning < 0 else self.priming_updates + int(self.replay_ratio * learning + 1e-9)  # 0.3 · 40 < 12

    def value_head(self, huber: bool = False) -> "ValueHead":
        """Return the head of the critics. huber: With `mse`, use the Huber loss."""
        from supple.networks.value_heads import CategoricalHead, HLGaussHead, QuantileHead, ValueHead

        if self.critic_head == "mse":
            return ValueHead(huber=huber)
        if self.critic_head == "quantile":
            return QuantileHead(self.atoms)
        low, high = self.value_range or (-self.scale_rewards, self.scale_rewards)
        return (CategoricalHead if self.critic_head == "categorical" else HLGaussHead)(self.atoms, low=low, high=high)

    def problems(self) -> Iterator[str]:
        from .sampling import Reservoir, parse_sampling  # PyTorch, which help lines do without

        yield from super().problems()
        yield from self._head_problems()
        try:
            if isinstance(parse_sampling(self.replay_sampling), Reservoir) and self.n_step > 1:
                yield f"--n-step {self.n_step} needs the steps after a transition, which a reservoir does not have"
        except ValueError as error:
            yield f"--replay-sampling: {error}"
        if self.n_step > (rows := ceil(self.replay_size / max(1, self.num_envs))):
            yield (
                f"--n-step is {self.n_step}, but the replay memory has only {rows} steps of each copy of the "
                f"environment (--replay-size / --num-envs)"
            )
        decisions = self.life // max(1, self.action_repeat)
        if decisions and not self.updates_after(decisions):
            unit = "steps" if self.action_repeat == 1 else "decisions"
            yield (
                f"--learning-starts is {self.first_decisions}, but the agent has only {decisions} {unit}: with "
                f"--replay-ratio {self.replay_ratio:g} it would learn nothing"
            )
        if self.replay_size < self.batch_size:
            yield f"--replay-size is {self.replay_size}, but must be at least --batch-size ({self.batch_size})"

    def _head_problems(self) -> Iterator[str]:
        head, bounded = f"--critic-head {self.critic_head}", self.critic_head in ("categorical", "hl_gauss")
        if not bounded:
            yield from self.without_effect(("value_range",), head)
        elif not (self.value_range or self.scale_rewards):
            yield f"{head} needs a range: give --value-range LOW HIGH, or --scale-rewards, whose bound is one"
        elif self.value_range and self.value_range[0] >= self.value_range[1]:
            yield "--value-range must be two numbers, the smaller one first, got {} {}".format(*self.value_range)
        if self.critic_head == "mse":
            yield from self.without_effect(("atoms",), head)
        elif bounded and self.atoms == 1:
            yield f"--atoms must be 2 or more with {head}, got 1"

    def resolve(self) -> str | None:
        self.device, self.learning_starts = device_here(self.device), self.first_decisions
        note = super().resolve()
        if self.compile == "auto":
            self.compile = "on" if self.compile_pays() and not self.own_network else "off"
        if self.compile == "on" and (problem := self.compile_problem()):
            self.compile = "off"
            return in_one_line(note, problem)
        return note

    def compile_pays(self) -> bool:
        """Return whether the run has so many gradient steps that compiling them saves time."""
        return False

    def planned_updates(self) -> float:
        """Return the gradient steps of the whole run."""
        return self.plan_tasks()[-1].end / self.action_repeat * self.replay_ratio + self.priming_updates

    def compile_problem(self) -> str | None:
        """Return a line for the user if the update cannot be compiled, else None."""
        return compile_problem() or drawn_by_member(self)
