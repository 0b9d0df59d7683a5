"""Metrics of a learner by name: weights, units, gradients and curvature on recent data.

Metrics are computed for each network. For a stack, they are computed for each member. Its own value is the sum or the
pooled value over the layers of all members if the metric is defined over several layers (dfi, norms, dormant units),
and the mean over members if it is defined for one feature matrix (ranks).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.networks.activations import SATURATED
from supple.networks.gradients import scalar_loss
from supple.networks.learner import Learner
from supple.networks.linear_pairs import LinearPair
from supple.networks.unchanged import measuring, unchanged
from supple.registry import Registry, naming, summary

from .balance import deviation_of, nearest_lambda
from .churn import policy_churn, update_ratio, value_churn
from .curvature import NotFinite, hessian_eigenvalues
from .features import count_holding, count_large, count_resolved, entropy_rank, member_scores, zero_or_nan
from .gradients import gradient_effective_rank, per_sample_gradients, small_gradient_fraction
from .view import View

Measured = list[dict[str, float]]  # the values by name, for each seed
SAMPLES = 64  # of which per-sample gradients are held at once

POOLS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
    "norm": torch.linalg.vector_norm,
}

# What a metric may need → whether a view has it.
NEEDS: dict[str, Callable[[View], bool]] = {
    "weights": lambda view: True,
    "matrices": lambda view: bool(view.matrices),
    "pairs": lambda view: bool(view.learner.linear_pairs()),
    "batch": lambda view: view.probe is not None and bool(view.learner.trained()),
    "units": lambda view: view.has_units,
    "slopes": lambda view: bool(view.slopes),
    "samples": lambda view: bool(view.learner.trained()) and view.sample_losses is not None,
    "hidden": lambda view: view.probe is not None and bool(view.unit_gradients),
    "marked": lambda view: bool(view.marked),
    "policy": lambda view: view.probe is not None and bool(view.marked) and view.learner.policy is not None,
    "values": lambda view: view.probe is not None and bool(view.marked) and view.learner.values is not None,
}


@dataclass(frozen=True)
class Metric:
    """A number computed from a network: its description, the data it needs, and its function.

    Your own metric is measured, logged and available to `@when` after its registration:
    `metrics.register("name")(Metric(…))`.

    Attributes:
        about: What it is, for `supple list`.
        needs: What the function uses of its view. Where a view does not have it, the metric is left out.

            - "weights": parameters. Every view has some.
            - "matrices": `view.matrices`.
            - "pairs": consecutive linear maps, `view.learner.linear_pairs()`.
            - "batch": the loss on recent inputs, `view.gradients`.
            - "hidden": the gradients of the weights before hidden units, `view.unit_gradients`.
            - "samples": the losses of single samples, `view.sample_losses`.
            - "units": `view.outputs`, `view.features` and `view.spectrum` on recent inputs.
            - "slopes": the activations' derivatives on recent inputs, `view.slopes`.
            - "marked": the parameters at the last measurement, `view.marked`.
            - "policy", "values": `view.outputs_before_and_now`, and the learner's `policy` or `values`.
        value: Computes the number of each network in a view, (networks,); NaN where the metric is undefined. One member
            with outputs, losses or gradients that are not finite must not change the numbers of the others.
        pool: How the numbers of a stack's members are combined, by "sum", "mean", "max", "min" or "norm".
        costly: It takes many passes over data, so it is only measured on request (`--curvature True`).

    Raises:
        ValueError: `needs` or `pool` is unknown.
    """

    about: str
    needs: str
    value: Callable[[View], Tensor]
    pool: str = "mean"
    costly: bool = False

    def __post_init__(self) -> None:
        for name, value, known in (("needs", self.needs, NEEDS), ("pool", self.pool, POOLS)):
            if value not in known:
                raise ValueError(f"Metric {self.about!r}: {name} must be one of {', '.join(known)}, got {value!r}")


def _mean_per_dimension(view: View, deviations: list[Tensor]) -> Tensor:
    """Return the deviations of each layer, (members,), over the number of all singular values."""
    count = sum(size * len(of) for of, (_, _, size) in zip(deviations, view.isometry, strict=True)) / view.networks
    return torch.stack([view.by_network(of).sum(1) for of in deviations]).sum(0) / count


def _global_norm(view: View, tensors: list[Tensor]) -> Tensor:
    """Return the global L2 norm; for the tensors of a stack, of each member's slices."""
    parts = [view.by_network(view.select(t.detach())) for t in tensors if t.is_floating_point()]  # others are quantised
    norms = [torch.linalg.vector_norm(part, dim=1, dtype=torch.float64) for part in parts]
    return torch.linalg.vector_norm(torch.stack(norms), dim=0) if norms else torch.zeros(view.networks)


