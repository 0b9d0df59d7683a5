"""Columns on interventions: every metric of the list is in all tables, and in the sentence below them."""

import pytest

from supple.reports.tables import metrics
from supple.reports.tables.metrics import before_and_after, intervention_columns, intervention_words

MEANS = {"sfe": 12.0, "dfi_unscaled_before": 0.1352, "dfi_unscaled_after": 0.0, "srank_before": 3.0, "srank_after": 4.0}


def test_columns_are_the_change_and_the_metrics_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "IN_TABLES", {"dfi_unscaled": "DfI (unscaled)"})
    columns = intervention_columns([MEANS], digits=2)
    assert {heading: list(map(str, cells)) for heading, cells in columns.items()} == {
        "SFE": ["12"], "DfI (unscaled)": ["0.14 → 0"],
    }  # fmt: skip
    assert intervention_words("of θ") == "SFE (of θ) and DfI (deviation from isometry) before → after"
    assert intervention_words("of θ", "λ_max") == "SFE (of θ), DfI (deviation from isometry) and λ_max before → after"
    monkeypatch.setitem(metrics.IN_TABLES, "srank", "srank (features)")
    assert str(*intervention_columns([MEANS])["srank (features)"]) == "3 → 4"
    assert intervention_words("of θ") == "SFE (of θ), DfI (deviation from isometry) and srank before → after"


def test_a_metric_that_was_not_measured_is_a_dash() -> None:
    assert str(before_and_after({"srank_before": float("nan"), "srank_after": float("nan")}, "srank")) == "–"
    assert str(before_and_after({"srank_before": 3.0, "srank_after": float("nan")}, "srank")) == "3 → –"
