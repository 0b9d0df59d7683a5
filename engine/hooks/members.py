"""An intervention acts on some seeds of a stack: what belongs to the other seeds is put back, to the bit."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from supple.interventions import Hook, Learner, ReplayWindow
from supple.interventions.base import copy_state
from supple.interventions.contract import reached_by
from supple.networks.members import only
from supple.registry.errors import RunError


@contextmanager
def acting_on(hook: Hook, learner: Learner, seeds: Sequence[int]) -> Iterator[None]:
    """Let a block apply a hook to these seeds of a stack alone, by their positions.

    The networks, optimizers and generators of the other seeds are put back (see `only`), also in a learner that the
    contract resets too, and so are their replay memory, and what the intervention's state holds for them: the rows of
    its tensors.

    Raises RunError if something else in this state has changed, which the other seeds would share.
    """
    others = [seed for seed in range(learner.seeds) if seed not in seeds]
    if not others:
        yield
        return
    before = copy_state(hook.intervention.state_dict())
    window = learner.offers(ReplayWindow)
    marks = window.marks[others] if window else None
    with ExitStack() as stack:
        for each in reached_by(learner):
            stack.enter_context(only(each, seeds))
        yield
    if window and marks is not None:
        window.marks[others] = marks
    after = copy_state(hook.intervention.state_dict())
    try:
        changed = _put_back(before, after, learner, others)
    except _Common as error:
        raise RunError(
            f"{hook.text} on {learner.name}: 'apply' changes {error} of its state, which belongs to all seeds of the "
            f"stack, so it cannot act on some of them: keep tensors with an entry for each member, made in attach"
        ) from error
    if changed:
        hook.intervention.load_state_dict(after)


class _Common(Exception):
    """A part of a state that is not by member has changed; the message is its name."""


def _put_back(old: Any, new: Any, learner: Learner, others: Sequence[int], name: str = "the whole") -> bool:
    """Write the rows of the other seeds in the new state as they were, and return whether anything had changed."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        found = [_put_back(old[key], new[key], learner, others, repr(key)) for key in new]
        return any(found)
    if not (isinstance(old, Tensor) and isinstance(new, Tensor)):
        if old != new:
            raise _Common(name)
        return False
    if old.shape == new.shape and torch.equal(old, new):
        return False
    if old.shape != new.shape or not new.ndim or len(new) not in (learner.members, learner.seeds):
        raise _Common(name)
    rows = learner.networks_of(others) if len(new) == learner.members else list(others)
    new[rows] = old[rows]
    return True
