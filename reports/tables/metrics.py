"""What reports show of the metrics of networks: titles of panels, and values before and after interventions.

A metric is logged whether it is here or not: without a title, its panel has its name.
"""

from collections.abc import Iterable, Mapping, Sequence

from supple.experiments.history.data import Row

from .cells import Form, Number, Pair
from .statistics import mean_of_known
from .table import Columns, join_words

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


def means_at_events(
    events: Sequence[Row], around: Iterable[str] = (*IN_TABLES, "lambda_max", "lambda_balance")
) -> dict[str, float]:
    """Return means over all interventions of the change of the weights, and of metrics before and after."""
    means = {name: _mean_at(events, "change", name) for name in ("sfe", "sfe_normalized")}
    for name in around:
        means |= {f"{name}_{side}": _mean_at(events, side, name) for side in ("before", "after")}
    return means


def _mean_at(events: Sequence[Row], part: str, name: str) -> float:
    return mean_of_known(event.get(part, {}).get(name) for event in events)


def intervention_columns(rows: Sequence[Mapping[str, float]], digits: int = 3) -> Columns:
    """Return the columns on interventions that all reports have, by heading: SFE and the metrics of `IN_TABLES`.

    Args:
        rows: For each row of the table, its `means_at_events`.
        digits: About how many digits metrics have.
    """
    columns: Columns = {"SFE": [Number(means["sfe"]) for means in rows]}
    for name, heading in IN_TABLES.items():
        columns[heading] = [before_and_after(means, name, digits) for means in rows]
    return columns


def intervention_words(change: str, *more: str) -> str:
    """Return an explanation of `intervention_columns`, such as `SFE (change of the weights), srank before → after`.

    Args:
        change: What SFE is here.
        more: Words for more columns, such as λ_max.
    """
    headings = (heading.partition(" (")[0] for heading in IN_TABLES.values())
    metrics = [heading.replace("DfI", "DfI (deviation from isometry)") for heading in headings]
    return f"{join_words([f'SFE ({change})', *metrics, *more])} before → after"


def before_and_after(means: Mapping[str, float], name: str, digits: int = 3) -> Pair:
    """Return a metric before and after interventions, shown as `0.135 → 8.83`, from `means_at_events`."""
    return Pair(means[f"{name}_before"], means[f"{name}_after"], form=Form(digits))
