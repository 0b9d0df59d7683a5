"""What looks at a network and must leave it as it was, as functions of a subject of the zoo."""

import copy
from collections.abc import Callable
from typing import Any

import torch

from supple import metrics as M
from supple import networks as N
from supple.interventions import contract_for
from supple.networks.modules import is_activation
from tests.zoo.networks import Subject

UPDATES = 2  # of the fits to random targets


def look_at_the_view(it: Subject) -> Any:
    view = M.View(it.learner)
    return M.measure(view), view.slopes, view.unit_gradients, view.isometry, view.sample_losses


def record(it: Subject) -> Any:
    kind, names = it.kind, [name for name, part in it.module.named_modules() if is_activation(part)]
    forward = kind.forward and (lambda *inputs: kind.forward(it.module, *inputs))
    return [N.record(it.module, units, it.inputs, forward=forward) for units in (it.learner.units, names)]


def outputs_of_others(it: Subject) -> Any:
    values = {name: (p.detach() * 0.5).to(p.dtype) for name, p in it.module.named_parameters()}
    return it.learner.outputs(values, it.inputs)


def look_at_the_layers(it: Subject) -> Any:
    learner, layers = it.learner, it.learner.select("all")
    parts = learner.parameters_of(layers), [learner.weight_of(layer) for layer in layers], learner.trained()
    return parts, learner.linear_pairs(), contract_for("fire", "uniform", learner).describe("all", learner)


def look_at_the_activations(it: Subject) -> Any:
    x, parts = torch.linspace(-2, 2, 24).view(4, 6), [part for part in it.module.modules() if is_activation(part)]
    return [(M.activation_slopes(p, x), N.derivative(p, x), N.initial_gain(p), N.properties(p)) for p in parts]


def copy_values(it: Subject) -> Any:
    try:
        other = copy.deepcopy(it.module)
    except RuntimeError as error:  # a module that PyTorch itself cannot copy
        raise ValueError(str(error).splitlines()[0]) from error
    N.copy_module_(other, it.module)
    N.restore_(other, N.snapshot(it.module))


MEASURES: dict[str, Callable[[Subject], Any]] = {
    "measure": lambda it: M.measure(it.learner, per_layer=True),
    "trainability": lambda it: M.trainability(it.learner, updates=UPDATES),
    "diagnose": lambda it: M.diagnose(it.learner, updates=UPDATES).verdict(),
    "record": record,
    "names": lambda it: (N.unit_names(it.module), N.chain(it.module)),
    "trace_wiring": lambda it: N.trace_wiring(it.module, it.learner.units),
    "outputs_of_others": outputs_of_others,
    "measure(costly=True)": lambda it: M.measure(it.learner, costly=True),
    "View": look_at_the_view,
    "measure_members": lambda it: M.measure_members(it.learner),
    "learner_for": lambda it: N.learner_for(it.module, it.learner.optimizer),
    "layers": look_at_the_layers,
    "activations": look_at_the_activations,
    "weights": lambda it: (N.weight_matrices(it.module), N.scale_pairs(it.module)),
    "redraw": lambda it: N.redraw(it.module, torch.Generator().manual_seed(0)),
    "copies": copy_values,
    "norms": lambda it: (M.weight_norm(it.module), M.gradient_norm(it.module), M.sfe(it.module, it.learner.initial)),
}
QUICK = list(MEASURES)[:7]