def _mean_over_pairs(of: Callable[[LinearPair], Tensor], view: View) -> Tensor:
    """Return the mean over the pairs of consecutive linear maps of a number of each pair, () or (members,)."""
    values = [of(pair) for pair in view.learner.linear_pairs()]
    return torch.stack([view.by_network(view.select(v) if v.ndim else v[None]).mean(1) for v in values]).mean(0)


def _update_ratio(view: View) -> Tensor:
    """Return ‖Δθ‖/‖θ‖ of the trained parameters since they were marked."""
    assert view.marked is not None  # `needs` says so
    now = view.learner.trained()
    before = [view.marked[name] for name in now]
    old, new = ([view.by_network(view.select(t)) for t in tensors] for tensors in (before, now.values()))
    return update_ratio(old, new)


def _policy_churn(view: View) -> Tensor:
    assert view.learner.policy is not None
    churn = policy_churn(*(view.learner.policy(*of) for of in view.outputs_before_and_now))
    return churn.mean()[None] if view.members is None else view.select(churn)


def _value_churn(view: View) -> Tensor:
    assert view.learner.values is not None
    before, now = (
        view.by_network(view.select(view.learner.values(outputs))) for outputs, _ in view.outputs_before_and_now
    )
    return value_churn(before, now)


def _share_dormant(view: View, *layers: Tensor) -> Tensor:
    """Return the share of the units of these layers, (members, n, …) each, that are dormant at τ = 0."""
    scores = torch.cat([view.by_network(member_scores(layer)) for layer in layers], dim=1)
    return (scores <= 0).double().mean(1) + zero_or_nan(scores)


def _share_saturated(view: View) -> Tensor:
    layers = [view.by_network(slopes) for slopes in view.slopes.values()]
    counts = [(slopes < SATURATED).sum(1) + zero_or_nan(slopes) for slopes in layers]
    return torch.stack(counts).sum(0) / sum(layer.shape[1] for layer in layers)


def _find_lambda_max(view: View) -> Tensor:
    wanted = view.learner.trained().values()
    try:
        with unchanged(view.learner.module):
            values = hessian_eigenvalues(lambda: scalar_loss(view.learner), wanted, members=view.members)
    except NotFinite:
        return torch.full((view.networks,), torch.nan)
    if view.members is None:
        return values
    infinite = 0.0 if view.sample_losses is None else zero_or_nan(view.sample_losses)  # the loss is the members' sum
    return view.select(values[:, 0] + infinite)


def _rank_gradients(view: View) -> Tensor:
    losses = view.sample_losses
    assert losses is not None  # `needs` says so
    losses = losses[..., :SAMPLES]
    if view.members is None:  # one network, though some of it may be stacked
        losses = losses.reshape(-1, losses.shape[-1]).sum(0)
    gradients = per_sample_gradients(losses, view.learner.trained().values())
    gradients = gradients[None] if view.members is None else view.select(gradients)
    infinite = zero_or_nan(gradients)
    return gradient_effective_rank(gradients.nan_to_num_(0.0, 0.0, 0.0)) + infinite


def _make_feature_metric(number: Callable[[Tensor, torch.Size, torch.dtype], Tensor]) -> Callable[[View], Tensor]:
    """Return a metric of the features: a number of their singular values, shape and type."""
    return lambda view: view.by_network(number(*view.spectrum) + zero_or_nan(view.spectrum[0])).mean(1)


