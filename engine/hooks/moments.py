"""Calls of hooks' methods. What a plug-in raises gets a note with the hook, the method and the learner."""

from contextlib import AbstractContextManager, nullcontext

import torch

from supple.interventions import Hook, Learner
from supple.registry import naming, owner_of, summary
from supple.registry.errors import RunError, refusing

NO_NOTE: AbstractContextManager[None] = nullcontext()


def calling(hook: Hook, moment: str, learner: Learner) -> AbstractContextManager[None]:
    """Return the block in which a method of a hook's intervention is called for a learner."""
    if torch.compiler.is_compiling() or not owner_of(hook.intervention):  # supple's, at every update
        return NO_NOTE
    return naming(f"hook {hook.text}: {moment} on '{learner.name}'", hook.intervention)


def apply(hook: Hook, learner: Learner, where: str) -> list[str]:
    """Apply an intervention, and return the names of the parameters that it wrote. Raises RunError if it refuses."""
    # a refusal, such as of a layer that is dead or has diverged: nothing was written
    with refusing(where, RunError), calling(hook, "apply", learner):
        written = hook.intervention.apply(learner)
        if not isinstance(written, list):
            raise TypeError(f"it must return a list of names of parameters, not {summary(written)}")
    return written
