"""An intervention on trial: what it would bring, without a trace."""

from ..interventions import Intervention, Learner
from ..metrics import trainability
from ..metrics.trainability import LEARNING_RATE, UPDATES


def loss_after(
    learner: Learner, intervention: Intervention, updates: int = UPDATES, learning_rate: float = LEARNING_RATE
) -> float:
    """Return what of random targets the network would leave unfitted if it were intervened in now, as `Diagnosis.loss`.

    It is tried on the network itself, which is then given back its values; its optimizer and followers are left alone.
    Raises ValueError for an intervention that has no place in it, or that is not a rewriting of weights at one moment.
    """
    if not intervention.has("apply") or intervention.has("restructure") or intervention.has("after_update"):
        raise ValueError(f"{intervention.name} does not rewrite weights at one moment, which is all that can be tried")
    kept = learner.optimizer, learner.followers, learner.temperature
    learner.optimizer, learner.followers, learner.temperature = None, (), None
    now = {name: value.clone() for name, value in learner.module.state_dict().items()}
    sources = (learner.generator, *learner.generators, *learner.redraw_draws)
    draws = [source.get_state() for source in sources]
    try:
        intervention.attach(learner)
        intervention.apply(learner)
        fit = trainability(learner, updates, learning_rate)
    finally:
        learner.module.load_state_dict(now)
        learner.optimizer, learner.followers, learner.temperature = kept
        for source, state in zip(sources, draws, strict=True):
            source.set_state(state)
    if fit is None:
        raise ValueError(f"'{learner.name}' has seen no data yet: there is nothing to look at it with")
    return float(fit.loss.mean())
