"""TRAC scales the total movement of the parameters by how much it has helped, without a hyperparameter to tune.

    h ← ⟨g, δ⟩,   δ ← δ + Δ                              δ: the sum of the base optimizer's steps Δ
    v_j ← β_j²·v_j + h²,   σ_j ← β_j·σ_j − h              for β_j = .9, .99, …, .999999
    S = max(0, Σ_j ε·erfi(σ_j / (√2·√v_j + ε)) / erfi(1/√2))
    θ ← θ_ref + S·δ

θ_ref are the parameters when the hook began. Training moves away from them only as far as the movement has helped, and
returns if it has not. The base optimizer is the learner's own, including momentum and weight decay.

Source: Muppidi et al. 2024, "Fast TRAC: A Parameter-Free Optimizer for Lifelong Reinforcement Learning",
arXiv:2405.16642, Algorithms 1 and 2.

Resets: nothing. Do not combine it with hooks that rewrite weights: they move θ but not δ, so the next update undoes
their change.

Cost: θ_ref and δ for every parameter, and four passes over these, θ and the gradient per update.

Released code: the printed δ is the sum of all steps. ComputationalRobotics/TRAC, trac_optimizer/trac.py, keeps no such
sum but uses (θ − θ_ref)/(S + ε), which shrinks it by S/(S + ε) at every step, and loses it if S is 0
(`variant=as_released`). Both begin with σ_j = 1e-8. Its erfi is an approximation: 1.1 % too small for small arguments,
0.7 % at 1/√2, and up to 0.2 % too large above 1.3. S therefore differs by up to 1 % after one update from the same
state, by up to 4 % along a short run, and by more where the run is sensitive to it. Neither variant follows this: erfi
is exact here. With an exact erfi in the authors' code, S agrees to about 7e-8, the rounding of its 32 bits.
"""

from collections.abc import Collection
from functools import cache

import torch
from torch import Tensor

from supple.networks import Learner
from supple.networks.stacked import fit

from .base import Intervention, Variant, check_within, interventions

BETAS = (0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)
SIGMA = 1e-8  # σ at the beginning
TERMS = 200  # of erfi's series: enough for |x| ≤ LARGEST in double precision
LARGEST = 8.0  # erfi(8) = 4e26: S is then 1e18, far beyond any step that could be of use


def erfi(x: Tensor) -> Tensor:
    """Return the imaginary error function −i·erf(ix) of real numbers of any shape, in double precision.

    All terms of its series 2/√π·Σ x^(2n+1)/(n!·(2n+1)) have the sign of x, so nothing cancels. Numbers are clipped to
    ±8.
    """
    x = x.double().clamp(-LARGEST, LARGEST)
    powers, divisors = _series(x.device)
    logarithms = powers * x.abs().log().unsqueeze(-1) - divisors
    return torch.copysign(2 / torch.pi**0.5 * logarithms.exp().sum(-1), x)


