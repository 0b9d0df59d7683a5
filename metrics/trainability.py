"""Trainability: how well a network can still learn something new on its recent inputs.

    wanted(x) = f(x) + r̂(x),   r̂: the outputs of a new random network, each of mean 0 and variance 1 over the inputs
    loss      = mean (f_θ(x) − wanted(x))², after N updates of Adam from θ, the parameters now or those of step 0
    score     = 1 − loss

This is target-fitting capacity (Lyle et al. 2022, arXiv:2204.09560), in which targets are outputs of random networks.
Here they are added to the present outputs of the network, so that every network begins at a loss of exactly 1, as if it
predicted their mean. Otherwise a value function with large outputs would be measured by the time that an optimizer
needs to reduce them. Errors are squared for policies, too. For the mean of a Gaussian policy this is the KL divergence,
up to σ². For logits, the divergence would hardly depend on actions that a policy has abandoned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from supple.networks.gradients import differentiate
from supple.networks.learner import Learner
from supple.networks.unchanged import keep_states, measuring, unchanged

from .view import View

UPDATES = 200
LEARNING_RATE = 1e-3
COLUMNS = 1024  # numbers of each row that count, so that a vocabulary's need no memory of their own
TRAINABILITY = ("trainability", "trainability/initial", "trainability/loss", "trainability/initial_loss")  # in logs
RESOLVED = 1e-6  # an output that varies by less, as a share of its size, is constant


@dataclass(frozen=True)
class Trainability:
    """Final losses, (networks,), of the network now and at step 0, fitted to the same targets.

    They are 1 before the first update. They are NaN if the random network has equal outputs for all inputs, and for a
    network whose outputs are not finite.
    """

    loss: Tensor
    initial_loss: Tensor

    def numbers(self) -> dict[str, Tensor]:
        """Return the logged numbers, each (networks,): scores 1 − loss (at most 1; 0: nothing learned) and losses."""
        values = (1 - self.loss, 1 - self.initial_loss, self.loss, self.initial_loss)
        return dict(zip(TRAINABILITY, values, strict=True))


def trainability(
    learner: Learner | View,
    updates: int = UPDATES,
    learning_rate: float = LEARNING_RATE,
    *,
    after_each: Callable[[], object] | None = None,
) -> Trainability | None:
    """Return how well a learner's network can be fitted to a random one on its probe; None before it has any data.

    Both networks are fitted in evaluation mode, with all rows of the probe in each update of a new Adam. Each member of
    a stack is fitted separately, to its own target. If the network returns several tensors, each has the same weight,
    with at most 1024 numbers of a row, evenly spaced. It takes 2·`updates` passes forward and backward, and memory for
    five copies of the parameters. The learner and its generators do not change.

    Args:
        learner: The learner, or a `View` of it.
        updates: Updates of each of the two fits, at least 1.
        learning_rate: Of Adam, above 0.
        after_each: A function to call after each of the 2·`updates` updates, as for a progress bar.

    Raises:
        ValueError: There are no inputs, or outputs that are no tensors
            or in which the parameters of the learner have no part.
    """
    view = learner if isinstance(learner, View) else View(learner)
    module = view.learner.module
    with measuring(module), unchanged(module):  # once for all passes
        if view.probe is None:
            return None
        now = {name: p.detach() for name, p in module.named_parameters()}
        start = now | view.learner.initial
        with torch.no_grad():
            targets = [_standardize(t) for t in _outputs(view, start | _draw_network(view))]
        losses = [_fit(view, p, targets, updates, learning_rate, after_each) for p in (now, start)]
    return Trainability(*map(view.select, losses))


def _fit(
    view: View,
    parameters: Mapping[str, Tensor],
    targets: list[Tensor],
    updates: int,
    learning_rate: float,
    after_each: Callable[[], object] | None,
) -> Tensor:
    """Return the losses after training from these parameters on, (members,)."""
    types = {name: parameters[name].dtype for name in view.learner.trained()}
    # steps on numbers of 16 bits overflow, or are rounded away
    fitted = {name: _widen(parameters[name]).clone().requires_grad_() for name in types}
    optimizer = torch.optim.Adam(fitted.values(), lr=learning_rate)
    with torch.no_grad():
        now = _outputs(view, parameters)
        wanted = [output + target for output, target in zip(now, targets, strict=True)]

    def as_stored() -> dict[str, Tensor]:
        return {name: value.to(types[name]) for name, value in fitted.items()}

    for _ in range(updates):
        losses = _losses(_outputs(view, {**parameters, **as_stored()}), wanted)
        # members share no parameter; tensors that the network keeps elsewhere get no gradient
        name = view.learner.name
        gradients = differentiate(losses.sum(), list(fitted.values()), f"what '{name}' returns")
        if all(gradient is None for gradient in gradients):
            raise ValueError(f"the parameters of '{name}' have no part in its outputs: it computes them from others")
        for parameter, gradient in zip(fitted.values(), gradients, strict=True):
            parameter.grad = gradient
        optimizer.step()
        if after_each:
            after_each()
    with torch.no_grad():
        return _losses(_outputs(view, {**parameters, **as_stored()}), wanted)


def _outputs(view: View, parameters: Mapping[str, Tensor]) -> list[Tensor]:
    """Return each tensor that the network returns on the probe, (members, rows, numbers)."""
    assert view.probe is not None
    outputs, name = view.learner.outputs(parameters, view.probe), view.learner.name
    tensors = [_widen(t) if view.members else _widen(t)[None] for t in list_tensors(outputs)]
    tensors = [t for t in tensors if t.ndim > 1 and t.numel()]
    if not tensors:
        raise ValueError(
            f"'{name}' returns a {type(outputs).__name__} without a tensor of real numbers for each input, or its "
            "recent inputs are empty"
        )
    flat = [t.reshape(*t.shape[:2], -1) for t in tensors]
    return [t if (n := t.shape[-1]) <= COLUMNS else t[..., torch.linspace(0, n - 1, COLUMNS).long()] for t in flat]


def _widen(values: Tensor) -> Tensor:
    return values.float() if values.itemsize == 2 else values


def list_tensors(outputs: Any) -> list[Tensor]:
    """Return the tensors of real numbers, (…), among outputs: a tensor, or several in a sequence or by name."""
    if isinstance(outputs, Tensor):
        outputs = (outputs,)
    several = outputs.values() if isinstance(outputs, Mapping) else outputs if isinstance(outputs, Sequence) else ()
    return [t for t in several if isinstance(t, Tensor) and t.is_floating_point() and not t.is_meta]


def _standardize(outputs: Tensor) -> Tensor:
    """Return outputs (members, rows, numbers) with mean 0 and variance 1 over the rows; NaN where they do not vary."""
    mean = outputs.mean(1, keepdim=True)
    spread = (outputs - mean).square().mean(1, keepdim=True).sqrt()
    spread = torch.where(spread > RESOLVED * outputs.abs().amax(1, keepdim=True), spread, torch.nan)
    return (outputs - mean) / spread


def _losses(outputs: list[Tensor], wanted: list[Tensor]) -> Tensor:
    """Return the mean squared error of each member where there is a target, each tensor counting alike: (members,)."""
    errors, counts = [], []
    for output, target in zip(outputs, wanted, strict=True):
        known = target.isfinite()
        counts.append(known.sum((1, 2)))
        squares = (output - target.where(known, output.detach())).square()
        errors.append(squares.sum((1, 2)) / counts[-1].clamp_min(1))
    return torch.stack(errors).sum(0) / (torch.stack(counts) > 0).sum(0)


def _draw_network(view: View) -> dict[str, Tensor]:
    """Return the parameters of a new network, drawn from seeds derived from those of the learner's generators.

    They are the same at every measurement of a run, unless its Work derives other seeds (classifiers).
    """
    learner = view.learner
    with keep_states(learner.draws), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        for source in learner.draws:
            source.manual_seed(source.initial_seed() ^ 1)
        drawn = learner.redraw()
    named = dict(learner.module.named_parameters())
    return {name: value.to(named[name]) for name, value in drawn.items() if name in named}
