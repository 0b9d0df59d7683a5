"""Undo what hooks do to learners when they are attached, so that one network can be used to check many hooks."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from supple.interventions import Learner
from supple.networks.unchanged import keep_states


@contextmanager
def preserve(learners: Iterable[Learner]) -> Iterator[None]:
    """Give these learners back, at the end of this block, everything that they had at its beginning.

    That is: their attributes, the parts and values of their networks and followers, their optimizers, and the states of
    all generators.
    """
    with ExitStack() as stack:
        for learner in learners:
            stack.enter_context(_preserve_attributes(learner))
            for module in (learner.module, *learner.followers):
                stack.enter_context(_preserve_module(module))
            if learner.optimizer is not None:
                stack.enter_context(_preserve_optimizer(learner.optimizer))
            stack.enter_context(keep_states(learner.draws))
        stack.enter_context(torch.random.fork_rng(devices=[]))
        yield


@contextmanager
def _preserve_attributes(thing: Any) -> Iterator[None]:
    """Restore the class and the attributes of an object, with the contents of those that are dictionaries or lists."""
    of_class, attributes = type(thing), dict(vars(thing))
    contents = {name: value.copy() for name, value in attributes.items() if isinstance(value, dict | list)}
    try:
        yield
    finally:
        if type(thing) is not of_class:
            thing.__class__ = of_class
        vars(thing).clear()
        vars(thing).update(attributes)
        for name, content in contents.items():
            value = attributes[name]
            value.clear()
            value.update(content) if isinstance(value, dict) else value.extend(content)


@contextmanager
def _preserve_module(module: nn.Module) -> Iterator[None]:
    """Restore a module: its parts, their attributes, and the values of all tensors."""
    tensors = {*module.parameters(), *module.buffers()}
    values = [(tensor, tensor.data, tensor.detach().clone(), tensor.requires_grad) for tensor in tensors]
    with ExitStack() as stack:
        for part in module.modules():
            stack.enter_context(_preserve_attributes(part))
        try:
            yield
        finally:
            for tensor, data, value, trained in values:
                tensor.data = data
                data.copy_(value)
                if tensor.is_leaf:
                    tensor.requires_grad_(trained)


@contextmanager
def _preserve_optimizer(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Restore an optimizer: its class, its groups of parameters with their options, and its state."""
    groups = [(group, dict(group), list(group["params"])) for group in optimizer.param_groups]
    states = [(state, dict(state)) for state in optimizer.state.values()]
    with _preserve_attributes(optimizer):
        try:
            yield
        finally:
            for group, options, parameters in groups:
                options["params"][:] = parameters
                group.clear()
                group.update(options)
            for state, values in states:
                state.clear()
                state.update(values)
