"""The gradient steps of PPO: loss, gradients, clipping and Adam, in eager mode or compiled."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

from supple.engine.compile import compile_step as compile_step
from supple.networks import Adam
from supple.networks.optimizers import clip_scales, match_layout, step
from supple.networks.stacked import fit

from .network import MultiHead
from .settings import PPOSettings

P = ParamSpec("P")
R = TypeVar("R")
Loss = Callable[..., tuple[Tensor, Tensor]]
PAYS_FOR_A_CALL = 50_000_000  # floating-point operations, beside which a call of compiled code is a tenth
STATISTICS = ("loss/policy", "loss/value", "policy/entropy", "policy/approx_kl", "policy/clip_fraction")


class Terms(NamedTuple):
    """The terms of PPO's loss for each sample, (*stack, n)."""

    gain: Tensor  # the clipped surrogate objective
    error: Tensor  # the squared error of the value
    ratio: Tensor  # of the action's probability to that when it was drawn
    log_ratio: Tensor
    entropy: Tensor  # of the policy, or () if it is the same for all samples


def normalize(advantages: Tensor) -> Tensor:
    """Return advantages, (*stack, n), normalised to mean 0 and standard deviation 1 over their last axis.

    A single one is returned as it is, as in Stable-Baselines3: it has no standard deviation."""
    if advantages.shape[-1] == 1:
        return advantages
    return (advantages - advantages.mean(-1, keepdim=True)) / (advantages.std(-1, keepdim=True) + 1e-8)


def _ppo_terms(network: MultiHead, key: str, batch: tuple[Tensor, ...], s: PPOSettings) -> Terms:
    """Return the terms of `ppo_loss` on one minibatch, with advantages normalised over it if the settings say so.

    The arguments are those of `ppo_loss`."""
    observations, actions, old_log_probs, old_values, advantages, returns = batch
    outputs, values = network(observations, key)
    policy, log_std = network.policies[key], network.scale(key)
    log_ratio = policy.log_prob(outputs, actions, log_std) - old_log_probs
    ratio = log_ratio.exp()
    if s.normalize_advantage and s.advantage_scope == "minibatch":
        advantages = normalize(advantages)
    gain = torch.min(advantages * ratio, advantages * ratio.clamp(1 - s.clip_range, 1 + s.clip_range))
    error = (values - returns).square()
    if s.clip_value:
        clipped = old_values + (values - old_values).clamp(-s.clip_range, s.clip_range)
        error = torch.max(error, (clipped - returns).square())
    return Terms(gain, error, ratio, log_ratio, policy.entropy(outputs, log_std))


def ppo_losses(network: MultiHead, key: str, batch: tuple[Tensor, ...], s: PPOSettings) -> Tensor:
    """Return the loss of each sample, (*stack, n), whose mean is the loss of `ppo_loss`, with the same arguments."""
    terms = _ppo_terms(network, key, batch, s)
    return s.value_coefficient * terms.error - terms.gain - s.entropy_coefficient * terms.entropy


def ppo_loss(network: MultiHead, key: str, batch: tuple[Tensor, ...], s: PPOSettings) -> tuple[Tensor, Tensor]:
    """Return PPO's clipped surrogate loss on one minibatch (Schulman et al. 2017, eq. 7 and 9).

    Args:
        network: The actor–critic.
        key: The environment of the batch.
        batch: Observations (*stack, n, d), actions (*stack, n, *shape), log-probabilities, values, advantages and
            returns (*stack, n).
        s: The settings.

    Returns:
        The loss of each member, (*stack,), and detached statistics in the order of STATISTICS, (*stack, 5).
        approx_kl is Schulman's k3 estimator.
    """
    gain, error, ratio, log_ratio, entropies = _ppo_terms(network, key, batch, s)
    policy, value, entropy = -gain.mean(-1), error.mean(-1), entropies.mean(-1)
    loss = policy + s.value_coefficient * value - s.entropy_coefficient * entropy
    with torch.no_grad():
        kl = (ratio - 1 - log_ratio).mean(-1)
        clip_fraction = ((ratio - 1).abs() > s.clip_range).float().mean(-1)
        statistics = torch.stack([policy, value, entropy.expand_as(policy), kl, clip_fraction], -1)
    return loss, statistics