@cache
def _series(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return 2n + 1 and log(n!·(2n + 1)) of the terms of erfi's series, (TERMS,)."""
    n = torch.arange(TERMS, dtype=torch.float64, device=device)
    return 2 * n + 1, torch.lgamma(n + 1) + torch.log(2 * n + 1)


@cache
def _betas(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the β_j and their squares, (6,)."""
    betas = torch.tensor(BETAS, dtype=torch.float64, device=device)
    return betas, betas.square()


ERFI_OF_ONE = float(erfi(torch.tensor(0.5**0.5)))  # erfi(1/√2)


@interventions.register("trac")
class TRAC(Intervention):
    """Scale the movement away from the initial parameters by how much it has helped so far (Muppidi et al. 2024).

    The network's parameters are one vector, in a stack one for each member.

    Args:
        epsilon: ε > 0, the initial scale (1e-8).
        variant: Whether δ is the sum of all steps (`paper`) or computed from θ (`as_released`).
    """

    def __init__(self, epsilon: float = 1e-8, variant: Variant = "paper") -> None:
        check_within("trac", epsilon=(epsilon, "(0, 1)"))
        self.epsilon, self.variant = epsilon, variant
        # v, σ: (networks, 6), S: (networks,), by learner; θ_ref and δ by learner and identity of parameter
        self.saved = {"scales": {}, "reference": {}, "sum": {}}
        self._before: dict[str, tuple[dict[str, Tensor], Tensor]] = {}  # what moves, and by which S, until it has moved

    def attach(self, learner: Learner) -> None:
        learner.require_optimizer("trac")

    @torch.no_grad()
    def before_update(self, learner: Learner) -> None:
        reference, sums = (self.saved[part].setdefault(learner.name, {}) for part in ("reference", "sum"))
        moving: dict[str, Tensor] = {
            learner.identity(n): p for n, p in learner.module.named_parameters() if p.grad is not None
        }
        for key, parameter in moving.items():
            if key not in reference:
                reference[key], sums[key] = parameter.clone(), torch.zeros_like(parameter)
        scales = self._find_scales(learner)
        if self.variant == "as_released":
            shrunk = _spread(learner, scales["scale"] + self.epsilon, moving.values())
            for (key, parameter), divisor in zip(moving.items(), shrunk, strict=True):
                torch.div(parameter - reference[key], divisor, out=sums[key])
        products, own = [], int(learner.members > 0)
        for key, parameter in moving.items():
            assert parameter.grad is not None
            total = sums[key]
            products.append(torch.linalg.vecdot(total.flatten(own), parameter.grad.flatten(own)))
            total.sub_(parameter)  # and + θ after the step is δ + Δ, without a copy of θ
        # h, (networks, 1), from its parts, (parameters, networks), or (parameters,) for one network
        h = torch.stack(products).sum(0, dtype=torch.float64).unsqueeze(-1)
        betas, squares = _betas(h.device)
        variance, sigma = scales["variance"], scales["sigma"]
        variance.mul_(squares).addcmul_(h, h)
        sigma.mul_(betas).sub_(h)
        grown = erfi(sigma / (2**0.5 * variance.sqrt() + self.epsilon)).sum(-1)
        scale = torch.mul(grown, self.epsilon / ERFI_OF_ONE, out=scales["scale"]).clamp_(min=0)
        self._before[learner.name] = moving, scale

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        if (before := self._before.pop(learner.name, None)) is None:
            raise RuntimeError("trac: the training loop must call before_update(learner) before every optimizer step")
        moving, scale = before
        reference, sums = self.saved["reference"][learner.name], self.saved["sum"][learner.name]
        scales = _spread(learner, scale, moving.values())
        for (key, parameter), factor in zip(moving.items(), scales, strict=True):
            torch.addcmul(reference[key], sums[key].add_(parameter), factor, out=parameter.data)

    def _find_scales(self, learner: Learner) -> dict[str, Tensor]:
        """Return v and σ, (networks, 6), and S, (networks,): for one network, or for the members of a stack."""
        if learner.name not in self.saved["scales"]:
            networks, device = max(1, learner.members), next(learner.module.parameters()).device
            zeros = torch.zeros(networks, len(BETAS), dtype=torch.float64, device=device)
            self.saved["scales"][learner.name] = {
                "variance": zeros,
                "sigma": torch.full_like(zeros, SIGMA),
                "scale": zeros[:, 0].clone(),
            }
        scales: dict[str, Tensor] = self.saved["scales"][learner.name]
        return scales

    def numbers(self, learner: Learner) -> dict[str, Tensor]:
        """Return S, the scale of the movement away from the initial parameters."""
        scale = self._find_scales(learner)["scale"]
        return {"trac_scale": scale if learner.members else scale[0]}


def _spread(learner: Learner, numbers: Tensor, parameters: Collection[Tensor]) -> list[Tensor]:
    """Return one number for each network, (networks,), broadcastable to each of the parameters."""
    cast = {dtype: numbers.to(dtype) for dtype in {parameter.dtype for parameter in parameters}}
    return [fit(cast[p.dtype], p) if learner.members else cast[p.dtype][0] for p in parameters]
