"""Settings of PPO."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from ...experiments.errors import UsageError
from ...experiments.settings import Device, device_here, not_positive
from ..adam import wrong_adam_betas
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
    anneal: Annotated[Literal["off", "run", "task"], tyro.conf.arg(metavar="off|run|task")] = "off"
    """Lower the step size linearly, to 0 at the end of the run (CleanRL), or of each task, where it begins anew."""
    adam_epsilon: float = 1e-5
    """Adam's ε."""
    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Adam's β₁ and β₂. Dohare et al. 2024 keep plasticity better with 0.99 0.99."""
    weight_decay: float = 0.0
    """Adam's weight decay, added to the gradient (L2), as torch.optim.Adam does."""
    gamma: float = 0.99
    """Discount factor."""
    gae_lambda: float = 0.95
    """λ of the generalised advantage estimate."""
    target_lambda: Annotated[float | None, tyro.conf.arg(metavar="FLOAT")] = None
    """λ of the value function's targets; 1: Monte-Carlo returns (default: gae_lambda)."""
    clip: float = 0.2
    """Clipping range of the probability ratio, and of value changes where clip_value is on."""
    clip_value: bool = True
    """Clip the change of the value function too."""
    normalize_advantage: bool = True
    """Bring advantages to mean 0 and standard deviation 1."""
    advantage_scope: Literal["minibatch", "batch"] = "minibatch"
    """Where advantages are normalised: in each minibatch, or once in the whole batch."""
    value_coefficient: float = 0.5
    """Weight of the value loss, the mean squared error (SB3's 0.5; CleanRL's 0.5 has a further ½ in it: 0.25)."""
    entropy_coefficient: float = 0.0
    """Weight of the entropy bonus."""
    max_grad_norm: float = 0.5
    """Largest global gradient norm; 0: no bound."""
    hidden: tuple[int, ...] = (256, 256)
    """Widths of the body's layers."""
    value_hidden: Annotated[tuple[int, ...] | None, tyro.conf.arg(metavar="INT…")] = None
    """Widths of the value function's body where it has its own, that is with share_value off (default: hidden)."""
    normalization: Annotated[Literal["none", "layer", "spectral"], tyro.conf.arg(metavar="none|layer|spectral")] = (
        "none"
    )
    """Normalisation of the body's layers: layer normalisation before activations, or spectral norm of the weights."""
    initialization: Literal["orthogonal", "pytorch"] = "orthogonal"
    """Initial weights: orthogonal with gains as in CleanRL, or PyTorch's own for linear layers."""
    adapter: int = 256
    """Width of each environment's linear input adapter; 0: none."""
    one_head: bool = False
    """One adapter, head and set of statistics for all environments, which must have equal spaces."""
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
    reward_scale: float = 1.0
    """Factor on every reward before it is learned from; logged returns are the true ones."""
    restart_episodes: bool = False
    """Begin new episodes after every rollout. Those it breaks off count as episodes (TRAC, C-CHAIN)."""
    clip_actions: bool = True
    """Clip actions to the action space; off: control costs, computed from the action as given, have no bound."""
    eval_friction: float = 0.5
    """Factor on every sliding friction in the perturbed evaluation environment."""
    device: Annotated[Device, tyro.conf.arg(metavar="auto|cpu|cuda")] = "cpu"
    """Where the network learns: small ones are faster on a CPU; auto: on a CUDA GPU if there is one."""
    compile: Annotated[Literal["auto", "on", "off"], tyro.conf.arg(metavar="auto|on|off")] = "auto"
    """Compile the update: 2 to 6 times faster, about 30 s per environment once; auto: on longer runs."""

    def least(self, name: str) -> tuple[int, int]:
        """Return also that a task has a whole rollout to learn from."""
        least, multiple = super().least(name)
        return (self.untrained_steps, multiple) if name in ("steps", "steps_per_task") else (least, multiple)

    @property
    def untrained_steps(self) -> int:
        return self.rollout_steps * self.num_envs

    def longer(self, steps: int) -> AgentSettings:
        if self.anneal != "off":
            raise UsageError(
                f"--steps: the step size has come to 0 where the run was planned to end (--anneal {self.anneal})"
            )
        return super().longer(steps)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        for name in (
            "rollout_steps", "epochs", "minibatch_size", "learning_rate", "adam_epsilon", "clip", "reward_scale",
            "eval_friction",
        ):  # fmt: skip
            yield from not_positive(**{f"--{name.replace('_', '-')}": getattr(self, name)})
        if self.minibatch_size > (batch := self.rollout_steps * self.num_envs) > 0:
            yield f"--minibatch-size {self.minibatch_size} is more than the {batch} transitions of a batch"
        yield from not_positive(**{"--hidden": min(self.hidden, default=0)})
        if self.value_hidden is not None:
            yield from not_positive(**{"--value-hidden": min(self.value_hidden, default=0)})
            if self.share_value:
                yield "--value-hidden needs a value function with a body of its own: --share-value False"
        for name in ("gamma", "gae_lambda", "target_lambda"):
            if not 0.0 <= (getattr(self, name) or 0.0) <= 1.0:
                yield f"--{name.replace('_', '-')} must lie in [0, 1], got {getattr(self, name)}"
        for name in ("adapter", "weight_decay", "max_grad_norm"):
            if getattr(self, name) < 0:
                yield f"--{name.replace('_', '-')} must be 0 or more, got {getattr(self, name)}"
        yield from wrong_adam_betas(self.adam_betas)
        if self.anneal == "run" and self.fresh:
            yield (
                "--anneal run does not go with --fresh True, whose later agents would begin with a smaller step size: "
                "--anneal task"
            )

    def resolve(self) -> str | None:
        note = super().resolve()
        self.device = device_here(self.device)
        if self.compile == "auto":
            _, steps = self.stream()
            self.compile = "on" if steps * self.cycles >= COMPILE_PAYS_AFTER else "off"
        if self.compile == "on":
            from ...experiments.compile import can_compile  # PyTorch, which help lines do without

            if can_compile():
                return note
            self.compile = "off"
            return "torch.compile does not work here (is a C++ compiler installed?): updates run eagerly, and slower"
        return note
