"""The settings of SAC. The defaults are those of SimBa on HumanoidBench (FIRE paper, Table 5)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from supple.agents.offpolicy.settings import ReplaySettings, Start
from supple.agents.settings import Copies
from supple.engine.settings import Groups
from supple.registry.schema import BelowOne, NotNegative, Positive, Share, Widths

HeadsSetting = Literal["one", "environment", "one-hot"]
UNIT_ROWS = ("simba_v2", "flash")  # networks whose weights are projected after each optimizer step
BLOCKS = ("actor_width", "actor_blocks", "critic_width", "critic_blocks")  # which plain MLPs do not have
WIDEST = 128  # networks that gain on a CPU from a stack: products of wider ones take nearly all the time


@dataclass(kw_only=True)
class SACSettings(ReplaySettings):
    num_envs: Copies = 1
    """Number of parallel copies of the environment."""
    action_repeat: Positive[int] = 2
    """Environment steps for which each action is repeated. Together they are one decision."""
    replay_ratio: Positive[float] = 2.0
    """Gradient steps per decision."""
    batch_size: Positive[int] = 256
    """Transitions per gradient step."""
    learning_starts: Start = 5_000
    """Decisions with random actions before learning begins. auto: 1 % of the run, but at least a batch."""
    network: Literal["mlp", "simba", "simba_v2", "flash", "crossq"] = "simba"
    """Networks of SimBa, SimBaV2, FlashSAC or CrossQ, or plain MLPs with the widths of --hidden. See the presets."""
    actor_width: Positive[int] = 128
    """Width of the actor, unless --network mlp."""
    actor_blocks: Positive[int] = 1
    """Residual blocks of the actor; layers with --network crossq."""
    critic_width: Positive[int] = 512
    """Width of each critic, unless --network mlp."""
    critic_blocks: Positive[int] = 2
    """Residual blocks of each critic; layers with --network crossq."""
    hidden: Widths = (256, 256)
    """With --network mlp: widths of the hidden layers of actor and critics."""
    normalization: Literal["none", "layer", "spectral"] = "none"
    """With --network mlp: layer or spectral normalisation of the hidden layers, before their activation."""
    log_std: Literal["squashed", "clipped"] = "squashed"
    """The policy's log-standard deviation: squashed into [-10, 2] by a tanh (SimBa), or clipped to [-20, 2] (SB3)."""
    heads: HeadsSetting = "one"
    """In a sequence of environments: one head for all, with statistics of all; heads and statistics for each
    environment; or one head, of networks that read the environment as a one-hot vector, with statistics for each."""
    critics: Positive[int] = 2
    """Number of critics. The smallest of their values is used (clipped double Q-learning)."""
    activation: str = "relu"
    """Activation of the networks, with optional parameters: leaky_relu(negative_slope=0.1)."""
    normalize_observations: bool = True
    """Normalise observations by running statistics."""
    learning_rate: Positive[float] = 1e-4
    """AdamW's learning rate for actor, critics and temperature."""
    weight_decay: NotNegative[float] = 0.01
    """AdamW's weight decay of all parameters of actor and critics. The temperature has none."""
    adam_betas: tuple[BelowOne, BelowOne] = (0.9, 0.999)
    """AdamW's β₁ and β₂ for actor, critics and temperature."""
    adam_epsilon: Positive[float] = 1e-8
    """AdamW's ε."""
    gamma: Share = 0.99
    """Discount factor per decision."""
    tau: Share = 0.005
    """Rate at which the target critics move towards the critics at each gradient step."""
    policy_delay: Positive[int] = 1
    """Gradient steps of the critics for one of actor and temperature."""
    temperature: Positive[float] = 0.01
    """Initial temperature (the weight of the entropy), which is then learned."""
    target_entropy: float = -0.5
    """Target entropy per dimension of the action, in nats. Haarnoja et al. use −1."""
    noise_repeat: Positive[int] = 1
    """Most decisions for which exploration keeps its noise. Their number has probabilities ∝ 1/k² (FlashSAC: 16)."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the update: faster, after about a minute, once. auto: from 20,000 gradient steps on."""

    groups: ClassVar[Groups] = {
        "environment": ("action_repeat", "normalize_observations"),
        "network": (
            "network", *BLOCKS, "hidden", "normalization", "log_std", "heads", "critics", "activation",
        ),
    }  # fmt: skip
    same_network: ClassVar[tuple[str, ...]] = (*ReplaySettings.same_network, "tau", "target_entropy")

    def compile_pays(self) -> bool:
        return self.planned_updates() >= 20_000

    def worth_stacking(self) -> bool:
        widths = self.hidden if self.network == "mlp" else (self.actor_width, self.critic_width)
        return not self.on_cpu or (max(widths) <= WIDEST and not self.find_picture())

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.network == "mlp":
            yield from self.without_effect(BLOCKS, "--network mlp, whose widths are --hidden")
        else:
            own = f"--network {self.network}, which has --actor-width and --critic-width, and its own normalisation"
            yield from self.without_effect(("hidden", "normalization"), own)
        if self.network == "crossq":
            yield from self.without_effect(("tau",), "--network crossq, which has no target network")
        if self.network in UNIT_ROWS and self.weight_decay:
            yield (
                f"--weight-decay is {self.weight_decay:g}, but weights of --network {self.network} keep their length: "
                f"give --weight-decay 0"
            )
