"""Every metric and every intervention on every network of the zoo: a few minutes. tests/zoo has the quick part."""

import pytest

from tests.zoo.networks import zoo
from tests.zoo.references import referred
from tests.zoo.trials import VARIANTS, measured, tried


@pytest.mark.parametrize("name", zoo())
def test_no_metric_changes_the_network(name: str) -> None:
    assert [str(outcome) for outcome in measured(zoo()[name]) if outcome.kind == "broken"] == []


@pytest.mark.parametrize("name", zoo())
def test_every_intervention_acts_or_refuses_and_writes_what_it_says(name: str) -> None:
    assert [str(outcome) for outcome in tried(zoo()[name], VARIANTS) if outcome.kind == "broken"] == []


@pytest.mark.parametrize("name", zoo())
def test_results_equal_references(name: str) -> None:
    assert [str(outcome) for outcome in referred(zoo()[name]) if outcome.kind == "broken"] == []
