"""An intervention acts on some seeds of a stack: what belongs to the other seeds is put back, to the bit."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from supple.interventions import Hook, Learner, ReplayWindow
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
    before = copy.deepcopy(hook.intervention.state_dict())
    window = learner.offers(ReplayWindow)
    marks = window.marks[others] if window else None
    with ExitStack() as stack:
        for each in reached_by(learner):
            stack.enter_context(only(each, seeds))
        yield
    if window and marks is not None:
        window.marks[others] = marks
    after = copy.deepcopy(hook.intervention.state_dict())
    if _put_back(before, after, learner, others, f"{hook.text} on {learner.name}"):
        hook.intervention.load_state_dict(after)


def _put_back(old: Any, new: Any, learner: Learner, others: Sequence[int], what: str, name: str = "the whole") -> bool:
    """Write the rows of the other seeds in the new state as they were, and return whether anything had changed."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        old, new = dict(enumerate(old)), dict(enumerate(new))
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        found = [_put_back(old[key], new[key], learner, others, what, repr(key)) for key in new]
        return any(found)
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        if old.shape == new.shape and torch.equal(old, new):
            return False
        if old.shape == new.shape and new.ndim and len(new) in (learner.members, learner.seeds):
            rows = learner.networks_of(others) if len(new) == learner.members else list(others)
            new[rows] = old[rows]
            return True
    elif old == new:
        return False
    raise RunError(
        f"{what}: 'apply' changes {name} of its state, which belongs to all seeds of the stack, so it cannot act on "
        f"some of them: keep tensors with an entry for each member, made in attach"
    )
