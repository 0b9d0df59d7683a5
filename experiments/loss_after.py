"""Try out an intervention on a network, and undo it."""

from collections.abc import Callable

from supple.interventions import EntropyTemperature, Intervention, Learner
from supple.metrics import View, trainability
from supple.metrics.trainability import LEARNING_RATE, UPDATES
from supple.networks.unchanged import keep_states
from supple.registry import naming


def loss_after(
    learner: Learner | View,
    intervention: Intervention,
    updates: int = UPDATES,
    learning_rate: float = LEARNING_RATE,
    *,
    after_each: Callable[[], object] | None = None,
) -> float:
    """Return the loss on random targets that the network would reach after an intervention now (`Diagnosis.loss`).

    The intervention is applied to the network itself, whose values are then restored. The optimizer and the followers
    are not touched.

    Args:
        learner: The network, or a `View` of some seeds of a stack, whose loss is returned; all are intervened on.
        intervention: The intervention to try.
        updates: Number of updates on the random targets.
        learning_rate: Their learning rate.
        after_each: A function to call after each update of this network, and of the network at step 0.

    Raises:
        ValueError: The intervention cannot be applied to this network, or does more than rewrite weights once.
    """
    seeds = learner.seeds if isinstance(learner, View) else None
    learner = learner.learner if isinstance(learner, View) else learner
    if not intervention.has("apply") or intervention.has("restructure") or intervention.has("after_update"):
        raise ValueError(f"{intervention.name} cannot be tried out: it does more than rewrite weights once")
    kept = learner.optimizer, learner.followers, learner.capabilities
    learner.optimizer, learner.followers = None, ()
    learner.capabilities = tuple(each for each in kept[2] if not isinstance(each, EntropyTemperature))
    now = {name: value.clone() for name, value in learner.module.state_dict().items()}
    try:
        with keep_states(learner.draws):
            for moment in ("attach", "apply"):
                with naming(f"{intervention}: {moment} on '{learner.name}'", intervention):
                    getattr(intervention, moment)(learner)
            fit = trainability(View(learner, seeds=seeds), updates, learning_rate, after_each=after_each)
    finally:
        learner.module.load_state_dict(now)
        learner.optimizer, learner.followers, learner.capabilities = kept
    if fit is None:
        raise ValueError(f"'{learner.name}' has seen no data yet, so its trainability cannot be measured")
    return float(fit.loss.mean())
