"""What reports show of the metrics of networks: titles of panels, and values before and after interventions.

A metric is logged whether it is here or not: without a title, its panel has its name.
"""

from collections.abc import Mapping, Sequence

from .table import MISSING, join_words, number

# In the order of the panels of "Inside the network".
TITLES = {
    "trainability": "trainability (1: perfect fit)",
    "entropy": "entropy of the policy (nats)",
    "dormant_fraction": "dormant units (share)",
    "saturated_fraction": "saturated units (share)",
    "srank": "srank of the features",
    "effective_rank": "effective rank of the features",
    "dfi_unscaled": "DfI (unscaled)",
    "dfi_per_dim": "DfI per dimension",
    "dfi": "DfI (FIRE eq. 2)",
    "weight_norm": "weight norm",
    "gradient_norm": "gradient norm",
    "lambda_max": "λ_max of the Hessian",
    "lambda_balance": "λ of consecutive linear maps",
    "lambda_residual": "deviation from λ-balance",
    "gradient_effective_rank": "effective rank of the gradients",
    "mean": "mean Q(s, a) of the batches",
}
# In the figure "Before and after each intervention".
IN_FIGURE = ("dfi_unscaled", "dormant_fraction", "srank", "effective_rank", "weight_norm", "lambda_max")
# Before and after interventions in the tables of all reports and in their scores.json: name → heading.
IN_TABLES = {"dfi_unscaled": "DfI (unscaled)"}


def intervention_columns(rows: Sequence[Mapping[str, float]], digits: int = 3) -> dict[str, list[str]]:
    """Return the columns on interventions that all reports have, heading → texts: SFE and the metrics of `IN_TABLES`.

    Args:
        rows: For each row of the table, its `means_at_events`.
        digits: About how many digits metrics have.
    """
    sfe = {"SFE": [number(means["sfe"]) for means in rows]}
    metrics = {
        heading: [before_and_after_text(means, name, digits) for means in rows] for name, heading in IN_TABLES.items()
    }
    return sfe | metrics


def intervention_words(change: str, *more: str) -> str:
    """Return an explanation of `intervention_columns`: `SFE (squared change of the weights) and DfI before → after`.

    Args:
        change: What SFE is here.
        more: Words for more columns, such as λ_max.
    """
    metrics = [heading.partition(" (")[0] for heading in IN_TABLES.values()]
    return f"{join_words([f'SFE ({change})', *metrics, *more])} before → after"


def before_and_after_text(means: Mapping[str, float], name: str, digits: int = 3) -> str:
    """Return a metric before and after interventions as text, `0.135 → 8.83`, from `means_at_events`."""
    before, after = (number(means[f"{name}_{side}"], digits) for side in ("before", "after"))
    return MISSING if before == after == MISSING else f"{before} → {after}"
