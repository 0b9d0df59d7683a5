"""Settings of PPO."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from ...experiments.errors import UsageError
from ...experiments.settings import positive
from ..settings import AgentSettings

COMPILE_PAYS_AFTER = 250_000  # environment steps per environment: saves about 0.2 ms a step, costs about 30 s once


@dataclass(kw_only=True)
class PPOSettings(AgentSettings):
    rollout_steps: int = 256
    """Steps of each copy between updates; rollout_steps × num_envs transitions are one batch."""
    epochs: int = 10
    """Passes over each batch."""
    minibatch_size: int = 64
    """Transitions in one gradient step."""
    learning_rate: float = 3e-4
    """Adam's step size. The cycling-MuJoCo paper uses 1e-4 or 1e-5."""
    adam_epsilon: float = 1e-5
    """Adam's ε."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """λ of the generalised advantage estimate."""
    clip: float = 0.2
    """Clipping range of the probability ratio, and of value changes where clip_value is on."""
    clip_value: bool = True
    """Clip the change of the value function too."""
    normalize_advantage: bool = True
    """Bring the advantages of each minibatch to mean 0 and standard deviation 1."""
    value_coefficient: float = 0.5
    """Weight of the value loss."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: float = 0.5
    """Largest global gradient norm."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the body's layers."""
    adapter: int = 256
    """Width of each environment's linear input adapter; 0: none."""
    activation: str = "tanh"
    """Activation of the body by name, with parameters if wanted: rand_smooth_leaky(lower=0.3,upper=0.6)."""
    init_lambda: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """λ: hidden units begin with ‖outgoing weights‖² − ‖incoming‖² = λ (default: orthogonal, as drawn)."""
    share_value: bool = True
    """Policy and value function share the body; off: one each."""
    normalize_observations: bool = True
    """Normalise observations with running statistics, one set per environment."""
    normalize_rewards: bool = True
    """Divide rewards by the running standard deviation of the discounted return, per environment."""
    clip_actions: bool = True
    """Clip actions to the action space; off: control costs, computed from the action as given, have no bound."""
    eval_friction: float = 0.5
    """Factor on every sliding friction in the perturbed evaluation environment."""
    compile: Annotated[Literal["auto", "on", "off"], tyro.conf.arg(metavar="auto|on|off")] = "auto"
    """Compile the update: 2 to 6 times faster, about 30 s per environment once; auto: on longer runs."""

    def check(self) -> None:
        super().check()
        for name in (
            "rollout_steps", "epochs", "minibatch_size", "learning_rate", "adam_epsilon", "clip",
            "max_grad_norm", "eval_friction",
        ):  # fmt: skip
            positive(**{f"--{name.replace('_', '-')}": getattr(self, name)})
        positive(**{"--hidden": min(self.hidden, default=0)})
        for name in ("gamma", "gae_lambda"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UsageError(f"--{name.replace('_', '-')} must lie in [0, 1], got {getattr(self, name)}")
        if self.adapter < 0:
            raise UsageError(f"--adapter must be 0 or more, got {self.adapter}")

    def resolve(self) -> str | None:
        if self.compile == "auto":
            _, steps = self.stream()
            self.compile = "on" if steps * self.cycles >= COMPILE_PAYS_AFTER else "off"
        if self.compile == "on":
            from ...experiments.compile import can_compile  # PyTorch, which help lines do without

            if can_compile():
                return None
            self.compile = "off"
            return "torch.compile does not work here (is a C++ compiler installed?): updates run eagerly, and slower"
        return None
