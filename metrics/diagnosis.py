"""A diagnosis: does a network still learn as well as at initialisation, and which of its layers have degraded?

The network is compared with itself at step 0 on the same recent inputs, so no number needs an absolute threshold. Its
trainability decides the verdict (trainability.py). Dormant units, ranks and saturation show which layers have degraded,
but do not decide it: networks with many dormant units may learn well (Lyle et al. 2023, arXiv:2303.01486), and networks
without any may not.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import torch
from torch import Tensor, nn

from supple.networks.activations import SATURATED
from supple.networks.distributions import greatest_entropy
from supple.networks.learner import Learner
from supple.networks.unchanged import exchange, measuring

from .features import entropy_rank, member_scores, spectra
from .probe import measure
from .trainability import LEARNING_RATE, UPDATES, list_tensors, trainability
from .view import View

# The thresholds, set on the runs of docs/results/doctor.md and tested on others. An error is the mean squared error on
# random targets after training on them, as a share of their variance.
LOST = 0.05  # smallest difference between the error and the error at initialisation that counts as plasticity loss
TIMES = 2.0  # smallest ratio of these errors that counts, or of the explained shares 1 − error
DIVERGED = 1.05  # the error begins at 1, and stays there if nothing is learned; above this, training has made it worse
DETERMINISTIC = 0.02  # entropy of a deterministic policy, at most, as a share of the maximum
DORMANT = 0.5  # share of a layer's units that have become dormant
RANK = 0.1  # effective rank as a share of that at initialisation; networks that learn well often fall to 0.2

State = Literal["lost", "diverged", "silent", "worn", "sound"]


@dataclass(frozen=True)
class HiddenUnits:
    """A layer of hidden units on recent inputs. For a stack, it has the units of all members.

    Attributes:
        dormant: The share of units whose output is 0 on all inputs.
        saturated: The share of (input, unit) pairs with |φ′| < 0.001. None if the units have no derivative φ′.
        effective_rank: exp of the entropy of the normalised singular values of the outputs.
    """

    name: str
    count: int
    dormant: float
    saturated: float | None
    effective_rank: float


@dataclass(frozen=True)
class Condition:
    """The condition of a network on recent inputs.

    Attributes:
        numbers: The metrics by name.
        units: The layers of hidden units, in forward order.
        norms: The norm of each layer's weight, by the layer's name.
        entropy: The mean entropy of the policy as a share of the maximum. None without a policy over discrete actions.
    """

    numbers: dict[str, float]
    units: tuple[HiddenUnits, ...]
    norms: dict[str, float]
    entropy: float | None


@dataclass(frozen=True)
class Diagnosis:
    """A network now, compared with itself at step 0 on the same inputs.

    Attributes:
        learner: The name of the learner.
        now, new: Its condition with the current parameters, and with those of step 0.
        loss, new_loss: The error on random targets after a number of updates from the current parameters, and from
            those of step 0, as a share of the targets' variance. It is above 1 if training made the fit worse.
    """

    learner: str
    now: Condition
    new: Condition
    loss: float
    new_loss: float

    @property
    def state(self) -> State:
        """Return "lost", "diverged", "silent", "worn" or "sound".

        "lost": the error on random targets is clearly larger than at initialisation. "diverged": it is larger even than
        before the first update, which says more about the step size of the fit than about plasticity.
        Otherwise "silent": the policy has become deterministic. Otherwise "worn": a layer has many dormant units or a
        low rank. Otherwise "sound".
        """
        if self.loss - self.new_loss >= LOST and (
            self.loss >= TIMES * self.new_loss or 1 - self.new_loss >= TIMES * (1 - self.loss)
        ):
            return "diverged" if self.loss > DIVERGED else "lost"
        if self.entropy_is_gone:
            return "silent"
        return "worn" if self.signs else "sound"

    @property
    def entropy_is_gone(self) -> bool:
        """Whether the policy is deterministic, and was not at initialisation."""
        now, new = self.now.entropy, self.new.entropy
        return now is not None and new is not None and now <= DETERMINISTIC < new

    @property
    def signs(self) -> list[str]:
        """The layers with many dormant units or a low rank, a clause for each finding, in forward order."""
        signs = []
        for now, new in zip(self.now.units, self.new.units, strict=False):
            if now.dormant - new.dormant >= DORMANT:
                before = f"at initialisation {new.dormant:.0%}"
                signs.append(f"{now.name} ({now.dormant:.0%} of {now.count} units dormant, {before})")
            if now.effective_rank <= RANK * new.effective_rank:
                before = f"at initialisation {new.effective_rank:.1f}"
                signs.append(f"{now.name} (effective rank {now.effective_rank:.1f}, {before})")
        return signs

    def verdict(self) -> list[str]:
        """Return the findings with their numbers as a list of short texts. They say only what was measured."""
        fit = (
            f"Its error on random targets is {_compare(self.loss, self.new_loss)} at initialisation ({self.loss:.2g} "
            f"of their variance, at initialisation {self.new_loss:.2g})."
        ).replace("e-", "e−")
        policy = f"deterministic (entropy {self.now.entropy or 0:.1%} of the maximum)"
        finding = {
            "lost": f"'{self.learner}' has lost plasticity. {fit}",
            "diverged": f"Whether '{self.learner}' has lost plasticity cannot be said, because the fit to random "
            f"targets diverged. {fit} The error is 1 before the first update, so the learning rate of the fit is too "
            f"large for these weights, or its updates are too few.",
            "silent": f"The policy of '{self.learner}' is {policy}, so it no longer explores. The network has not lost "
            f"plasticity. {fit}",
            "worn": f"'{self.learner}' has degraded layers, but has not lost plasticity. {fit}",
            "sound": f"No sign of plasticity loss in '{self.learner}'. {fit} If it does not learn, examine the data, "
            f"the exploration, the learning rate and the reward.",
        }[self.state]
        degraded = f"Degraded layers: {'; '.join(self.signs)}." if self.signs else ""
        besides = f"Its policy is also {policy}." if self.state == "lost" and self.entropy_is_gone else ""
        return [sentence for sentence in (finding, degraded, besides) if sentence]


def diagnose(
    learner: Learner | View,
    updates: int = UPDATES,
    learning_rate: float = LEARNING_RATE,
    *,
    after_each: Callable[[], object] | None = None,
) -> Diagnosis:
    """Return the condition of a learner now and at its step-0 parameters, on its probe.

    Parameters and buffers are exchanged temporarily and then restored. Optimizers and generators do not change.

    Args:
        learner: The learner. For a stack, numbers describe all members together, or those that a `View` selects.
        updates, learning_rate: Settings of `trainability`, which makes 2·`updates` passes forward and backward.
        after_each: A function to call after each of these updates, as for a progress bar.

    Raises:
        ValueError: The learner has seen no data yet, its recent inputs are all equal (or have equal outputs at
            initialisation), or inputs or outputs are not finite.
    """
    seeds = learner.seeds if isinstance(learner, View) else None
    learner = learner.learner if isinstance(learner, View) else learner
    view = View(learner, seeds=seeds)
    with measuring(learner.module):
        _check_finite(view)
    fit = trainability(view, updates, learning_rate, after_each=after_each)
    if fit is None:
        raise ValueError(f"'{learner.name}' has seen no data yet, so there are no inputs to diagnose it with")
    loss, new_loss = float(fit.loss.mean()), float(fit.initial_loss.mean())
    if not isfinite(new_loss):
        raise ValueError(
            f"'{learner.name}' at step 0 cannot be fitted: its outputs are equal for all recent inputs (give several "
            f"different ones), not finite, or too large"
        )
    if not isfinite(loss):
        raise ValueError(f"'{learner.name}' cannot be fitted: its outputs contain NaN or infinity")
    parameters, marked = dict(learner.module.named_parameters()), learner.marked
    with measuring(learner.module):
        now = _describe(view)
        # others in their places, since a pass whose gradients are still to be computed may hold the present ones
        start = {
            name: nn.Parameter(value.clone(), parameters[name].requires_grad) if name in parameters else value
            for name, value in learner.initial.items()
        }
        try:
            learner.marked = None
            with exchange(learner.module, start):
                new = _describe(View(learner, seeds=seeds))
        finally:
            learner.marked = marked
    return Diagnosis(learner.name, now, new, loss, new_loss)


def _check_finite(view: View) -> None:
    """Raise ValueError for outputs with NaN, which would count as equal.

    Single outputs may be infinite, such as the logits of actions that are not allowed."""
    learner = view.learner
    if view.probe is None:
        return
    for values, when in (({}, ""), (learner.initial, " at step 0")):
        with torch.no_grad():
            outputs = list_tensors(learner.outputs(values, view.probe))
        if any(x.isnan().any() or (x.numel() and not x.isfinite().any()) for x in outputs):
            raise ValueError(f"'{learner.name}' cannot be fitted: its outputs{when} contain NaN or infinity")


def _describe(view: View) -> Condition:
    learner, units = view.learner, []
    for name, output in view.outputs.items() if view.has_units else ():
        slopes = view.slopes.get(name)
        ranks = entropy_rank(spectra(output)[0])
        dormant = member_scores(output) <= 0
        units.append(
            HiddenUnits(
                learner.origins.get(name, name),
                dormant.numel(),
                float(dormant.double().mean()),
                None if slopes is None else float((slopes < SATURATED).double().mean()),
                float(ranks.mean()),
            )
        )
    norms = {}
    for layer in learner.layers:
        kernel = layer.kernel.detach()
        own = kernel if view.members is None else view.select(kernel)
        norms[layer.name] = float(torch.linalg.vector_norm(own.abs().double()))
    return Condition(measure(view), tuple(units), norms, _entropy(view))


def _entropy(view: View) -> float | None:
    learner = view.learner
    if learner.policy is None or view.probe is None:
        return None
    parameters = {name: p.detach() for name, p in learner.module.named_parameters()}
    with torch.no_grad():
        policy = learner.policy(learner.outputs(parameters, view.probe), parameters)
        if isinstance(policy, Tensor) or (greatest := greatest_entropy(policy)) is None:
            return None
        entropy = policy.entropy()
        return float((entropy if view.members is None else view.select(entropy)).mean()) / greatest


def _compare(loss: float, new_loss: float) -> str:
    """Return how an error compares with another, as in "3.2 times as large as"."""
    times = loss / new_loss if new_loss > 0 else float("inf")
    if times >= 1.1:
        return f"{times:.1f} times as large as" if times < 10 else f"{times:.0f} times as large as"
    return "as large as" if times > 0.9 else "smaller than"
