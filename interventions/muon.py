"""Muon trains hidden matrices by momentum whose singular values are made equal; Adam trains the other parameters.

    M ← μM + (1 − μ)G;   X = NS₅((1 − μ)G + μM);   W ← (1 − ηλ)·W − η·√max(1, m/n)·X          (W is m × n)

NS₅ are five quintic Newton–Schulz steps, which bring singular values to about 1 (`orthogonalize`, method `muon`). A
kernel is a matrix with one row for each output. As in the FIRE paper (Appendix D), Muon trains hidden matrices only.
Adam or AdamW trains input and output layers, biases, gains and other vectors with the same learning rate and weight
decay as before, and with β = (0.9, 0.95) as in isaac7778/FIRE, vision/train.py. `torch.optim.Muon` makes the same step
in bfloat16, but accepts 2-D parameters only: neither convolutions nor stacks.

Source: Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".

Resets: the state of the optimizer, which is a new one.

Cost: one tensor less of optimizer state for each matrix, and fifteen matrix products for each matrix and update.

Released code (`variant=as_released`) differs in two points. The factor of a kernel is √max(1, k_h/k_w), which is 1 for
square kernels, in KellerJordan/Muon, muon.py, and in its copy in isaac7778/FIRE, vision/interventions/muon.py: they use
the sides of the gradient before it is flattened. The equation's factor is √2 for the 1 × 1 kernels of ResNet's
shortcuts that double the channels, 1.5 for a stem of 64 kernels over 3 × 3 × 3, and 1 for its other kernels. And FIRE's
train.py trains the first layer by Muon, too (in its ViT also the position embedding and the class token, which are not
layers and stay with Adam here).
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from supple.networks import Learner
from supple.networks.modules import CONV, LINEAR, STACKED
from supple.networks.optimizer_state import slot_starts
from supple.networks.optimizers import OwnOptimizer

from .base import Intervention, Variant, check_within, interventions
from .contract import check_optimizer
from .orthogonalize import iterate

RATIO = 10.0  # Muon's step size over Adam's, as released with FIRE
BETAS = (0.9, 0.95)  # of Adam beside Muon, as released with FIRE
EPSILON = 1e-7  # momentum of a smaller norm is no direction (torch.optim.Muon)


class MuonWithAdam(OwnOptimizer):
    """Muon for some matrices, and the previous optimizer for all other parameters.

    The `lr` of every group is Adam's, so that code that sets the groups' learning rates still works. Groups of matrices
    use `ratio` times that rate. State: Adam's; for a matrix `momentum_buffer`, in its shape.
    """

    def __init__(self, adam: torch.optim.Optimizer, matrices: dict[Tensor, bool], variant: Variant = "paper") -> None:
        """Take over the parameters of `adam`.

        Args:
            adam: The optimizer that holds the matrices now; it must not be used on its own afterwards.
            matrices: Parameter → whether it is a stack of matrices, (members, d_out, …), or a single one, (d_out, …).
            variant: Of the factor of kernels.
        """
        self.adam, self.variant = adam, variant
        self.slot_starts = {**slot_starts(adam), "momentum_buffer": 0.0}
        self.networks = getattr(adam, "networks", 0)  # the shape of its step counters
        for_adam, for_muon = [], []
        for group in adam.param_groups:
            settings = {key: value for key, value in group.items() if key != "params"} | {"betas": BETAS}
            settings.setdefault("initial_lr", float(settings["lr"]))
            for_adam.append({"params": [p for p in group["params"] if p not in matrices], **settings})
            for stacked in (False, True):
                weights = [p for p in group["params"] if matrices.get(p) is stacked]
                if weights:
                    options = {"ratio": RATIO, "momentum": 0.95, "stacked": stacked}
                    for_muon.append({"params": weights, **settings, **options})
        super().__init__([*for_adam, *for_muon], adam.defaults | {"betas": BETAS})

    def matrices(self) -> list[dict[str, Any]]:
        """Return the groups that Muon trains."""
        return [group for group in self.param_groups if "momentum" in group]

    @torch.no_grad()
    def arithmetic(self) -> None:
        """Make the step."""
        # groups and state are this optimizer's, which may have loaded others
        self.adam.param_groups = [group for group in self.param_groups if "momentum" not in group]
        self.adam.state = self.state
        self.adam.step()
        for group in self.matrices():
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            for p in parameters:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p)
            rate, momentum = group["lr"] * group["ratio"], group["momentum"]
            gradients = [p.grad for p in parameters]
            buffers = [self.state[p]["momentum_buffer"] for p in parameters]
            torch._foreach_lerp_(buffers, gradients, 1 - momentum)
            moves = torch._foreach_lerp(gradients, buffers, momentum)  # Nesterov's
            torch._foreach_mul_(parameters, 1 - rate * group.get("weight_decay", 0.0))
            directions = _make_directions(moves, group["stacked"], self.variant)
            if isinstance(rate, Tensor):  # a number would have to be read from the GPU
                torch._foreach_mul_(directions, -rate)
                torch._foreach_add_(parameters, directions)
            else:
                torch._foreach_add_(parameters, directions, alpha=-rate)


def _make_directions(moves: Sequence[Tensor], stacked: bool, variant: Variant) -> list[Tensor]:
    """Return √max(1, m/n)·NS₅ of each move, kernels as d_out × rest; matrices of one shape form one batch."""
    batches = [move.flatten(2) if stacked else move.flatten(1)[None] for move in moves]
    same: dict[torch.Size, list[int]] = {}
    for index, batch in enumerate(batches):
        same.setdefault(batch.shape[1:], []).append(index)
    directions = list(moves)
    for (rows, columns), indices in same.items():
        X = torch.cat([batches[i] for i in indices])
        X = X.to(torch.promote_types(X.dtype, torch.float32))
        X = X / torch.linalg.matrix_norm(X, keepdim=True).clamp(min=EPSILON)
        X = iterate(X.mT, "muon", 5).mT if columns > rows else iterate(X, "muon", 5)
        for i, part in zip(indices, X.split([len(batches[i]) for i in indices]), strict=True):
            m, n = moves[i].shape[-2:] if variant == "as_released" else (rows, columns)
            directions[i] = (part * math.sqrt(max(1.0, m / n))).reshape(moves[i].shape).to(moves[i].dtype)
    return directions


@interventions.register("muon")
class Muon(Intervention):
    """Train hidden matrices by Muon from now on, and all other parameters by Adam as before (Jordan et al. 2024).

    Without a schedule it is applied at the start. It keeps the weights and resets the optimizer's state. If applied
    again, it changes its settings and resets the state again. Your own training code must call `learner.optimizer`,
    which is a new object afterwards.

    Args:
        lr: Learning rate of the matrices; by default 10 times Adam's, as released with FIRE. If Adam's learning rate
            changes during training, this ratio is kept.
        momentum: In [0, 1); 0.95, as its authors recommend.
        weight_decay: Of the matrices, decoupled, ≥ 0; by default unchanged.
        variant: `paper`; or `as_released`: the first layer too (all but heads), and √max(1, k_h/k_w) for kernels.
    """

    at_start = True

    def __init__(
        self,
        lr: float | None = None,
        momentum: float = 0.95,
        weight_decay: float | None = None,
        variant: Variant = "paper",
    ) -> None:
        check_within("muon", lr=(lr, "(0, ∞)"), momentum=(momentum, "[0, 1)"), weight_decay=(weight_decay, "[0, ∞)"))
        self.lr, self.momentum, self.weight_decay, self.variant = lr, momentum, weight_decay, variant

    def concerns(self, learner: Learner) -> bool:
        """Return whether the learner has matrices that Muon can train."""
        return bool(_find_matrices(learner, self.variant))

    def attach(self, learner: Learner) -> None:
        learner.select_stored("all")
        if not _find_matrices(learner, self.variant):
            place = "between its first and its last" if self.variant == "paper" else "before its last"
            raise ValueError(f"muon: '{learner.name}' has no Linear or Conv layer {place}")
        if learner.optimizer is None or not all("betas" in group for group in learner.optimizer.param_groups):
            kind = type(learner.optimizer).__name__ if learner.optimizer else "no optimizer"
            raise ValueError(f"muon: '{learner.name}' has {kind}; it needs Adam or AdamW to train the other parameters")
        check_optimizer(learner.optimizer)

    def contract(self, learner: Learner) -> dict[str, str]:
        which = "hidden matrices" if self.variant == "paper" else "matrices before the heads"
        count = len(_find_matrices(learner, self.variant))
        return {
            "weights": "kept",
            "optimizer": f"Muon on the {count} {which} or stacks, Adam on all else",
            "optimizer state": "fresh (every tensor)",
        }

    def restructure(self, learner: Learner) -> None:
        self.attach(learner)
        optimizer = learner.require_optimizer("muon")
        if not isinstance(optimizer, MuonWithAdam):
            optimizer = learner.optimizer = MuonWithAdam(optimizer, _find_matrices(learner, self.variant), self.variant)
        if optimizer.variant != self.variant:
            raise ValueError(
                f"muon: '{learner.name}' is already trained with variant={optimizer.variant}, not {self.variant}"
            )
        for group in optimizer.matrices():
            group["ratio"] = RATIO if self.lr is None else self.lr / group["initial_lr"]
            group["momentum"] = self.momentum
            if self.weight_decay is not None:
                group["weight_decay"] = self.weight_decay
        optimizer.state.clear()
        learner.changes.append(str(self))

    def apply(self, learner: Learner) -> list[str]:
        self.restructure(learner)
        return []


def _find_matrices(learner: Learner, variant: Variant) -> dict[Tensor, bool]:
    """Return the weights of the Linear and Conv layers that Muon trains → whether each is a stack."""
    roles = ("hidden",) if variant == "paper" else ("encoder", "hidden")
    matrices: dict[Tensor, bool] = {}
    for layer in learner.layers:
        if layer.role in roles and isinstance(layer.module, (*LINEAR, *CONV)):
            weight = layer.module._parameters.get("weight")
            if weight is not None and weight.requires_grad:
                matrices[weight] = isinstance(layer.module, STACKED)
    return matrices
