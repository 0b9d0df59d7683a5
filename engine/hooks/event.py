"""One intervention as an event: what it wrote, and what the networks were like before and after."""

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from torch import Tensor

from supple.interventions import Hook, KeepNewest, Learner, ReplayWindow
from supple.metrics import View, feature_covariance_distance, measure, measure_members, sfe, trainability
from supple.registry import owner_of
from supple.registry.errors import RunError

from .members import acting_on
from .moments import apply, calling


@dataclass(frozen=True)
class ExtraMeasurements:
    """The measurements of a run besides the cheap metrics."""

    costly: bool = False  # the costly metrics, such as the Hessian's largest eigenvalue
    trainability: bool = False
    learning: tuple[str, ...] = ()  # names of statistics of training, such as policy/entropy


NO_EXTRAS = ExtraMeasurements()


class Recorder:
    """Applies hooks, and measures the networks around it.

    Args:
        extras: What to measure besides the cheap metrics.
        seeds: The seeds of a stack, or ().
    """

    def __init__(self, extras: ExtraMeasurements, seeds: Sequence[int]) -> None:
        self.extras, self.seeds = extras, seeds

    def apply(self, hook: Hook, learner: Learner, step: int, seeds: Sequence[int] | None = None) -> dict[str, Any]:
        """Apply a hook to a learner, in a stack to these seeds, and return the fields of its event.

        A stack has a list of numbers by seed."""
        was, weights = View(learner, seeds=seeds), _weights(learner)
        before = self._measure(was, hook)
        started = time.perf_counter()
        where = f"{hook.text} on {learner.name} at step {step}"
        apart = seeds is not None and not hook.intervention.has("restructure")
        with acting_on(hook, learner, seeds or ()) if apart else nullcontext():
            written = apply(hook, learner, where)
        seconds = time.perf_counter() - started
        now, after, change = View(learner, seeds=seeds), _weights(learner), {}
        kept = [name for name in weights if name in after and weights[name].isfinite().all()]
        spoiled = next((name for name in kept if not after[name].isfinite().all()), None)
        if spoiled is not None:  # otherwise the run would seem to have diverged
            owner = owner_of(hook.intervention)
            of = f" (plug-in {owner})" if owner else ""
            raise RunError(f"{where}: it wrote a number that is not finite into {spoiled}{of}")
        shapes = [{name: w.shape for name, w in state.items()} for state in (weights, after)]
        if shapes[0] == shapes[1]:  # otherwise not every new weight has an old one to compare with
            pairs = [(_rows(weights, learner, seed), _rows(after, learner, seed)) for seed in seeds or (None,)]
            changes = {
                "sfe": [sfe(*pair) for pair in pairs],
                "sfe_normalized": [sfe(*pair, normalized=True) for pair in pairs],
            }
            if was.has_units and now.has_units:  # else all transitions were forgotten
                turned = list(map(feature_covariance_distance, was.features, now.features))  # of each network
                each = len(turned) // len(pairs)
                changes["feature_covariance_distance"] = [
                    fmean(turned[i : i + each]) for i in range(0, len(turned), each)
                ]
            change = self._for_event(changes)
        with calling(hook, "contract", learner):
            contract = hook.intervention.contract(learner)
        return {
            "event": "intervention",
            "step": step,
            **({"seeds": [self.seeds[seed] for seed in seeds]} if seeds and len(self.seeds) > 1 else {}),
            "hook": hook.text,
            "intervention": str(hook.intervention),
            "learner": learner.name,
            "written": len(written),
            "contract": contract,
            "before": before,
            "after": self._measure(now, hook),
            "change": change,
            "seconds": round(seconds, 6),
        }

    def _measure(self, view: View, hook: Hook) -> dict[str, Any]:
        """Return the metrics of a learner for an event, for a stack of several seeds with a list by seed.

        If the hook acts on the replay memory, its size is one of them.
        """
        learner, costly = view.learner, self.extras.costly
        measured = trainability(view) if self.extras.trainability else None
        each = measure_members(view, costly=costly) if learner.seeds else [measure(view, costly=costly)]
        found = {name: [own[name] for own in each] for name in each[0]}
        if measured is not None:
            found |= {name: fit.view(len(each), -1).mean(1).tolist() for name, fit in measured.numbers().items()}
        if isinstance(hook.intervention, KeepNewest) and (window := learner.offers(ReplayWindow)):
            sizes = window.sizes()
            found["replay/size"] = [float(sizes[seed]) for seed in view.seeds or (0,)]
        return self._for_event(found)

    def _for_event(self, numbers: Mapping[str, list[float]]) -> dict[str, Any]:
        """Return numbers by seed as an event has them: lists for a stack of several seeds, or those of the only one."""
        return dict(numbers) if len(self.seeds) > 1 else {name: value for name, (value,) in numbers.items()}


def _weights(learner: Learner) -> dict[str, Tensor]:
    """Return a copy of every parameter, by name."""
    return {name: p.detach().clone() for name, p in learner.module.named_parameters()}


def _rows(state: Mapping[str, Tensor], learner: Learner, seed: int | None) -> dict[str, Tensor]:
    """Return the part of named parameters, (members, …), that belongs to one seed of a stack; None: the whole."""
    return {name: value if seed is None else value[learner.networks_of([seed])] for name, value in state.items()}
