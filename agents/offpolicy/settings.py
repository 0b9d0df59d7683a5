"""The settings of agents that learn from a replay memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from supple.agents.image_settings import ImageSettings
from supple.agents.limits import compile_problem, drawn_by_member, in_one_line
from supple.engine.settings import Device, Groups, device_here
from supple.registry.schema import NotNegative, Positive

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
    priming_updates: NotNegative[int] = 0
    """Gradient steps made at once when learning begins (heavy priming, Nikishin et al. 2022). DQN's target stays."""
    device: Device = "auto"
    """Device of the networks; auto: a CUDA GPU if there is one."""
    compile: Literal["auto", "on", "off"]
    capture: bool = True
    """On a GPU, record the update as a CUDA graph and replay it, which is faster."""

    groups: ClassVar[Groups] = {"speed": ("replay_folder", "device", "compile", "capture")}
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

    def problems(self) -> Iterator[str]:
        from .sampling import parse_sampling  # PyTorch, which help lines do without

        yield from super().problems()
        try:
            parse_sampling(self.replay_sampling)
        except ValueError as error:
            yield f"--replay-sampling: {error}"
        decisions = self.life // max(1, self.action_repeat)
        if decisions and not self.updates_after(decisions):
            unit = "steps" if self.action_repeat == 1 else "decisions"
            yield (
                f"--learning-starts is {self.first_decisions}, but the agent has only {decisions} {unit}: with "
                f"--replay-ratio {self.replay_ratio:g} it would learn nothing"
            )
        if self.replay_size < self.batch_size:
            yield f"--replay-size is {self.replay_size}, but must be at least --batch-size ({self.batch_size})"

    def resolve(self) -> str | None:
        self.device, self.learning_starts = device_here(self.device), self.first_decisions
        note = super().resolve()
        if self.compile == "auto":
            self.compile = "on" if self.compile_pays() else "off"
        if self.compile == "on" and (problem := self.compile_problem()):
            self.compile = "off"
            return in_one_line(note, problem)
        return note

    def compile_pays(self) -> bool:
        """Return whether the run has so many gradient steps that compiling them saves time."""
        return False

    def planned_updates(self) -> float:
        """Return the gradient steps of the whole run."""
        _, steps = self.stream()
        return steps * self.cycles / self.action_repeat * self.replay_ratio + self.priming_updates

    def compile_problem(self) -> str | None:
        """Return a line for the user if the update cannot be compiled, else None."""
        return compile_problem() or drawn_by_member(self)
