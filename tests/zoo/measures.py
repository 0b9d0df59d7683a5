"""Everything public that looks at a network and must leave it as it was, as functions of a subject of the zoo."""

import copy
import inspect
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from supple import interventions as I
from supple import metrics as M
from supple import networks as N
from supple.networks.modules import is_activation
from tests.zoo.networks import Subject, forward_of, tensors

UPDATES = 2  # of the fits to random targets
Measure = Callable[[Subject], Any]
MEASURES: dict[str, Measure] = {}
OWN_LOSS = {"gradients", "hessian_eigenvalues"}  # here the zoo runs the network itself
COVERED: dict[str, str] = {}  # public name → the measure that calls it

# Public functions that take numbers of runs, texts, or settings, and no network.
NOT_OF_NETWORKS = {
    *("accuracy_recovery_time", "average_accuracy", "average_online_accuracy", "backward_transfer"),
    *("bootstrap_coverage", "bootstrap_interval", "cheap_metrics", "domain_average", "domain_last", "domain_transfer"),
    *("final_window_return", "forgetting", "forward_transfer", "generalization_gap", "holm", "human_normalized"),
    *("human_normalized_score", "hypervolume", "iqm", "learning_curve_area", "non_recovery_rate"),
    *("online_generalization_gap", "order_disparity", "overall_performance", "paired_difference", "pareto_front"),
    *("peak_saturation", "performance_profile", "plasticity_score", "probability_of_improvement"),
    *("saturation_area", "saturation_recovery_time", "seeds_needed", "share_of_fresh", "share_over_seeds", "sign_flip"),
    *("t_interval", "task_forgetting", "intransigence", "isolated_forgetting", "learning_curve_transfer"),
    *("zero_shot_transfer",),
    *("total_average_online_accuracy", "activation", "parse_activation", "hidden_linear", "hidden_norm"),
    *("no_batches", "normal_like", "did_you_mean", "make", "parse_call"),
    *("parse_hook", "parse_hook_text"),
}
# Public functions that change the network, which trials.py tries.
WRITE = {
    *(
        "set_generators",
        "stack_networks",
        "copy_module_",
        "restore_",
        "balance_layers_",
        "fire_",
        "rebalance_",
        "recycle_",
        "restructure",
    ),
    *("settle", "shrink_perturb_", "sib_", "zero_slots_"),
}


def measures(*covers: str) -> Callable[[Measure], Measure]:
    """Add a function to the measures; `covers` are the public functions that it calls."""

    def add(function: Measure) -> Measure:
        MEASURES[function.__name__] = function
        COVERED.update(dict.fromkeys(covers, function.__name__))
        return function

    return add


def forward(it: Subject) -> Callable[..., Any] | None:
    """The function to call instead of the module, for the networks that have one."""
    if it.kind.forward == "forward":
        return None
    return lambda *inputs: forward_of(it.module, it.kind.forward, inputs)


def units_of(it: Subject) -> dict[str, Tensor]:
    """The recorded units of the learner."""
    learner = it.learner
    return dict(N.record(learner.module, learner.units, it.inputs, forward=forward(it)).units)


def weights_of(it: Subject) -> list[Tensor]:
    return [layer.weight for layer in it.learner.layers]


@measures("measure")
def measure(it: Subject) -> Any:
    return M.measure(it.learner, per_layer=True)


@measures()
def measure_costly(it: Subject) -> Any:
    return M.measure(it.learner, costly=True)


@measures()
def measure_a_view(it: Subject) -> Any:
    view = M.View(it.learner)
    return M.measure(view), view.slopes, view.unit_gradients, view.isometry, view.sample_losses


@measures("measure_members")
def measure_members(it: Subject) -> Any:
    return M.measure_members(it.learner)


@measures("trainability")
def trainability(it: Subject) -> Any:
    return M.trainability(it.learner, updates=UPDATES)


@measures("diagnose")
def diagnose(it: Subject) -> Any:
    return M.diagnose(it.learner, updates=UPDATES).verdict()


@measures("record")
def record(it: Subject) -> Any:
    return N.record(it.module, it.learner.units, it.inputs, forward=forward(it))


@measures()
def record_every_module(it: Subject) -> Any:
    names = [name for name, part in it.module.named_modules() if is_activation(part)]
    return N.record(it.module, names, it.inputs, forward=forward(it))


@measures("trace_wiring")
def trace_wiring(it: Subject) -> Any:
    return N.trace_wiring(it.module, it.learner.units)


@measures("unit_names", "chain")
def names(it: Subject) -> Any:
    return N.unit_names(it.module), N.chain(it.module)


@measures("scale_pairs")
def scale_pairs(it: Subject) -> Any:
    return N.scale_pairs(it.module)


@measures("learner_for")
def another_learner(it: Subject) -> Any:
    return N.learner_for(it.module, it.learner.optimizer)


@measures()
def linear_pairs(it: Subject) -> Any:
    return it.learner.linear_pairs(), it.learner.pairs_and_reasons()


@measures("contract_for")
def contract(it: Subject) -> Any:
    return I.contract_for("fire", "uniform", it.learner).describe("all", it.learner)


@measures("weight_matrices")
def weight_matrices(it: Subject) -> Any:
    return N.weight_matrices(it.module)


@measures("snapshot")
def snapshot(it: Subject) -> Any:
    return N.snapshot(it.module)


