"""Shrink & Perturb moves parameters toward their initial values and can add noise.

    θ ← (1 − λ)·θ + λ·θ₀ + noise·ε,   ε ~ N(0, 1)

θ₀ is the step-0 value (`toward="initial"`, as in the released code), a new draw (`"fresh"`) or zero (`"zero"`; with
`noise` this is the original of Ash & Adams, whose shrink factor is 1 − λ). λ = 0.8 in RL. It rewrites every parameter
in its scope, including biases and normalisation layers.

Source: Ash & Adams 2020 (arXiv 1910.08475), in the form that FIRE's experiments use (FIRE paper, Appendix D).

Resets: according to its reset contract.

Cost: one pass over the parameters.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from supple.networks import Learner, Scope, redraw
from supple.networks.members import Source, normal_like
from supple.networks.state_dicts import match_names

from .base import Reinitialization, check_within, interventions
from .contract import Preset

Toward = Literal["initial", "fresh", "zero"]


@torch.no_grad()
def shrink_perturb_(
    module: nn.Module,
    initial: Mapping[str, Tensor] | nn.Module,
    lam: float = 0.8,
    toward: Toward = "initial",
    noise: float = 0.0,
    *,
    names: Sequence[str] | None = None,
    generator: Source = None,
) -> list[str]:
    """Shrink & Perturb a module in place, and return the names of the parameters written.

    Args:
        module: Any module, with parameters of any shapes (…).
        initial: Parameters at step 0, by name, or a module that holds them. `toward="fresh"` draws new ones by the
            layers' own `reset_parameters`, and uses `initial` only for parameters that no layer redraws.
        lam: λ in [0, 1]; 0 changes nothing, 1 replaces the parameters.
        toward: `initial`, `fresh` (a new draw) or `zero`.
        noise: Standard deviation of the Gaussian noise added to every element, ≥ 0.
        names: Only these parameters are changed (default: all that are not frozen).
        generator: Generator of the noise. For a stack, one for each member gives each member its own noise.

    Raises:
        ValueError: Nothing was changed. A value is out of range, or `initial` lacks a parameter.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from supple.interventions import shrink_perturb_
        >>> net = nn.Linear(2, 1, bias=False)
        >>> nn.init.ones_(net.weight).tolist()
        [[1.0, 1.0]]
        >>> shrink_perturb_(net, {"weight": torch.zeros(1, 2)}, lam=0.75)
        ['weight']
        >>> net.weight.tolist()
        [[0.25, 0.25]]
    """
    _check_settings(lam, toward, noise)
    start = dict(initial.named_parameters()) if isinstance(initial, nn.Module) else dict(initial)
    parameters = dict(module.named_parameters())
    chosen = [name for name, p in parameters.items() if p.requires_grad] if names is None else list(names)
    if parameters and not chosen:
        raise ValueError("snp: every parameter is frozen: name those to rewrite (names=)")
    if unknown := [name for name in chosen if name not in parameters]:
        raise ValueError(f"snp: {type(module).__name__} has no parameter '{unknown[0]}'")
    if toward == "fresh":
        if not (generator is None or isinstance(generator, torch.Generator)):
            raise ValueError(
                "snp: toward=fresh cannot draw a stack; pass the new draw as initial=, with toward=initial"
            )
        start |= redraw(module, generator)
    elif toward == "zero":
        start = {name: torch.zeros_like(parameters[name]) for name in chosen}
    start = {name: start[theirs] for name, theirs in match_names(start, chosen).items()}
    for name in chosen:
        if name not in start or start[name].shape != parameters[name].shape:
            raise ValueError(f"snp: initial has no '{name}' of shape {tuple(parameters[name].shape)}")
    for name in chosen:
        parameter = parameters[name]
        parameter.lerp_(start[name].to(parameter), lam)
        if noise:
            parameter.add_(normal_like(parameter, generator), alpha=noise)
    return chosen


def _check_settings(lam: float, toward: str, noise: float) -> None:
    check_within("snp", lam=(lam, "[0, 1]"), noise=(noise, "[0, ∞)"))
    if toward not in ("initial", "fresh", "zero"):
        raise ValueError(f"snp: unknown toward='{toward}' (known: initial, fresh, zero)")


@interventions.register("snp")
class ShrinkPerturb(Reinitialization):
    """Shrink & Perturb: θ ← (1−λ)θ + λθ₀ (+ noise) for the parameters in the scope (Ash & Adams 2020).

    Args:
        lam, toward, noise: As in `shrink_perturb_`.
        scope: `all` means every parameter, also those that belong to no layer.
        contract: What else is reset, `uniform` or `as_released`.
    """

    def __init__(
        self,
        lam: float = 0.8,
        toward: Toward = "initial",
        noise: float = 0.0,
        scope: Scope = "all",
        contract: Preset = "uniform",
    ) -> None:
        super().__init__(scope, contract)
        _check_settings(lam, toward, noise)
        self.lam, self.noise = lam, noise
        self.toward: Toward = toward

    def attach(self, learner: Learner) -> None:
        super().attach(learner)
        names = self.names(learner, self.scope)
        if not names:
            raise ValueError(f"snp: all parameters in its scope of '{learner.name}' are frozen")
        if self.toward == "fresh":
            learner.check_drawn(names, "snp")

    def names(self, learner: Learner, scope: Scope) -> list[str]:
        """Return the names of the parameters that are rewritten."""
        # "all" means every parameter, also those that belong to no layer (a log-std, a LayerNorm).
        return learner.writable() if scope == "all" else learner.parameters_of(learner.select(scope))

    def rewrite(self, module: nn.Module, learner: Learner, start: Mapping[str, Tensor], scope: Scope) -> list[str]:
        names = self.names(learner, scope)
        # `start` is the fresh draw already, by the learner's own initialisation
        toward: Toward = "zero" if self.toward == "zero" else "initial"
        return shrink_perturb_(module, start, self.lam, toward, self.noise, names=names, generator=learner.source)