metrics: Registry[Metric] = Registry("metric", {
    "dfi": Metric(
        "deviation from isometry (FIRE eq. 2), summed over all weight matrices", "matrices",
        lambda v: torch.stack([v.by_network(dfi).sum(1) for dfi, _, _ in v.isometry]).sum(0), "sum",
    ),
    "dfi_per_dim": Metric(
        "deviation from isometry per dimension: mean of (σ² − 1)² over all singular values of all matrices",
        "matrices",
        lambda v: _mean_per_dimension(v, [dfi for dfi, _, _ in v.isometry]),
    ),
    "dfi_unscaled": Metric(
        "dfi_per_dim of every W divided by its FIRE scale: 0 right after an exact FIRE",
        "matrices",
        lambda v: _mean_per_dimension(v, [unscaled for _, unscaled, _ in v.isometry]),
    ),
    "weight_norm": Metric(
        "L2 norm of all parameters", "weights", lambda v: _global_norm(v, list(v.learner.module.parameters())), "norm"
    ),
    "lambda_balance": Metric(
        "λ that minimises ‖W2ᵀW2 − W1W1ᵀ − λI‖, mean over pairs of consecutive linear maps (the λ-balanced paper)",
        "pairs",
        lambda v: _mean_over_pairs(nearest_lambda, v),
    ),
    "lambda_residual": Metric(
        "root mean square over hidden units of W2ᵀW2 − W1W1ᵀ − λI for lambda_balance's λ, mean over the same pairs",
        "pairs",
        lambda v: _mean_over_pairs(deviation_of, v),
    ),
    "gradient_norm": Metric(
        "L2 norm of the loss gradient on a recent batch",
        "batch",
        lambda v: _global_norm(v, list(v.gradients.values())),
        "norm",
    ),
    "small_gradient_fraction": Metric(
        "share of units whose weights have a mean |gradient| of at most 1 % of their layer's (GraMa, Liu et al. 2025)",
        "hidden",
        lambda v: small_gradient_fraction(*v.unit_gradients),
    ),
    "update_ratio": Metric("‖Δθ‖/‖θ‖ of the trained parameters since the last measurement", "marked", _update_ratio),
    "policy_churn": Metric(
        "change of the policy since the last measurement on a recent batch: KL, or share of changed greedy actions",
        "policy",
        _policy_churn,
    ),
    "value_churn": Metric(
        "mean |change| of the values since the last measurement on a recent batch", "values", _value_churn
    ),
    "dormant_fraction": Metric(
        "share of units that are (nearly) always 0 on a recent batch, pooled over layers",
        "units",
        lambda v: _share_dormant(v, *v.outputs.values()),
    ),
    "saturated_fraction": Metric(
        "share of (sample, unit) pairs of a recent batch with |φ′| < 0.001 (Lillo & Cheney 2025, Section 4)",
        "slopes",
        _share_saturated,
    ),
    "srank": Metric(
        "smallest k whose k largest singular values of the features hold 99 % of the sum (Kumar et al. 2021)",
        "units",
        _make_feature_metric(lambda values, *_: count_holding(values, 0.99)),
    ),
    "effective_rank": Metric(
        "exp of the entropy of the features' singular values (Roy & Vetterli 2007)",
        "units",
        _make_feature_metric(lambda values, *_: entropy_rank(values)),
    ),
    "feature_rank": Metric(
        "number of singular values of the features / √n above 0.01 (Lyle et al. 2022)",
        "units",
        _make_feature_metric(lambda values, shape, _: count_large(values, shape[-2])),
    ),
    "numerical_rank": Metric(
        "number of singular values of the features above rounding, σ₁ · max(n, d) · ε",
        "units",
        _make_feature_metric(count_resolved),
    ),
    "feature_norm": Metric(
        "L2 norm of a sample's features, root mean square over a recent batch (of pre-activations: Moalla et al. 2024)",
        "units",
        _make_feature_metric(lambda values, shape, _: values.norm(dim=-1) / shape[-2] ** 0.5),
    ),
    "lambda_max": Metric(
        "largest eigenvalue of the loss's Hessian on a recent batch (FIRE, Figure 5b)",
        "batch",
        _find_lambda_max,
        "max",
        True,
    ),
    "gradient_effective_rank": Metric(
        f"number of directions with 99 % of the energy of {SAMPLES} samples' gradients (Lillo & Cheney 2025, B.7.2)",
        "samples",
        _rank_gradients,
        costly=True,
    ),
}, groups=("supple.metrics",))  # fmt: skip


