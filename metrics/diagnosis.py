"""A diagnosis: does a network still learn as well as at initialisation, and where does it show wear?

The network is compared with itself at step 0 on the same recent inputs, so no number needs an absolute threshold.
Whether it still learns is measured (trainability.py). Dormant units, ranks and saturation show where it is worn, but do
not decide the verdict: networks with many dormant units may learn well (Lyle et al. 2023, arXiv:2303.01486), and
networks without any may not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite, log
from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Categorical

from ..networks.activations import SATURATED
from ..networks.learner import Learner
from ..networks.parameters import restore_, snapshot
from .features import entropy_rank, feature_matrices, member_scores
from .probe import measure
from .trainability import LEARNING_RATE, UPDATES, trainability
from .view import View

# What counts as a finding. Set on the runs of docs/results/doctor.md, and tried on others.
LOST = 0.05  # of the variance of random targets: how much more of it than a new network one leaves unfitted,
TIMES = 2.0  # and how many times as much, or how many times less of it than a new network one fits
DETERMINISTIC = 0.02  # of the greatest entropy of a policy
DORMANT = 0.5  # share of a layer's units that are dormant, and are not in the new network
RANK = 0.1  # of the features' effective rank in the new network: many that learn well come down to a fifth

State = Literal["lost", "silent", "worn", "sound"]


@dataclass(frozen=True)
class Units:
    """A layer of hidden units on recent inputs; for a stack, those of all members.

    dormant: the share that is (nearly) always 0. saturated: the share of (input, unit) pairs with |φ′| < 0.001; None if
    there is no φ to differentiate. effective_rank: exp of the entropy of the singular values of their outputs.
    """

    name: str
    count: int
    dormant: float
    saturated: float | None
    effective_rank: float


@dataclass(frozen=True)
class Condition:
    """The condition of a network on recent inputs.

    numbers: metrics by name. units: by layer, in forward order. norms: of each layer's weight, by its name. entropy: of
    its policy, as a share of the maximum; None if it has no policy over a finite set of actions.
    """

    numbers: dict[str, float]
    units: tuple[Units, ...]
    norms: dict[str, float]
    entropy: float | None


@dataclass(frozen=True)
class Diagnosis:
    """A network now, compared with itself at step 0 on the same inputs.

    loss, new_loss: the share of the variance of random targets that each leaves after the same number of updates, in
    [0, 1] if training improves at all.
    """

    learner: str
    now: Condition
    new: Condition
    loss: float
    new_loss: float

    @property
    def state(self) -> State:
        """Return "lost", "silent", "worn" or "sound".

        "lost": it fits random targets clearly worse than at initialisation. Otherwise "silent": its policy has become
        deterministic; "worn": units or ranks are lost, but not the ability to learn; else "sound".
        """
        if self.loss - self.new_loss >= LOST and (
            self.loss >= TIMES * self.new_loss or 1 - self.new_loss >= TIMES * (1 - self.loss)
        ):
            return "lost"
        if self.entropy_is_gone:
            return "silent"
        return "worn" if self.signs else "sound"

    @property
    def entropy_is_gone(self) -> bool:
        """Return whether the policy takes one action only, and did not at initialisation."""
        now, new = self.now.entropy, self.new.entropy
        return now is not None and new is not None and now <= DETERMINISTIC < new

    @property
    def signs(self) -> list[str]:
        """Return the signs of wear, a clause each, with the layers in forward order."""
        found = []
        for now, new in zip(self.now.units, self.new.units, strict=False):
            if now.dormant - new.dormant >= DORMANT:
                found.append(f"{now.name}: {now.dormant:.0%} of {now.count} units dormant (when new {new.dormant:.0%})")
            if now.effective_rank <= RANK * new.effective_rank:
                found.append(f"{now.name}: effective rank {now.effective_rank:.1f} (when new {new.effective_rank:.1f})")
        return found

    def verdict(self) -> list[str]:
        """Return the findings, a sentence each, with the numbers behind them; only what was measured."""
        left = f"leaves {self.loss:.2g} of their variance, when new {self.new_loss:.2g}"
        fit = f"It fits random targets {_times(self.loss, self.new_loss)} ({left})."
        policy = f"its policy takes one action only (entropy {self.now.entropy or 0:.1%} of the greatest)"
        worn = f"It looks worn: {'; '.join(self.signs)}." if self.signs else ""
        said = {
            "lost": [f"Plasticity is being lost in '{self.learner}'. {fit}"],
            "silent": [
                f"'{self.learner}' does not explore any more: {policy}. As a function it still fits random targets "
                f"({left}): what it lacks is experience of other actions."
            ],
            "worn": [f"'{self.learner}' looks worn, and learns all the same. {fit}"],
            "sound": [
                f"No sign of plasticity loss in '{self.learner}'. {fit} If it does not learn, look at the data, the "
                f"exploration, the step size and the reward instead."
            ],
        }[self.state]
        besides = f"Besides, {policy}." if self.state == "lost" and self.entropy_is_gone else ""
        return [sentence for sentence in (*said, worn, besides) if sentence]


def diagnose(learner: Learner, updates: int = UPDATES, learning_rate: float = LEARNING_RATE) -> Diagnosis:
    """Return the condition of a learner now and at its step-0 parameters, on its probe.

    Parameters are exchanged temporarily and then restored. Optimizers and generators do not change.

    Args:
        updates, learning_rate: Settings of `trainability`, which makes 2·`updates` passes forward and backward. For a
            stack, numbers are those of all members together.

    Raises:
        ValueError: The learner has seen no data yet, its recent inputs are all alike (or all the same to a network at
            initialisation), or its outputs are not finite.
    """
    view = View(learner)
    fit = trainability(view, updates, learning_rate)
    if fit is None:
        raise ValueError(f"'{learner.name}' has seen no data yet, so there are no inputs to diagnose it with")
    loss, new_loss = float(fit.loss.mean()), float(fit.initial_loss.mean())
    if not isfinite(new_loss):
        raise ValueError(f"'{learner.name}' at step 0 has equal outputs for all recent inputs: there is nothing to fit")
    if not isfinite(loss):
        raise ValueError(f"'{learner.name}' cannot be fitted: its outputs contain NaN or infinity")
    now = _condition(view)
    with _as_new(learner):
        new = _condition(View(learner))
    return Diagnosis(learner.name, now, new, loss, new_loss)


@contextmanager
def _as_new(learner: Learner) -> Iterator[None]:
    """Give a learner its step-0 parameters temporarily."""
    now, marked = snapshot(learner.module), learner.marked
    try:
        learner.marked = None
        restore_(learner.module, {name: value for name, value in learner.initial.items() if name in now})
        yield
    finally:
        restore_(learner.module, now)
        learner.marked = marked


def _condition(view: View) -> Condition:
    learner, units = view.learner, []
    for name, output in view.outputs.items() if view.has_units else ():
        slopes = view.slopes.get(name)
        matrices = feature_matrices(output, f"the units '{name}' of '{learner.name}'")
        ranks = entropy_rank(torch.linalg.svdvals(matrices))
        dormant = member_scores(output) <= 0
        units.append(
            Units(
                learner.origins.get(name, name),
                dormant.numel(),
                float(dormant.double().mean()),
                None if slopes is None else _saturated(slopes),
                float(ranks.mean()),
            )
        )
    norms = {layer.name: float(torch.linalg.vector_norm(layer.weight.detach().double())) for layer in learner.layers}
    return Condition(measure(view), tuple(units), norms, _entropy(view))


def _saturated(slopes: Tensor) -> float:
    return float((slopes < SATURATED).double().mean())


def _entropy(view: View) -> float | None:
    learner = view.learner
    if learner.policy is None or view.probe is None:
        return None
    parameters = {name: p.detach() for name, p in learner.module.named_parameters()}
    with torch.no_grad():
        policy = learner.policy(learner.outputs(parameters, view.probe), parameters)
        if not isinstance(policy, Categorical):
            return None
        return float(policy.entropy().mean()) / log(policy.logits.shape[-1])


def _times(loss: float, new_loss: float) -> str:
    """Return how a fit compares with that of a network at initialisation."""
    times = loss / new_loss if new_loss > 0 else float("inf")
    if times >= 1.1:
        return f"{times:.1f} × worse than when new" if times < 10 else f"{times:.0f} × worse than when new"
    return "as well as when new" if times > 0.9 else "better than when new"
