"""Normalize-and-Project (NaP) normalises before every nonlinearity and keeps the norms of the weights constant.

    h ← φ(norm(Wx + b))        before every nonlinearity, once it has been applied
    W ← W·‖W₀‖_F / ‖W‖_F       after every later update, for each weight matrix or kernel, or for each of its rows

If pre-activations are normalised, only the direction of W matters, and an update turns a longer W less: the effective
learning rate decays. The projection to the norm at step 0 prevents this. The normalisation has no parameters, so no
names change and checkpoints fit. It is over all pre-activations of a sample in a layer, including the positions of a
convolution (Ba et al. 2016), separately for each member of a stack. Biases and other vectors are not projected. The
head is projected by default, although the outputs depend on its length: `scope=[encoder,hidden]` leaves it out.
With `project=false` the layers are only normalised. `per=row` keeps the norm of each unit's incoming weights, as
SimBaV2 does, whose rows have norm 1 (`--network simba_v2` of `sac`). Both are `networks.unit_vectors.rescale_`.

It is meant for the start of a run. Applied later, it changes the function of the network.

Source: Lyle et al. 2024, "Normalization and effective learning rates in reinforcement learning" (arXiv 2407.01800).

Resets: contract `uniform`, as if all weights were rewritten (optimizer state zeroed, target network := online network).
Recorded graphs become invalid, and compiled code is compiled again.

Cost: a normalisation at every layer, and one pass over the weights at every update.
"""

from collections.abc import Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.networks import Layer, Learner, Scope
from supple.networks.hidden_units import check_module
from supple.networks.members import own_axes
from supple.networks.modules import CONV
from supple.networks.unit_vectors import rescale_

from .base import Intervention, interventions
from .contract import UNIFORM, check_optimizer, settle

Norm = Literal["layer", "rms"]
EPSILON = 1e-5


class Normalization:
    """A forward pre-hook of an activation module, which normalises its inputs over the axes from `first` on."""

    def __init__(self, norm: Norm, first: int) -> None:
        self.norm, self.first = norm, first

    def __call__(self, _module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = inputs[0]
        normalize = F.layer_norm if self.norm == "layer" else F.rms_norm
        return (normalize(x, x.shape[self.first :], eps=EPSILON), *inputs[1:])


@interventions.register("nap")
class NormalizeProject(Intervention):
    """Normalise before every nonlinearity and keep the norms of the weights (Lyle et al. 2024).

    Without a schedule it is applied at the start.

    Args:
        normalize: False for networks that have their own normalisation (SimBa); then weights are only projected.
        norm: `layer` (mean 0, variance 1) or `rms` (mean square 1).
        scope: The weights that are projected, if trained.
        project: False for normalisation alone.
        per: Whether each `matrix` keeps its norm, or each `row`.
    """

    at_start = True

    def __init__(
        self, normalize: bool = True, norm: Norm = "layer", scope: Scope = "all", project: bool = True,
        per: Literal["matrix", "row"] = "matrix",
    ) -> None:  # fmt: skip
        if not normalize and not project:
            raise ValueError("nap: it does nothing with normalize=false and project=false; leave one of them true")
        self.normalize, self.norm, self.scope, self.project = normalize, norm, scope, project
        self.per = per
        self._norms: dict[str, tuple[Mapping[str, Tensor], dict[str, Tensor]]] = {}  # step-0 values, norms by layer
        self.saved = {"begun": []}  # names of learners

    def attach(self, learner: Learner) -> None:
        check_optimizer(learner.optimizer)
        for unit in learner.units if self.normalize else ():
            check_module(learner, unit, "nap")
        # a deep linear network has names of hidden units only: normalised, it would compute no linear map
        if self.normalize and all(type(learner.module.get_submodule(unit)) is nn.Identity for unit in learner.units):
            raise ValueError(f"nap: '{learner.name}' has no hidden units with a nonlinearity; use normalize=false")
        for layer in self._layers(learner) if self.project else ():
            if not self._initial_norm(learner, layer).all():
                raise ValueError(f"nap: '{layer.name}' starts at zero and has no norm to keep; exclude it with scope=")

    def contract(self, learner: Learner) -> dict[str, str]:
        effects = ["rescaled to their norms at step 0, now and after every update"] * self.project
        effects += ["normalisation before every nonlinearity"] * self.normalize
        return UNIFORM.describe("; ".join(effects), learner)

    def restructure(self, learner: Learner) -> None:
        added = 0
        for unit in learner.units if self.normalize else ():
            # (batch, …, features) of a linear layer, (batch, channels, …) of a convolution; members before that
            first = 1 + learner.is_stacked(unit) if isinstance(learner.layer_before(unit), CONV) else -1
            for network in (learner.module, *learner.followers):
                module = network.get_submodule(unit)
                if not any(isinstance(hook, Normalization) for hook in module._forward_pre_hooks.values()):
                    # before other hooks, such as a shock's, whose factor it would take out again
                    module.register_forward_pre_hook(Normalization(self.norm, first), prepend=True)
                    added += 1
        if added:
            torch.compiler.reset()  # compiled code does not look whether hooks were added
            learner.changes.append(str(self))

    def apply(self, learner: Learner) -> list[str]:
        check_optimizer(learner.optimizer)
        self.restructure(learner)
        self.saved["begun"] = sorted({*self.saved["begun"], learner.name})
        self.after_update(learner)
        written = [learner.weight_of(layer) for layer in self._layers(learner)]
        settle(learner, written, UNIFORM)
        return written

    @torch.no_grad()
    def after_update(self, learner: Learner) -> None:
        if not self.project or learner.name not in self.saved["begun"]:
            return
        for layer in self._layers(learner):
            rescale_([layer.weight], self._initial_norm(learner, layer), self._axes(layer))

    def _initial_norm(self, learner: Learner, layer: Layer) -> Tensor:
        """Return the norms of a weight at step 0, broadcastable to the weight.

        They are computed again if the learner's step-0 values have been replaced: by those of a checkpoint, or by an
        injection.
        """
        if learner.name not in self._norms or self._norms[learner.name][0] is not learner.initial:
            self._norms[learner.name] = learner.initial, {}
        norms = self._norms[learner.name][1]
        if layer.name not in norms:
            weight = learner.initial[learner.weight_of(layer)]
            norms[layer.name] = torch.linalg.vector_norm(weight, dim=self._axes(layer), keepdim=True)
        return norms[layer.name]

    def _axes(self, layer: Layer) -> tuple[int, ...]:
        """Return the axes of a layer's weight that lie within what keeps its norm."""
        return own_axes(layer)[self.per == "row" :]

    def _layers(self, learner: Learner) -> list[Layer]:
        """Return the layers in the scope that are trained."""
        return [layer for layer in learner.select(self.scope) if layer.weight.requires_grad]
