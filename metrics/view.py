"""The data that metrics use: a learner's weights and the outputs of one forward pass on recent data, computed once.

Each member of a stack (the critics of SAC, several seeds trained together) is a network of its own. Values of all of
them are in one tensor, members first. A plain network has one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from supple.networks.forward import check_inputs
from supple.networks.gradients import loss_gradients
from supple.networks.learner import Learner
from supple.networks.matrices import unfit, weight_matrices
from supple.networks.recording import Called, record
from supple.networks.unchanged import keep_states, leave_inference, unchanged

from .features import spectra
from .saturation import activation_slopes
from .weights import deviations, gram_matrices


@dataclass
class View:
    """A learner at one step, for metrics. Its probe is run at most once, and only if a metric needs it.

    Attributes:
        learner: The learner.
        seeds: Use only the networks of these seeds of a stack of seeds, by their positions, ascending.
    """

    learner: Learner
    seeds: Sequence[int] | None = None

    @property
    def members(self) -> int | None:
        """The number of networks if the learner is a stack, else None."""
        return self.learner.members or None

    @cached_property
    def chosen(self) -> list[int] | None:
        """The selected members, or None for all."""
        if self.seeds is None or len(self.seeds) == self.learner.seeds:
            return None
        return self.learner.networks_of(self.seeds)

    @property
    def networks(self) -> int:
        """The number of networks for which each metric has a value."""
        return self.members or 1 if self.chosen is None else len(self.chosen)

    def select(self, values: Tensor) -> Tensor:
        """Return the part of (members, …) values that belongs to the selected members."""
        return values if self.chosen is None else values[self.chosen]

    def by_network(self, values: Tensor) -> Tensor:
        """Return values (members, …) by network, (networks, …).

        If the learner is not a stack, the members of its stacked layers belong to one network.
        """
        return values.reshape(self.networks, -1)

    @cached_property
    def probe(self) -> Sequence[Any] | None:
        """Recent inputs, or None before there are any."""
        return leave_inference(check_inputs(self.learner.probe()))

    @cached_property
    def recording(self) -> dict[str, Called]:
        learner = self.learner
        if self.probe is None:
            raise RuntimeError(f"'{learner.name}' has seen no data yet")
        names = learner.units if learner.features is None else (*learner.units, learner.features)
        return record(learner.module, names, self.probe, learner.run)

    @property
    def has_units(self) -> bool:
        """Whether hidden units can be recorded: there are some, and there are data."""
        return bool(self.learner.units) and self.probe is not None

    @property
    def outputs(self) -> dict[str, Tensor]:
        """Post-activation units by module name, (members, n, …)."""
        return {name: self._by_member(self.recording[name].output, of=name) for name in self.learner.units}

    @property
    def features(self) -> Tensor:
        """The features that the heads read, (members, rows, …)."""
        last = self.learner.units[-1]
        return self._by_member(self.recording[self.learner.features or last].output, of=last)

    def _by_member(self, values: Tensor, of: str) -> Tensor:
        """Return a module's values (members, n, …), members being those of the stack that the units `of` belong to.

        Channels of a signal, (n, C, L), are (n, C, L, 1), which tells them from the tokens of a transformer, (n, T, D).
        """
        if values.ndim == 3 and isinstance(self.learner.layer_before(of), nn.Conv1d):
            values = values[..., None]
        return self.select(values) if self.learner.is_stacked(of) else values[None]

    @cached_property
    def spectrum(self) -> tuple[Tensor, torch.Size, torch.dtype]:
        """The singular values of the features, (members, r), see `spectra`; the features' shape and dtype."""
        return *spectra(self.features), self.features.dtype

    @cached_property
    def slopes(self) -> dict[str, Tensor]:
        """|φ′| at every pre-activation, (members, n, …), by name of the units; NaN where that is not finite.

        Units whose module contains layers (a whole block) are left out, because they have no φ.
        """
        if not self.has_units:
            return {}
        layers = {id(layer.module) for layer in self.learner.layers}
        slopes = {}
        for name in self.learner.units:
            called, inputs = self.recording[name].made_by, self.recording[name].input
            block = isinstance(called, nn.Module) and any(id(part) in layers for part in called.modules())
            if inputs is not None and not block:
                found = activation_slopes(called, inputs).masked_fill(~inputs.isfinite(), torch.nan)
                slopes[name] = self._by_member(found, of=name)
        return slopes

    @cached_property
    def isometry(self) -> list[tuple[Tensor, Tensor, int]]:
        """For each weight: the DfI of its matrices, (members,), the unscaled DfI, and the number of singular values.

        One Gram product serves both numbers.
        """
        grams = ((gram_matrices(matrices), scale) for matrices, scale in self.matrices)  # one at a time in memory
        return [
            (deviations(gram).sum(1), deviations(gram / scale**2).sum(1), gram.shape[1] * gram.shape[2])
            for gram, scale in grams
        ]

    @cached_property
    def matrices(self) -> list[tuple[Tensor, float]]:
        """For each weight: its matrices, (members, matrices, d_out, d_in), and FIRE's scale s of their isometry.

        Weights are those of the learner's layers, and those of recurrent and attention modules. Each tap of a
        convolution and each part of a fused layer is a matrix. `members` is 1 for weights that are not stacked, and for
        one member of a stack. `by_network` brings a number of each matrix, (members, matrices), to (networks, …).
        Weights that are no matrices of floating-point numbers, and the factors of adapters, are left out.
        """
        with unchanged(self.learner.module):  # a parametrized weight computes itself, and changes its buffers
            return list(self._find_matrices())

    def _find_matrices(self) -> Iterator[tuple[Tensor, float]]:
        kernels = {layer.kernel: layer for layer in self.learner.layers}  # a tied one once
        for kernel, layer in kernels.items():
            if layer.factor or unfit(kernel):
                continue
            weight = layer.describe(self.select(kernel) if layer.stacked else kernel)
            matrices = weight.matrices() if layer.stacked else weight.matrices()[None]
            yield matrices.flatten(1, -3), weight.scale()
        others = weight_matrices(self.learner.module)
        for name in others.weights:
            if name in others.several:
                weight = others.weights[name]
                yield weight.matrices()[None].flatten(1, -3), weight.scale()

    @cached_property
    def gradients(self) -> dict[str, Tensor]:
        """The gradients of the loss on the recent batch, by name of the parameter, of its shape, (…).

        Parameters that the loss does not reach are left out. `.grad` does not change.
        """
        trained = self.learner.trained()
        if not trained:
            return {}
        gradients = zip(trained, loss_gradients(self.learner, list(trained.values())), strict=True)
        return {name: gradient for name, gradient in gradients if gradient is not None}

    @cached_property
    def unit_gradients(self) -> list[Tensor]:
        """The gradients of the weights before hidden units, (networks, units, weights), for each layer.

        Heads, and layers that the loss does not reach, are left out.
        """
        gradients = []
        for layer in self.learner.layers:
            gradient = self.gradients.get(layer.weight_name)
            if layer.role != "head" and gradient is not None:
                gradient = gradient.mT if layer.transposed else gradient
                stacked = self.select(gradient) if layer.stacked else gradient[None]
                gradients.append(stacked.flatten(2))
        # what is stacked in a learner that is not is more units of one network
        return [rows.reshape(self.networks, -1, rows.shape[-1]) for rows in gradients]

    @property
    def marked(self) -> dict[str, Tensor] | None:
        """The trained parameters at the last measurement.

        None before the first measurement, and if their number or shapes have changed since.
        """
        trained, marked = self.learner.trained(), self.learner.marked
        if marked is None or {n: p.shape for n, p in trained.items()} != {n: p.shape for n, p in marked.items()}:
            return None
        return marked

    @cached_property
    def outputs_before_and_now(self) -> tuple[tuple[Any, dict[str, Tensor]], tuple[Any, dict[str, Tensor]]]:
        """The outputs on the probe and all parameters, (…) by name, once at the last measurement and once now."""
        assert self.probe is not None
        assert self.marked is not None
        now = {name: p.detach() for name, p in self.learner.module.named_parameters()}
        before = now | self.marked
        with torch.no_grad():
            outputs = [self.learner.outputs(parameters, self.probe) for parameters in (before, now)]
        return (outputs[0], before), (outputs[1], now)

    @cached_property
    def sample_losses(self) -> Tensor | None:
        """The differentiable training losses of single samples of one batch, (n,) or (members, n).

        None if the learner has no `batches`. The states of the learner's generators are restored.
        """
        try:
            with keep_states(self.learner.draws), unchanged(self.learner.module):
                return next(self.learner.batches(1), None)
        except ValueError:
            return None
