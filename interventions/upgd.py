"""UPGD protects useful weights from updates and perturbs the others with noise.

    U ← β·U + (1 − β)·(−g∘θ)                    utility: first-order increase of the loss if θ_i is set to 0
    Ū = σ(Û / max Û),   Û = U / (1 − βᵗ)        scaled by the largest utility in the network
    θ ← θ + (1 − Ū)∘(Δ + η·ξ),   ξ ~ N(0, s²)   where the optimizer's update is Δ and its learning rate η

With plain SGD, Δ = −η·g, this is Algorithm 1 of the paper in its "global" first-order form. Another optimizer's update,
including weight decay and momentum, is protected in the same way, as in AdaUPGD, for which the paper has no equation.
The gradient is the one given to the optimizer: it includes penalties, and is clipped if the agent clips it. Each member
of a stack has its own largest utility and noise. If no utility is above 0, weights of negative utility are not
protected at all. Weights of 16 bits have averages of 16 bits, in which small steps are rounded away.

Source: Elsayed & Mahmood 2024, "Addressing loss of plasticity and catastrophic forgetting in continual learning" (arXiv
2404.00781).

Resets: nothing.

Cost: one tensor for every parameter, a copy of the parameters, noise for each, and about six passes over them per
update.

Released code (`variant=as_released`): mohmdelsayed/upgd, core/optim/weight_upgd/first_order.py, and for Adam (AdaUPGD)
core/run/rl/adaupgd.py, differ from the equations in four points.

    Û / max U       The largest average is the *uncorrected* one. After t updates the argument of σ is 1/(1 − βᵗ) times
                    as large, for β = 0.999 1,000 times at first and 1.6 times after 1,000 updates. Until then weights
                    are almost fixed or almost free.
    max U < 0       If no utility is above 0, it divides by a negative number, which protects the useless weights.
    (1 − ηλ)·θ      Weight decay λ is not protected: this factor applies to every weight in full.
    2·(Δ + η·ξ)     AdaUPGD takes twice the step: Adam's update and the noise have the factor 2η. UPGD with SGD has η.

There is released code for SGD without momentum and for Adam with decoupled weight decay, so `as_released` refuses other
optimizers.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from supple.networks import Adam, Learner, normal_like
from supple.networks.stacked import fit

from .base import Intervention, Variant, check_within, interventions


@interventions.register("upgd")
class UPGD(Intervention):
    """Protect useful weights from updates and perturb the others (Elsayed & Mahmood 2024).

    Parameters without a gradient (those of another task) are unchanged.

    Args:
        beta: β in [0, 1) of the utility's moving average, per update.
        sigma: Standard deviation s ≥ 0 of the noise, in units of the gradient; 0: no noise.
        variant: The equations (`paper`), or the authors' code (`as_released`), which scales utilities otherwise, leaves
            weight decay unprotected and takes twice Adam's step; it needs SGD without momentum, Adam without weight
            decay, or AdamW.
    """

    def __init__(self, beta: float = 0.999, sigma: float = 0.001, variant: Variant = "paper") -> None:
        check_within("upgd", beta=(beta, "[0, 1)"), sigma=(sigma, "[0, ∞)"))
        self.beta, self.sigma, self.variant = beta, sigma, variant
        self.saved = {"utility": {}, "steps": {}}  # U and t by learner and identity of parameter
        self._before: dict[str, dict[str, Tensor]] = {}  # θ, between the two halves of an update

    def attach(self, learner: Learner) -> None:
        optimizer = learner.require_optimizer("upgd")
        if self.variant == "as_released":
            for group in optimizer.param_groups:
                released_steps(optimizer, group)

    @torch.no_grad()
    def before_update(self, learner: Learner) -> None:
        utility, steps = (self.saved[part].setdefault(learner.name, {}) for part in ("utility", "steps"))
        trained = {p for group in learner.require_optimizer("upgd").param_groups for p in group["params"]}
        moving = {n: (p, p.grad) for n, p in learner.module.named_parameters() if p.grad is not None and p in trained}
        for name, (parameter, _) in moving.items():
            if (key := learner.identity(name)) not in utility:
                utility[key] = torch.zeros_like(parameter)
            steps[key] = steps.get(key, 0) + 1
        averages = [utility[learner.identity(name)] for name in moving]
        parameters, gradients = map(list, zip(*moving.values(), strict=True))
        torch._foreach_mul_(averages, self.beta)
        torch._foreach_addcmul_(averages, parameters, gradients, value=self.beta - 1.0)
        self._before[learner.name] = {name: parameter.clone() for name, (parameter, _) in moving.items()}

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        if (before := self._before.pop(learner.name, None)) is None:
            raise RuntimeError("upgd: the training loop must call before_update(learner) before every optimizer step")
        optimizer = learner.require_optimizer("upgd")
        groups = {p: group for group in optimizer.param_groups for p in group["params"]}
        as_released = self.variant == "as_released"
        utility, steps = self.saved["utility"][learner.name], self.saved["steps"][learner.name]
        keys = {name: learner.identity(name) for name in before}
        averages = {name: utility[key] for name, key in keys.items()}
        corrections = [1.0 - self.beta ** steps[key] for key in keys.values()]
        scaled = dict(zip(before, torch._foreach_div(list(averages.values()), corrections), strict=True))
        heights = averages if as_released else scaled
        # () or (members,): each network of a stack has its own
        top = torch.stack([u.flatten(int(learner.members > 0)).amax(-1) for u in heights.values()]).amax(0)
        tiny = torch.finfo(top.dtype).tiny
        top = top.masked_fill(top == 0, tiny) if as_released else top.clamp_min(tiny)
        parameters = dict(learner.module.named_parameters())
        for name, old in before.items():
            parameter = parameters[name]
            group = groups[parameter]
            freedom = torch.sigmoid_(scaled[name].div_(fit(top, parameter)).neg_())  # 1 − Ū
            change = parameter - old
            decay = group.get("weight_decay", 0.0) if as_released else 0.0
            if decay:
                change.add_(old * (group["lr"] * decay))
            if self.sigma:
                noise = normal_like(parameter, learner.source)
                change.add_(noise.mul_(self.sigma * group["lr"]))
            if as_released:
                change.mul_(released_steps(optimizer, group))
            if decay:
                old.mul_(1.0 - group["lr"] * decay)
            parameter.copy_(old.addcmul_(freedom, change))


def released_steps(optimizer: torch.optim.Optimizer, group: Mapping[str, Any]) -> float:
    """Return how many steps of its optimizer the released code takes at once: 1 with SGD, 2 with Adam.

    Raises:
        ValueError: There is no released code for this optimizer, or none for its momentum or weight decay.
    """
    adam = isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW | Adam) and "momentum" not in group
    if not adam and (not isinstance(optimizer, torch.optim.SGD) or group["momentum"]):
        name = "SGD with momentum" if isinstance(optimizer, torch.optim.SGD) else type(optimizer).__name__
        raise ValueError(f"upgd: variant=as_released is the authors' code for plain SGD and for Adam, got {name}")
    decoupled = isinstance(optimizer, torch.optim.AdamW) or group.get("decoupled_weight_decay", False)
    if adam and group.get("weight_decay") and not decoupled:
        raise ValueError(
            "upgd: variant=as_released needs decoupled weight decay, but Adam adds its own to the gradient; use AdamW, "
            "or weight_decay=0"
        )
    return 2.0 if adam else 1.0
