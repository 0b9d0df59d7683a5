"""Every metric and every intervention on every network of the zoo: a few minutes. tests/zoo has the quick part."""

import pytest

from tests.zoo.networks import zoo
from tests.zoo.trials import VARIANTS, draw_fresh, intervened, measured, tried


@pytest.mark.parametrize("name", zoo())
def test_every_metric_and_intervention_keeps_its_promises(name: str) -> None:
    kind = zoo()[name]
    found = [*measured(kind), *(intervened(kind, text) for text in VARIANTS), tried(kind, "fresh values", draw_fresh)]
    assert [outcome for outcome in found if outcome.kind == "broken"] == []
