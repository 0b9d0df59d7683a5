"""The gradient step: loss, penalties, gradients, clipping and optimizer. All before clipping is eager or compiled."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from supple.engine.compile import compile_step as compile_step
from supple.engine.hooks.driver import HookDriver
from supple.networks.activations import RandomActivation
from supple.networks.optimizers import clip_, match_layout, step
from supple.networks.unchanged import keep_states

from .model import Model


class Update:
    """One gradient step of all members, each on its own batch. Nothing waits for the GPU."""

    def __init__(self, model: Model, hooks: HookDriver, compiled: bool) -> None:
        self.model, self.hooks, self.learner = model, hooks, model.learner
        self.compiled = compile_step(self._gradients) if compiled and hooks.traceable else None
        self.architecture = -1  # the changes that `parameters` and `random` are of
        self.parameters: list[nn.Parameter] = []
        self.random: list[RandomActivation] = []

    def __call__(self, images: Tensor, labels: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """Make one gradient step. Return the mean loss and the hits of the task's own images, both (members,).

        Both are values from before the step.

        Args:
            images: (members, n, c, h, w) uint8.
            labels: (members, n).
            rate: The learning rate, as a share of the initial one.
        """
        optimizer = self.learner.optimizer
        assert optimizer is not None
        self.hooks.before_loss(self.learner)
        loss, hits, gradients = self._differentiate(images, labels)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        if (limit := self.model.settings.max_grad_norm) is not None:
            clip_(self.parameters, limit, self.model.stacked)
        for group in optimizer.param_groups:
            group["lr"] = rate * group.setdefault("initial_lr", group["lr"])
        self.hooks.before_update(self.learner)
        step(optimizer)
        self.model.updates += 1
        self.hooks.after_update(self.learner)
        return loss, hits

    def _differentiate(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
        network = self.model.network
        if self.architecture != len(self.learner.changes):
            self.architecture = len(self.learner.changes)
            self.parameters = [p for p in network.parameters() if p.requires_grad]
            self.random = [part for part in network.modules() if isinstance(part, RandomActivation)]
            if self.compiled and self.random:
                self._trace_random_shapes(images, labels)
        if not self.compiled:
            return self._gradients(images, labels, self.parameters)
        for part in self.random:
            part.draw_ahead()
        result = self.compiled(images, labels, self.parameters)
        for part in self.random:
            part.ahead = None
        return result

    @torch.no_grad()
    def _trace_random_shapes(self, images: Tensor, labels: Tensor) -> None:
        """Make an eager forward pass, which shows in what shapes random activations draw. It changes no later number.

        A resumed run makes it too, at another update than a run that was never interrupted."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.network.buffers()]
        with keep_states(dict.fromkeys(source for part in self.random for source in part.generators or ())):
            self.model.losses(self.model.pixels(images), labels)
        for buffer, before in buffers:
            buffer.copy_(before)

    def _gradients(
        self, images: Tensor, labels: Tensor, parameters: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        losses, hits = self.model.losses(self.model.pixels(images), labels)
        total = losses.mean(1).sum()
        if self.hooks.penalizes:
            total = total + self.hooks.drawn_penalty(self.learner)
        gradients = torch.autograd.grad(total, parameters)
        count = self.model.settings.batch_size  # without those from memory
        numbers = losses.detach()[:, :count].mean(1), hits[:, :count].sum(1)
        return *numbers, [match_layout(p, gradient) for p, gradient in zip(parameters, gradients, strict=True)]
