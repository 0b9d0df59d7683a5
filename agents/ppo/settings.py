"""The settings of PPO."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from supple.agents.games import GameSettings
from supple.agents.limits import compile_problem, in_one_line
from supple.engine.settings import Device, Groups, device_here
from supple.registry.errors import UsageError
from supple.registry.schema import BelowOne, NotNegative, Positive, Share, Widths

if TYPE_CHECKING:
    from supple.envs import Picture

COMPILE_PAYS_AFTER = 250_000  # environment steps per environment: saves about 0.2 ms a step, costs about 30 s once


@dataclass(kw_only=True)
class PPOSettings(GameSettings):
    rollout_steps: Positive[int] = 256
    """Steps of each copy between updates. A batch has rollout_steps × num_envs transitions."""
    epochs: Positive[int] = 10
    """Passes over each batch per update."""
    minibatch_size: Positive[int] = 64
    """Transitions per gradient step."""
    learning_rate: Positive[float] = 3e-4
    """Adam's learning rate. The cycling-MuJoCo paper uses 1e-4 or 1e-5."""
    adam_epsilon: Positive[float] = 1e-5
    """Adam's ε."""
    adam_betas: tuple[BelowOne, BelowOne] = (0.9, 0.999)
    """Adam's β₁ and β₂. Dohare et al. 2024 keep plasticity better with 0.99 0.99."""
    weight_decay: NotNegative[float] = 0.0
    """Adam's weight decay, added to the gradient as an L2 penalty (torch.optim.Adam, not AdamW)."""
    gamma: Share = 0.99
    """Discount factor."""
    gae_lambda: Share = 0.95
    """λ of generalised advantage estimation (GAE)."""
    target_lambda: Share | None = None
    """λ of the value targets; 1: Monte Carlo returns (default: gae_lambda)."""
    clip_range: Positive[float] = 0.2
    """Clipping range of the probability ratio and, with clip_value, of the change in value."""
    clip_value: bool = False
    """Clip the change in value too, to the same range."""
    normalize_advantage: bool = True
    """Normalise advantages to mean 0 and standard deviation 1."""
    advantage_scope: Literal["minibatch", "batch"] = "minibatch"
    """Normalise advantages over each minibatch, or once over the whole batch."""
    value_coefficient: float = 0.5
    """Weight of the value loss, a mean squared error without the factor ½. CleanRL's 0.5 corresponds to 0.25 here."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: NotNegative[float] = 0.5
    """Clip the global gradient norm to this value; 0: no clipping."""
    hidden: Widths | None = None
    """Widths of the linear hidden layers (default: 64 64; after convolutions 512 for nature, 256 for impala, 128 for
    minatar)."""
    value_hidden: Widths | None = None
    """Widths of the value function's hidden layers, if share_value is off (default: hidden)."""
    normalization: Literal["none", "layer", "spectral"] = "none"
    """Normalisation of linear hidden layers: layer normalisation before activations, or spectral norm of weights."""
    initialization: Literal["orthogonal", "pytorch"] = "orthogonal"
    """Initial weights: orthogonal with CleanRL's gains (in IMPALA too, unlike CleanRL's), or PyTorch's default."""
    adapter: NotNegative[int] | None = None
    """Width of each environment's linear input adapter; 0: none (default: 256 in sequences of vectors, else 0)."""
    heads: Literal["environment", "one"] = "environment"
    """In a sequence of environments: adapter, heads and statistics for each environment, or one of each for all, whose
    spaces must be equal then."""
    activation: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Activation of the hidden layers, such as smooth_leaky(c=0.3) (default: tanh, or relu for images)."""
    init_lambda: float | None = None
    """Scale the initial weights so that ‖outgoing‖² − ‖incoming‖² = λ for every linear hidden unit (default: no
    scaling)."""
    share_value: bool | None = None
    """Share the hidden layers between policy and value function (default: False; for images True, unless value_hidden
    is given)."""
    normalize_observations: bool = True
    """Normalise observations, but not pixels, by running statistics, one set per environment."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return, per environment."""
    reward_scale: Positive[float] = 1.0
    """Multiply rewards by this factor for learning. Logged returns are not scaled."""
    restart_episodes: bool = False
    """Reset the environments after every rollout, as TRAC and C-CHAIN do. Episodes cut short are logged like others."""
    clip_actions: bool = True
    """Clip actions to the action space. If off, control costs are unbounded, as they use the action as given."""
    eval_friction: Positive[float] = 0.5
    """Factor by which all sliding frictions are multiplied in the held-out evaluation environment."""
    device: Device = "cpu"
    """Device of the network. Small networks are faster on a CPU; auto: a CUDA GPU if there is one."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the update: 2 to 6 times faster, after about 30 s per environment, once. auto: from 250,000 steps in
    each environment on."""

    groups: ClassVar[Groups] = {
        "environment": (
            "normalize_observations", "normalize_rewards", "reward_scale", "restart_episodes", "clip_actions",
        ),
        "network": (
            "hidden", "value_hidden", "normalization", "initialization", "adapter", "heads", "activation",
            "init_lambda", "share_value",
        ),
        "measuring": ("eval_friction",),
        "speed": ("device", "compile"),
    }  # fmt: skip
    stackable = True
    same_network: ClassVar[tuple[str, ...]] = (
        *GameSettings.same_network, "learning_rate", "gamma", "gae_lambda", "clip_range", "entropy_coefficient",
        "value_coefficient", "max_grad_norm",
    )  # fmt: skip

    def complete(self, picture: "Picture | None") -> "PPOSettings":
        """Return the settings with values for those whose defaults depend on the observations.

        picture: How the images lie that environments show, or None for vectors.
        Raises ValueError if the images are too small for the encoder, or there is no such encoder."""
        defaults: dict[str, Any] = {"hidden": (64, 64), "activation": "tanh", "share_value": False, "adapter": 0}
        if picture is not None and not self.own_network:
            from supple.agents.encoders import parse_encoder  # PyTorch, which help lines do without

            hidden = parse_encoder(self.encoder, picture).hidden
            defaults |= {"hidden": hidden, "activation": "relu", "share_value": self.value_hidden is None}
        elif self.sequence:  # environments may have observations of different sizes
            defaults["adapter"] = 256
        return replace(self, **{name: value for name, value in defaults.items() if getattr(self, name) is None})

    def worth_stacking(self) -> bool:
        return not self.on_cpu or self.find_picture() is None

    @property
    def untrained_steps(self) -> int:
        return self.rollout_steps * self.num_envs

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.minibatch_size > (batch := self.rollout_steps * self.num_envs) > 0:
            yield (
                f"--minibatch-size is {self.minibatch_size}, but a batch has only {batch} transitions "
                "(--rollout-steps × --num-envs)"
            )
        if self.value_hidden is not None and self.share_value:
            yield "--value-hidden needs separate hidden layers for the value function: add --share-value False"
        if self.restart_episodes and self.plays_games():
            yield "--restart-episodes True cannot interrupt the episodes of Atari games: leave it out"

    def resolve(self) -> str | None:
        note = super().resolve()
        try:
            completed = self.complete(self.find_picture())
        except ValueError as error:
            raise UsageError(str(error)) from error
        self.hidden, self.activation = completed.hidden, completed.activation
        self.share_value, self.adapter = completed.share_value, completed.adapter
        self.device = device_here(self.device)
        if self.compile == "auto":
            _, steps = self.stream()
            pays = steps * self.cycles >= COMPILE_PAYS_AFTER and not self.own_network
            self.compile = "on" if pays else "off"
        if self.compile == "on" and (problem := compile_problem()):
            self.compile = "off"
            return in_one_line(note, problem)
        return note
