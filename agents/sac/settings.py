"""The settings of SAC. The defaults are those of SimBa on HumanoidBench (FIRE paper, Table 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import tyro

from ...engine.settings import Device, Groups, device_here
from ..image_settings import ImageSettings
from ..limits import (
    compile_problem,
    drawn_by_member,
    in_one_line,
    negative,
    not_positive,
    outside_unit_interval,
    wrong_adam_betas,
    wrong_sampling,
)

COMPILE_PAYS_AFTER = 20_000  # gradient steps
HeadsSetting = Literal["one", "environment", "one-hot"]
WIDEST = 128  # networks that gain on a CPU from a stack: products of wider ones take nearly all the time


@dataclass(kw_only=True)
class SACSettings(ImageSettings):
    num_envs: int = 1
    """Number of parallel copies of the environment."""
    action_repeat: int = 2
    """Environment steps for which each action is repeated. Together they are one decision."""
    replay_ratio: float = 2.0
    """Gradient steps per decision."""
    batch_size: int = 256
    """Transitions per gradient step."""
    replay_size: int = 1_000_000
    """Capacity of the replay memory in decisions."""
    replay_folder: str | None = None
    """Keep the observations of the replay memory in a file in this folder instead of in RAM."""
    replay_sampling: str = "uniform"
    """Which transitions are learned: uniform, recency(horizon=80000,low=.1), or reservoir, a sample of all so far."""
    learning_starts: int = 5_000
    """Decisions with random actions before learning begins."""
    priming_updates: int = 0
    """Gradient steps made at once when learning begins (heavy priming, Nikishin et al. 2022)."""
    network: Annotated[Literal["simba", "mlp"], tyro.conf.arg(metavar="simba|mlp")] = "simba"
    """SimBa's residual networks, or plain MLPs with the widths of --hidden."""
    actor_width: int = 128
    """Width of the SimBa actor."""
    actor_blocks: int = 1
    """Residual blocks of the SimBa actor."""
    critic_width: int = 512
    """Width of each SimBa critic."""
    critic_blocks: int = 2
    """Residual blocks of each SimBa critic."""
    hidden: tuple[int, ...] = (256, 256)
    """With --network mlp: widths of the hidden layers of actor and critics."""
    normalization: Annotated[Literal["none", "layer", "spectral"], tyro.conf.arg(metavar="none|layer|spectral")] = (
        "none"
    )
    """With --network mlp: layer or spectral normalisation of the hidden layers, before their activation."""
    log_std: Annotated[Literal["squashed", "clipped"], tyro.conf.arg(metavar="squashed|clipped")] = "squashed"
    """The policy's log-standard deviation: squashed into [-10, 2] by a tanh (SimBa), or clipped to [-20, 2] (SB3)."""
    heads: Annotated[HeadsSetting, tyro.conf.arg(metavar="one|environment|one-hot")] = "one"
    """In a sequence of environments: one head for all, with statistics of all; heads and statistics for each
    environment; or one head, of networks that read the environment as a one-hot vector, with statistics for each."""
    critics: int = 2
    """Number of critics. The smallest of their values is used (clipped double Q-learning)."""
    activation: str = "relu"
    """Activation of the networks, with optional parameters: leaky_relu(negative_slope=0.1)."""
    normalize_observations: bool = True
    """Normalise observations by running statistics."""
    learning_rate: float = 1e-4
    """AdamW's learning rate for actor, critics and temperature."""
    weight_decay: float = 0.01
    """AdamW's weight decay of all parameters of actor and critics. The temperature has none."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's β₁ and β₂ for actor, critics and temperature."""
    adam_epsilon: float = 1e-8
    """AdamW's ε."""
    gamma: float = 0.99
    """Discount factor per decision."""
    tau: float = 0.005
    """Rate at which the target critics move towards the critics at each gradient step."""
    temperature: float = 0.01
    """Initial temperature (the weight of the entropy), which is then learned."""
    target_entropy: float = -0.5
    """Target entropy per dimension of the action, in nats. Haarnoja et al. use −1."""
    device: Annotated[Device, tyro.conf.arg(metavar="auto|cpu|cuda")] = "auto"
    """Device of the networks; auto: a CUDA GPU if there is one."""
    compile: Annotated[Literal["auto", "on", "off"], tyro.conf.arg(metavar="auto|on|off")] = "auto"
    """Compile the update: faster, after about a minute, once. auto: from 20,000 gradient steps on."""
    capture: bool = True
    """On a GPU, record the update as a CUDA graph and replay it, which is faster."""

    groups: ClassVar[Groups] = {
        "environment": ("action_repeat", "normalize_observations"),
        "network": (
            "network", "actor_width", "actor_blocks", "critic_width", "critic_blocks", "hidden", "normalization",
            "log_std", "heads", "critics", "activation",
        ),
        "speed": ("replay_folder", "device", "compile", "capture"),
    }  # fmt: skip
    stackable = True
    same_network: ClassVar[tuple[str, ...]] = (
        *ImageSettings.same_network, "learning_rate", "gamma", "tau", "target_entropy",
    )  # fmt: skip
    shrinks: ClassVar[tuple[str, ...]] = (*ImageSettings.shrinks, "learning_starts", "priming_updates", "replay_size")

    def least(self, name: str) -> tuple[int, int]:
        return (self.batch_size, 1) if name == "replay_size" else super().least(name)

    @property
    def stride(self) -> int:
        return self.num_envs * self.action_repeat

    @property
    def untrained_steps(self) -> int:
        return self.learning_starts * self.action_repeat

    def readers(self) -> tuple[int | None, ...]:
        actor, critic = (self.actor_width, self.critic_width) if self.network == "simba" else 2 * self.hidden[:1]
        return actor, *[critic] * self.critics

    def worth_stacking(self) -> bool:
        widths = (self.actor_width, self.critic_width) if self.network == "simba" else self.hidden
        if self.device == "cuda" or device_here(self.device) == "cuda":
            return True
        return max(widths) <= WIDEST and not self.show_images()

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        yield from not_positive(
            self, "action_repeat", "replay_ratio", "batch_size", "replay_size", "actor_width", "actor_blocks",
            "critic_width", "critic_blocks", "critics", "learning_rate", "adam_epsilon", "temperature", "hidden",
        )  # fmt: skip
        yield from wrong_adam_betas(self.adam_betas)
        yield from wrong_sampling(self.replay_sampling)
        if self.normalization != "none" and self.network != "mlp":
            reason = "SimBa has its own layer normalisation"
            yield f"--normalization {self.normalization} needs --network mlp: {reason}"
        yield from outside_unit_interval(self, "gamma", "tau")
        yield from negative(self, "weight_decay", "learning_starts", "priming_updates")
        decisions = None if self.life is None or self.action_repeat < 1 else self.life // self.action_repeat
        if decisions is not None and self.learning_starts >= decisions:
            yield f"--learning-starts is {self.learning_starts}, but the agent has only {decisions} decisions: lower it"
        if self.replay_size < self.batch_size:
            yield f"--replay-size is {self.replay_size}, but must be at least --batch-size ({self.batch_size})"

    def resolve(self) -> str | None:
        note = super().resolve()
        self.device = device_here(self.device)
        if self.compile == "auto":
            _, steps = self.stream()
            updates = steps * self.cycles / self.action_repeat * self.replay_ratio + self.priming_updates
            self.compile = "on" if updates >= COMPILE_PAYS_AFTER else "off"
        if self.compile == "on" and (problem := compile_problem() or drawn_by_member(self)):
            self.compile = "off"
            return in_one_line(note, problem)
        return note
