"""Batch normalisation for one network or for a stack, and batch renormalisation.

    x̂ = (x − μ)/√(σ² + ε)·g + s      a pass that trains: μ, σ² of the batch; any other: running averages of them

In off-policy learning, the next actions of a batch come from another distribution than those in the replay memory, so
states and next states are one batch (CrossQ, Bhatt et al. 2024, arXiv 1902.05605).

Batch renormalisation (Ioffe 2017, arXiv 1702.03275) corrects μ and σ of the batch towards the running averages:

    r = clip(σ/σ̄, 1/3, 3),   d = clip((μ − μ̄)/σ̄, −5, 5),   μ ← μ − d·√(σ²)/r,   σ² ← σ²/r²

r and d are constants for the gradient. The last two are those of CrossQ's code, which differ from Ioffe's in ε alone.
"""

import torch
from torch import Tensor, nn

MOST_RATIO, MOST_DISTANCE = 3.0, 5.0  # of r and d (CrossQ's code)


class BatchNorm(nn.Module):
    """Batch normalisation: (n, width), or (members, n, width) for a stack → the same.

    A pass trains the layer, and moves the running averages, in training mode with gradients enabled and a gain that
    requires one. So passes for acting, for measurements, and those through frozen networks use the averages.

    Args:
        width: Number of features.
        members: Number of networks in the stack; 0 if there is no stack.
        eps: ε.
        renormalize_after: The number of training passes after which batches are renormalised. None: never. The running
            variance is an average of σ² then, and of σ²·n/(n − 1) otherwise, as in the codes of CrossQ and FlashSAC.

    Attributes:
        own: Use the batch's own statistics in training mode without gradients too, for a target network.
    """

    momentum = 0.01  # of FlashSAC and CrossQ

    def __init__(self, width: int, members: int = 0, eps: float = 1e-5, renormalize_after: int | None = None) -> None:
        super().__init__()
        stack = (members,) * bool(members)
        self.eps, self.renormalize_after, self.own = eps, renormalize_after, False
        self.weight, self.bias = nn.Parameter(torch.ones(*stack, width)), nn.Parameter(torch.zeros(*stack, width))
        self.running_mean: Tensor
        self.running_var: Tensor
        self.passes: Tensor
        self.register_buffer("running_mean", torch.zeros(*stack, width))
        self.register_buffer("running_var", torch.ones(*stack, width))
        if renormalize_after is not None:
            self.register_buffer("passes", torch.zeros(stack))

    def forward(self, x: Tensor) -> Tensor:
        if self.training and (self.own or (torch.is_grad_enabled() and self.weight.requires_grad)):
            mean, var = self._of_batch(x)
        else:
            mean, var = self.running_mean, self.running_var
        scale = self.weight * torch.rsqrt(var + self.eps)
        return torch.addcmul(self.bias.unsqueeze(-2), x - mean.unsqueeze(-2), scale.unsqueeze(-2))

    def _of_batch(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and variance of a batch, (*stack, width) each, and count them in the running averages."""
        var, mean = used_var, used_mean = torch.var_mean(x, -2, correction=0)
        average = var.detach()
        if self.renormalize_after is None:
            average = average * (x.shape[-2] / (x.shape[-2] - 1))
        else:
            with torch.no_grad():
                now, before = ((each + self.eps).sqrt() for each in (var, self.running_var))
                warm = (self.passes >= self.renormalize_after).unsqueeze(-1)
                r = (now / before).clamp(1 / MOST_RATIO, MOST_RATIO).where(warm, 1.0)
                d = ((mean - self.running_mean) / before).clamp(-MOST_DISTANCE, MOST_DISTANCE).where(warm, 0.0)
                self.passes += 1
            used_var, used_mean = var / r.square(), mean - d * var.sqrt() / r
        with torch.no_grad():
            self.running_mean.lerp_(mean.expand_as(self.running_mean), self.momentum)
            self.running_var.lerp_(average.expand_as(self.running_var), self.momentum)
        return used_mean, used_var

    def reset_running_stats(self) -> None:
        """Reset the running averages. `reset` calls this for everything that is not a parameter."""
        for buffer in self.buffers():
            buffer.zero_()
        self.running_var.fill_(1.0)

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