METRICS = metrics.entries


def cheap_metrics() -> dict[str, Metric]:
    """Return the metrics that are not costly, which are measured unless others are asked for."""
    return {name: metric for name, metric in METRICS.items() if not metric.costly}


def measure(learner: Learner | View, per_layer: bool = False, costly: bool = False) -> dict[str, float]:
    """Return every metric of a learner on its recent data: name → number.

    Metrics that cannot be computed are left out: those of units and losses before the learner has seen data, those of
    units if it has no hidden units, those of balance if it has no consecutive linear maps, those of the gradients of
    samples without `Learner.batches`, and those of change before the first `Learner.mark`. Those of units, outputs,
    losses and gradients are NaN (norms may be infinite) for a network in which these are not finite.

    Args:
        learner: The learner, or a `View` of it, whose forward pass is then used.
        per_layer: Add `dormant_fraction/<units>` for each hidden layer, pooled over the members of a stack.
        costly: Include the costly metrics.

    Examples:
        >>> import torch
        >>> from torch import nn
        >>> from supple.interventions import learner_for
        >>> from supple.metrics import measure
        >>> x, net = torch.eye(2), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
        >>> numbers = measure(learner_for(net, probe=lambda: (x,), loss=lambda: net(x).square().mean()))
        >>> "weight_norm" in numbers, "dormant_fraction" in numbers
        (True, True)
        >>> numbers = measure(learner_for(net))  # without data, only weights are measured
        >>> "weight_norm" in numbers, "dormant_fraction" in numbers
        (True, False)
    """
    view = learner if isinstance(learner, View) else View(learner)
    with measuring(view.learner.module):
        computed = _compute(view, per_layer, costly)
    return {name: float(POOLS[pool](values.double())) for name, (values, pool) in computed.items()}


def measure_members(learner: Learner | View, per_layer: bool = False, costly: bool = False) -> Measured:
    """Return `measure` of every member of a stack, in their order, computed for all members at once.

    The members of a stack of seeds are the seeds. Each has what `measure` returns for a run of this seed alone, in
    which the networks of one seed are combined. Otherwise they are the networks.

    Args:
        learner, per_layer, costly: As for `measure`. A `View` with `seeds` measures these.

    Raises:
        ValueError: The learner is not a stack.
    """
    view = learner if isinstance(learner, View) else View(learner)
    if view.members is None:
        raise ValueError(f"'{view.learner.name}' is no stack of networks; use measure")
    with measuring(view.learner.module):
        computed = _compute(view, per_layer, costly)
    each = view.learner.networks if view.learner.seeds else 1
    columns = {
        name: [float(own[0] if each == 1 else POOLS[pool](own.double())) for own in values.split(each)]
        for name, (values, pool) in computed.items()
    }
    return [{name: column[i] for name, column in columns.items()} for i in range(view.networks // each)]


def _compute(view: View, per_layer: bool, costly: bool) -> dict[str, tuple[Tensor, str]]:
    """Return the values of every network, (networks,), and how to pool them, by name."""
    wanted = METRICS if costly else cheap_metrics()
    computed = {}
    for name, metric in wanted.items():
        if NEEDS[metric.needs](view):
            with naming(f"metric {name}", metric.value):
                values = metric.value(view).detach()
                if values.shape != (view.networks,) and (view.networks > 1 or values.numel() > 1):
                    one = f"one number for each network, ({view.networks},)"
                    raise ValueError(f"it must return {one}, not {summary(values)}")
            computed[name] = values, metric.pool
    if per_layer and view.has_units:
        names = view.learner.origins  # a curve goes on under one name, whatever an intervention moved
        for name, output in view.outputs.items():
            computed[f"dormant_fraction/{names.get(name, name)}"] = (_share_dormant(view, output), "mean")
    return computed
