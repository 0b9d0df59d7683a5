"""Scale-invariant balancing (SIB) rescales scale-symmetric weights of a language model to minimise its gradient.

    α = clip(√(‖∂L/∂W_mul‖/‖∂L/∂W_div‖), 1/R, R)   for each channel of each scale-symmetric pair
    W_div ← W_div/α,   W_mul ← W_mul·α               (value, output) and (up, down): see symmetry.py

L is the loss on the data that must not be forgotten. The function stays the same. Of all models that such factors can
reach, the result has the smallest gradient, since ∂L/∂W_div becomes α·∂L/∂W_div and ∂L/∂W_mul becomes ∂L/∂W_mul/α
(eq. 2, the minimum of Σ α²‖g_div‖² + ‖g_mul‖²/α²). Under Adam it is equivalent to learning rates η·α for W_div and η/α
for W_mul (Proposition C.1).

Source: the SIB paper, "SIB: Reparameterization of LLMs for better learning-forgetting under SFT". It contradicts itself
in three points. Eq. 1 prints the objective inverted, ‖g_div/α‖² + ‖α·g_mul‖², whose minimum is 1/α of eq. 2; eq. 2 and
Algorithm 1 are right. Algorithm 1 and Appendix B also pair gate with down, which changes the function (the gate passes
through σ); Section 4.1 and this code do not. Algorithm 1 reads as one α for a tensor; Section 4.1 and this code have a
vector. The paper does not mention biases of V or up. They are scaled with their rows here, so their gradient counts in
‖g_div‖; otherwise the whole gradient could grow.

Resets: contract `uniform` (optimizer state of the rewritten entries zeroed, followers := online network).

Cost: one gradient of the paired weights, their norms, and a pass that scales them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from supple.networks import Learner
from supple.networks.parameters import names_by_parameter
from supple.networks.ranks import average
from supple.networks.symmetry import ScalePair, may_have_pairs, scale_pairs
from supple.registry.errors import refusing

from .base import Intervention, check_within, interventions
from .contract import UNIFORM, check_optimizer, settle

STRIPS = 16  # few enough that a GPU does not wait for their launches


@dataclass(frozen=True)
class Rescaling:
    """The changes that `sib_` made.

    Attributes:
        pairs: Number of pairs.
        written: Names of the parameters that were written.
        alpha: The factors of all channels, in the order of the pairs, (channels,), in float32 at least.
        clipped: Number of channels whose factor was clipped to R or 1/R.
        idle: Number of channels without any gradient, with factor 1.
        gradient_norm: ‖∂L‖ over all entries that were scaled, before.
        predicted: The same afterwards, computed from the factors.
    """

    pairs: int
    written: tuple[str, ...]
    alpha: Tensor
    clipped: int
    idle: int
    gradient_norm: float
    predicted: float


def sib_(model: nn.Module, loss_fn: Callable[[], Tensor], ratio: float = 100.0) -> Rescaling:
    """Balance the scale-symmetric pairs of a language model by the gradients of a loss, in place.

    A channel without a gradient on both sides keeps its weights (α = 1). Without a gradient on one side, α is R or 1/R.
    In float32, logits agree to 1e-5 of the largest. In half precision each scaled weight is rounded once. `.grad` is
    unchanged. Frozen weights are balanced as well, and stay frozen.

    Args:
        model: A model of a supported architecture, or one that declares its pairs (see symmetry.py). The weights of a
            pair are (channels, d_in) and (d_out, channels).
        loss_fn: Returns the scalar loss, (), on the data to retain; called once.
        ratio: R ≥ 1, the largest factor and the inverse of the smallest; the paper uses 100.

    Raises:
        ValueError: Nothing was written. The model has no known symmetries (`NoSymmetry`, with its name and the reason),
            the ratio is below 1, the loss is not a finite scalar or does not depend on the pairs, or gradients are not
            finite.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from supple.interventions import ScalePair, sib_
        >>> class Gated(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.gate, self.up, self.down = nn.Linear(4, 6), nn.Linear(4, 6), nn.Linear(6, 4)
        ...
        ...     def forward(self, x):
        ...         return self.down(self.gate(x).sigmoid() * self.up(x))
        ...
        ...     def scale_symmetries(self):
        ...         return [ScalePair("mlp", self.up, self.down, channels=6)]
        >>> _ = torch.manual_seed(0)
        >>> model, x = Gated(), torch.randn(8, 4)
        >>> before = model(x)
        >>> changes = sib_(model, lambda: model(x).square().mean())
        >>> changes.written
        ('up.weight', 'down.weight', 'up.bias')
        >>> changes.predicted < changes.gradient_norm, torch.allclose(model(x), before, atol=1e-5)
        (True, True)
    """
    check_within("sib", ratio=(ratio, "[1, ∞)"))
    pairs = scale_pairs(model)
    weights = [weight for pair in pairs for weight in pair.weights]
    gradients = dict(zip(weights, _gradients(weights, loss_fn), strict=True))
    with torch.no_grad():
        norms = [_norms(pair, gradients) for pair in pairs]
        alphas = [(mul / div).sqrt_().nan_to_num_(1.0, posinf=ratio).clamp_(1 / ratio, ratio) for div, mul in norms]
        div, mul = (torch.cat([side.flatten() for side in sides]) for sides in zip(*norms, strict=True))
        alpha = torch.cat(alphas)
        before, after = (div.square() + mul.square()), (div * alpha).square() + (mul / alpha).square()
        clipped = (alpha == ratio) | (alpha == 1 / ratio)
        totals = torch.stack([before.sum(), after.sum()]).sqrt()
        if not totals[0].isfinite():
            raise ValueError("sib: the gradients of the loss are not finite; no weight was changed")
        for pair, factors in zip(pairs, alphas, strict=True):
            pair.rows(pair.div.weight).div_(factors[:, None])
            if pair.div.bias is not None:
                pair.rows(pair.div.bias).div_(factors)
            pair.columns(pair.mul.weight).mul_(factors.view(pair.heads, 1, -1))
    names = names_by_parameter(model)
    return Rescaling(
        pairs=len(pairs),
        written=tuple(names[weight] for weight in weights),
        alpha=alpha,
        clipped=int(clipped.sum()),
        idle=int((before == 0).sum()),
        gradient_norm=float(totals[0]),
        predicted=float(totals[1]),
    )


def _gradients(weights: list[Tensor], loss_fn: Callable[[], Tensor]) -> list[Tensor]:
    """Return the gradients of these weights only, including frozen ones (a base model under adapters)."""
    frozen = [weight for weight in weights if not weight.requires_grad]
    try:
        for weight in frozen:
            weight.requires_grad_(True)
        with torch.enable_grad():
            loss = loss_fn()
        if loss.numel() != 1 or not loss.isfinite():
            raise ValueError(f"sib: the loss must be one finite number, got {loss.detach().tolist()}")
        gradients = torch.autograd.grad(loss, weights, allow_unused=True) if loss.requires_grad else (None,)
    finally:
        for weight in frozen:
            weight.requires_grad_(False)
    if all(gradient is None for gradient in gradients):
        raise ValueError("sib: the loss does not depend on the weights of this model")
    return average([torch.zeros_like(w) if g is None else g for w, g in zip(weights, gradients, strict=True)])


def _norms(pair: ScalePair, gradients: dict[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return ‖g_div‖ and ‖g_mul‖ of each channel, (channels,), in float32 at least."""
    norm, precise = torch.linalg.vector_norm, torch.promote_types(pair.div.weight.dtype, torch.float32)
    div = norm(pair.rows(gradients[pair.div.weight]), dim=1, dtype=precise)
    if pair.div.bias is not None:
        div = torch.hypot(div, pair.rows(gradients[pair.div.bias]).to(precise))
    # In strips, whose squares stay in the cache: a norm along this axis takes five times as long on a CPU.
    strips = gradients[pair.mul.weight].chunk(STRIPS)
    columns = torch.stack([strip.to(precise).square().sum(0) for strip in strips]).sum(0)
    return div, pair.columns(columns).sum(1).sqrt_().flatten()


@dataclass(frozen=True)
class RetainLoss:
    """A capability: the loss on data that must not be forgotten.

    Attributes:
        loss: Returns the differentiable loss on a batch of these data, ().
    """

    loss: Callable[[], Tensor]


@interventions.register("sib")
class Sib(Intervention):
    """Balance a language model's scale-symmetric pairs by the gradients of the retain loss (the SIB paper).

    A learner with frozen weights in a pair is refused. Without a schedule it is applied once, at the start. The loss is
    the learner's `RetainLoss`, or the training loss if it offers none. The contract is `uniform`: the optimizer state
    of the rewritten entries is zeroed, followers := online network.

    Args:
        ratio: R ≥ 1, the largest factor of a channel; the paper uses 100.
    """

    at_start = True

    def __init__(self, ratio: float = 100.0) -> None:
        check_within("sib", ratio=(ratio, "[1, ∞)"))
        self.ratio = ratio

    def concerns(self, learner: Learner) -> bool:
        """Return whether the architecture may have scale symmetries."""
        return may_have_pairs(learner.module)

    def attach(self, learner: Learner) -> None:
        with refusing(f"sib: '{learner.name}'", ValueError):
            pairs = scale_pairs(learner.module)
        if frozen := [pair.name for pair in pairs if not all(weight.requires_grad for weight in pair.weights)]:
            raise ValueError(
                f"sib: '{learner.name}': {frozen[0]} has frozen weights, which a hook keeps (adapters on them would "
                "fit no other copy of the model): unfreeze them, or call sib_"
            )
        check_optimizer(learner.optimizer, entries=bool(_masks(learner.module)))

    def contract(self, learner: Learner) -> dict[str, str]:
        return UNIFORM.describe("value/output and up/down pairs rescaled, the function kept", learner)

    def apply(self, learner: Learner) -> list[str]:
        check_optimizer(learner.optimizer, entries=bool(_masks(learner.module)))
        retain = learner.offers(RetainLoss)
        written = list(sib_(learner.module, retain.loss if retain else learner.loss, self.ratio).written)
        settle(learner, written, UNIFORM, _masks(learner.module))
        return written


def _masks(model: nn.Module) -> dict[str, Tensor]:
    """Return which entries of fused weights were written: the rows of the values only."""
    names = names_by_parameter(model)
    masks = {}
    for pair in scale_pairs(model):
        if pair.channels < pair.div.out_features:
            for weight in (pair.div.weight, pair.div.bias):
                if weight is not None:
                    masks[names[weight]] = mask = torch.zeros_like(weight, dtype=torch.bool)
                    pair.rows(mask).fill_(True)
    return masks