def steps_per_call(minibatches: int, most: int) -> int:
    """Return the number of gradient steps per compiled call: the largest divisor of `minibatches` up to `most`.

    So no step of an epoch remains for eager mode."""
    return max(count for count in range(1, most + 1) if minibatches % count == 0)


def most_in_a_stack(most: int, parameters: int, rows: int) -> int:
    """Return how many gradient steps of a stack one compiled call should make, at most `most`.

    Steps of many members take so long that the call itself is nothing beside them, and a few steps compile faster.

    Args:
        most: The number for a single small network.
        parameters: Those of the whole stack.
        rows: Rows of a minibatch, of one member.
    """
    return min(most, -(-PAYS_FOR_A_CALL // (6 * parameters * rows)))


class AdamConstants(NamedTuple):
    """The constant hyperparameters of Adam. They are compiled into the code."""

    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float


class GradientStep:
    """Gradient steps on minibatches, in eager mode or with several steps compiled into one call.

    The networks are small, so that a call of compiled code costs as much as its arithmetic. Therefore one call makes
    `unroll` steps, including Adam. Adam's state stays in the optimizer in PyTorch's form, on which interventions and
    checkpoints rely. Parameters and state are inputs of the compiled code, so that in-place changes need no
    recompilation. No `.grad` remains. An optimizer other than Adam (Muon) makes its own steps in eager mode.

    The losses of a stack are (members,). Gradients are clipped by member, and Adam's counters are those of each.
    """

    def __init__(self, max_norm: float, compiled: bool, stacked: bool = False) -> None:
        """Set what does not change between calls of `begin`.

        Args:
            max_norm: The global gradient norm above which gradients are clipped. 0: no clipping.
            compiled: Whether to compile the steps.
            stacked: Whether it is a stack that is trained.
        """
        self.max_norm, self.compile, self.stacked = max_norm, compiled, stacked

    def begin(
        self, optimizer: torch.optim.Optimizer, parameters: list[Tensor], unroll: int, traceable: bool = True
    ) -> None:
        """Set the optimizer, the parameters and the number of steps per compiled call for the next steps.

        It must be called again after `load_state_dict`. Each kind of Adam's state moves into one tensor, of which the
        optimizer keeps views. So this object sees in-place changes by interventions, and the compiled code has few
        inputs. That of a stack stays where it is: it is large, so that passes over memory cost more than inputs.

        Args:
            optimizer: The optimizer, with one group of parameters if it is Adam.
            parameters: The parameters that the loss trains.
            unroll: Gradient steps per compiled call, at least 1.
            traceable: Whether the whole loss can be compiled. If not, the steps run in eager mode.
        """
        self.compiled = self.compile and traceable
        self.optimizer, self.parameters, self.unroll = optimizer, parameters, unroll
        self.flat = isinstance(optimizer, Adam) and not self.stacked
        self.whole = self.compiled and isinstance(optimizer, Adam)
        if not isinstance(optimizer, Adam):
            return
        (group,) = optimizer.param_groups
        beta1, beta2 = group["betas"]
        self.adam = AdamConstants(beta1, beta2, group["eps"], group["weight_decay"])
        self.learning_rate = group["lr"]
        slots = [optimizer.slots(parameter) for parameter in parameters]
        if self.stacked:
            self.counters, self.averages, self.squares = (
                [slot[name] for slot in slots] for name in ("step", "exp_avg", "exp_avg_sq")
            )
            return
        self.steps = torch.stack([slot["step"] for slot in slots])
        self.average, self.square = (
            torch.cat([in_memory_of(p, slot[name]) for p, slot in zip(parameters, slots, strict=True)])
            for name in ("exp_avg", "exp_avg_sq")
        )
        self.counters, self.averages, self.squares = [*self.steps], self._views(self.average), self._views(self.square)
        for slot, counter, average, square in zip(slots, self.counters, self.averages, self.squares, strict=True):
            slot["step"], slot["exp_avg"], slot["exp_avg_sq"] = counter, average, square

    def _views(self, flat: Tensor) -> list[Tensor]:
        """Return one view for each parameter, with its shape and layout."""
        parts = flat.split([parameter.numel() for parameter in self.parameters])
        return [laid_out(part, parameter) for part, parameter in zip(parts, self.parameters, strict=True)]

    def __call__(self, loss: Loss, size: int, *rows: Tensor, before: Callable[[], None] | None = None) -> Tensor:
        """Make one gradient step on `loss(*minibatch)` for each minibatch of `size` rows, in order.

        `unroll` minibatches are one compiled call, other numbers of minibatches run in eager mode. With `before`, only
        the gradients are compiled, one per call.

        Args:
            loss: Returns the loss and the statistics of a minibatch.
            size: Rows per minibatch.
            rows: The tensors that are split into minibatches.
            before: Called before each step, when the gradients are in `.grad`.

        Returns:
            The statistics of all steps, (steps, *stack, 5).
        """
        axis = int(self.stacked)  # of the rows: after the members
        count = rows[0].shape[axis] // size
        if self.whole and count == self.unroll and before is None:
            rates, roots = self._corrections(count)
            slots = (self.averages, self.squares) if self.stacked else ([self.average], [self.square])
            return _compile(_make_steps)(
                loss, size, self.adam, self.max_norm, self.stacked, self.parameters, *slots, rates, roots, *rows
            )
        statistics = []
        for minibatch in zip(*(tensor.split(size, axis) for tensor in rows), strict=True):
            gradients, numbers = self._gradients(loss, minibatch, self.compiled and before is not None)
            statistics.append(numbers)
            if self.flat and before is None:
                self._adam(gradients)
                continue
            for parameter, part in zip(self.parameters, gradients, strict=True):
                parameter.grad = match_layout(parameter, part)
            if before:
                before()
            if self.flat:
                self._adam(gradients)
            else:
                step(self.optimizer)
            for parameter in self.parameters:
                parameter.grad = None  # parameters that the next environment does not train must have no gradient
        return torch.stack(statistics)

    def _gradients(self, loss: Loss, minibatch: tuple[Tensor, ...], compiled: bool) -> tuple[list[Tensor], Tensor]:
        """Return the clipped gradient of each parameter, and the statistics of the loss."""
        differentiate = _compile(_gradients) if compiled else _gradients
        gradients, numbers = differentiate(loss, self.max_norm, self.stacked, self.parameters, *minibatch)
        return gradients if self.stacked else self._views(gradients[0]), numbers

    def _corrections(self, count: int) -> tuple[Tensor, Tensor]:
        """Return Adam's bias corrections of the next steps: η/(1 − β₁ᵗ) and 1/√(1 − β₂ᵗ), (steps, parameters, *stack).

        They are computed in float64, as PyTorch's. The counters go on by the number of steps."""
        # NumPy is three times as fast as PyTorch here, which on a GPU is worth one transfer of counters per call.
        steps = torch.stack(self.counters) if self.stacked else self.steps
        ahead = np.arange(1, count + 1).reshape(-1, *[1] * steps.ndim)
        t = steps.cpu().numpy().astype(np.float64) + ahead
        if self.stacked:
            torch._foreach_add_(self.counters, count)
        else:
            self.steps += count
        rates = torch.from_numpy((self.learning_rate / (1 - self.adam.beta1**t)).astype(np.float32))
        roots = torch.from_numpy((1 / np.sqrt(1 - self.adam.beta2**t)).astype(np.float32))
        if self.stacked:  # one number of each parameter can stay on the CPU
            return rates.to(steps.device), roots.to(steps.device)
        return rates, roots

    @torch.no_grad()
    def _adam(self, gradients: list[Tensor]) -> None:
        adam(
            self.parameters, gradients, self.averages, self.squares, [], self.counters, fused=True,
            amsgrad=False, beta1=self.adam.beta1, beta2=self.adam.beta2, lr=self.learning_rate,
            weight_decay=self.adam.weight_decay, eps=self.adam.epsilon, maximize=False,
        )  # fmt: skip


def in_memory_of(parameter: Tensor, values: Tensor) -> Tensor:
    """Return values of a parameter's shape as a vector, in the order in which the parameter's lie in memory.

    The fused Adam reads parameters and slots in this order, whatever their strides are."""
    return values.flatten() if parameter.is_contiguous() else values.permute(_order_of(parameter)).flatten()


def laid_out(vector: Tensor, parameter: Tensor) -> Tensor:
    """Return what `in_memory_of` returned in the shape of the parameter."""
    if parameter.is_contiguous():
        return vector.view_as(parameter)
    order = _order_of(parameter)
    shaped = vector.view([parameter.shape[axis] for axis in order])
    return shaped.permute([order.index(axis) for axis in range(parameter.ndim)])


def _order_of(parameter: Tensor) -> list[int]:
    """Return the axes of a parameter, those of the largest steps in memory first."""
    return sorted(range(parameter.ndim), key=parameter.stride, reverse=True)


def _gradients(
    loss: Loss, max_norm: float, stacked: bool, parameters: list[Tensor], *batch: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Return the clipped gradients, and the statistics of the loss.

    Those of one agent are one vector for all parameters, those of a stack one gradient of each parameter."""
    values, statistics = loss(*batch)
    gradients = [*torch.autograd.grad(values.sum(), parameters)]
    if not stacked:
        gradients = [torch.cat([in_memory_of(p, g) for p, g in zip(parameters, gradients, strict=True)])]
    if max_norm:
        if stacked:
            scales = clip_scales(gradients, max_norm)
        else:
            scales = [(max_norm / (gradients[0].square().sum().sqrt() + 1e-6)).clamp(max=1.0)]
        gradients = [gradient * scale for gradient, scale in zip(gradients, scales, strict=True)]
    return gradients, statistics


def _make_steps(
    loss: Loss, size: int, adam: AdamConstants, max_norm: float, stacked: bool, parameters: list[Tensor],
    averages: list[Tensor], squares: list[Tensor], rates: Tensor, roots: Tensor, *rows: Tensor,
) -> Tensor:  # fmt: skip
    """Make a step for each minibatch. The averages and squares are as many and of such shapes as the gradients."""
    sizes = [parameter.numel() for parameter in parameters]
    statistics = []
    for k, minibatch in enumerate(zip(*(tensor.split(size, int(stacked)) for tensor in rows), strict=True)):
        gradients, numbers = _gradients(loss, max_norm, stacked, parameters, *minibatch)
        statistics.append(numbers)
        with torch.no_grad():
            if adam.weight_decay:
                weights = parameters if stacked else [torch.cat([in_memory_of(p, p) for p in parameters])]
                gradients = [g + adam.weight_decay * w for g, w in zip(gradients, weights, strict=True)]
            for g, m, v in zip(gradients, averages, squares, strict=True):
                m.lerp_(g, 1 - adam.beta1)
                v.mul_(adam.beta2).addcmul_(g, g, value=1 - adam.beta2)
            slots = (averages, squares) if stacked else (averages[0].split(sizes), squares[0].split(sizes))
            for i, (p, m, v) in enumerate(zip(parameters, *slots, strict=True)):
                rate, root = (fit(each[k, i], p) if stacked else each[k, i] for each in (rates, roots))
                change = rate * m / (v.sqrt() * root + adam.epsilon)
                p.sub_(change if stacked else laid_out(change, p))
    return torch.stack(statistics)


@cache
def _compile(function: Callable[P, R]) -> Callable[P, R]:
    """Return the compiled steps or gradients, shared by all agents of this process, with one graph for each set of
    shapes."""
    return compile_step(function)