@measures("redraw")
def redraw(it: Subject) -> Any:
    return N.redraw(it.module, torch.Generator().manual_seed(0))


@measures()
def outputs(it: Subject) -> Any:
    values = {name: p.detach() for name, p in it.module.named_parameters()}
    return it.learner.outputs(values, it.inputs)


@measures()
def outputs_of_others(it: Subject) -> Any:
    values = {name: (p.detach() * 0.5).to(p.dtype) for name, p in it.module.named_parameters()}
    return it.learner.outputs(values, it.inputs)


@measures()
def scopes(it: Subject) -> Any:
    layers = it.learner.select("all")
    return it.learner.parameters_of(layers), [it.learner.weight_of(layer) for layer in layers], it.learner.trained()


@measures("evaluating")
def evaluating(it: Subject) -> Any:
    with N.evaluating(it.module):
        return [part.training for part in it.module.modules()]


@measures("unchanged")
def unchanged(it: Subject) -> Any:
    with N.unchanged(it.module):
        return it.run()


@measures("weight_norm", "gradient_norm", "sfe")
def norms(it: Subject) -> Any:
    return M.weight_norm(it.module), M.gradient_norm(it.module), M.sfe(it.module, it.learner.initial)


@measures("dfi", "dfi_unscaled", "isometry_scale", "parseval_penalty", "orthogonalize")
def isometries(it: Subject) -> Any:
    return [
        (M.dfi(w), M.dfi_unscaled(w), M.isometry_scale(w), I.parseval_penalty(w), I.orthogonalize(w, method="polar"))
        for w in weights_of(it)
    ]


@measures("lambda_balance", "lambda_residual")
def balances(it: Subject) -> Any:
    layers = [layer.module for layer in it.learner.layers]
    return [(M.lambda_balance(a, b), M.lambda_residual(a, b)) for a, b in pairwise(layers)]


@measures("activity_scores", "dormant_fraction", "effective_rank", "feature_rank", "numerical_rank", "srank",
          "feature_covariance_distance", "dead_fraction", "saturation_fraction")  # fmt: skip
def features(it: Subject) -> Any:
    return [
        (M.activity_scores(h), M.dormant_fraction(h), M.effective_rank(h), M.feature_rank(h), M.numerical_rank(h),
         M.srank(h), M.feature_covariance_distance(h, h), M.dead_fraction(h), M.saturation_fraction(h))
        for h in units_of(it).values()
    ]  # fmt: skip


@measures("activation_slopes", "derivative", "initial_gain", "properties")
def slopes(it: Subject) -> Any:
    x = torch.linspace(-2, 2, 24).view(4, 6)
    parts = [part for part in it.module.modules() if is_activation(part)]
    return [(M.activation_slopes(p, x), N.derivative(p, x), N.initial_gain(p), N.properties(p)) for p in parts]


@measures("per_sample_gradients", "gradient_covariance", "gradient_effective_rank", "small_gradient_fraction")
def gradients(it: Subject) -> Any:
    trained = list(it.learner.trained().values())
    with N.evaluating(it.module):
        found = M.per_sample_gradients(it.losses(), trained)
    return M.gradient_covariance(found), M.gradient_effective_rank(found), M.small_gradient_fraction(found)


@measures("hessian_eigenvalues")
def hessian_eigenvalues(it: Subject) -> Any:
    with N.evaluating(it.module):
        return M.hessian_eigenvalues(it.learner.loss, it.learner.trained().values(), max_iterations=3)


@measures("update_ratio", "value_churn", "policy_churn")
def churn(it: Subject) -> Any:
    now = [p.detach().double().reshape(1, -1) for p in it.learner.trained().values()]
    (first, *_) = tensors(it.learner.outputs(dict(it.module.named_parameters()), it.inputs))
    rows = first.detach().reshape(1, -1)
    return M.update_ratio(now, [p + 1 for p in now]), M.value_churn(rows, rows), M.policy_churn(rows[0], rows[0])


@measures("members")
def members(it: Subject) -> Any:
    return it.learner.members, [it.learner.is_stacked(unit) for unit in it.learner.units]


@measures("direct")
def direct(it: Subject) -> Any:
    return N.direct(*it.module.children())


@measures()
def copied(it: Subject) -> Any:
    """Copy the values of the module into a copy of it."""
    try:
        other = copy.deepcopy(it.module)
    except RuntimeError as error:  # a module that PyTorch itself cannot copy
        raise ValueError(str(error).splitlines()[0]) from error
    N.copy_module_(other, it.module)
    N.restore_(other, N.snapshot(it.module))


def public_functions() -> set[str]:
    """Return the names of the public functions of networks, metrics and interventions."""
    found = set()
    for room in (N, M, I):
        for name in room.__all__:
            part = getattr(room, name)
            if inspect.isfunction(part):
                found.add(name)
    return found


def refusal(error: Exception) -> str | None:
    """Return what is wrong with an error as a refusal, or None: it must be a ValueError of one short line."""
    text = str(error)
    if not isinstance(error, ValueError):
        return f"{type(error).__name__}: {(text.splitlines() or [''])[0][:160]}"
    if "\n" in text or not text.strip():
        return f"ValueError of several lines: {(text.splitlines() or [''])[0][:160]}"
    if len(text) >= 400:
        return f"ValueError of {len(text)} characters: {text[:160]}"
    return None
