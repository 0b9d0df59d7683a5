"""Nobody's network is harmed by being looked at, and interventions do what they say on networks as people have them.

Here every network meets the measures and interventions of the table in docs/reference/networks.md; all others are
tried in tests/stress/test_zoo.py.
"""

from functools import partial

import pytest

from supple.interventions import interventions
from tests.zoo import table
from tests.zoo.networks import subject, zoo
from tests.zoo.trials import VARIANTS, draw_fresh, tried

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", zoo())
def test_measures_and_interventions_keep_their_promises(name: str) -> None:
    assert [outcome for outcome in table.outcomes(name) if outcome.kind == "broken"] == []


@pytest.mark.parametrize("name", [name for name, kind in zoo().items() if kind.fresh])
def test_without_a_function_that_makes_the_network_no_old_value_passes_for_a_fresh_one(name: str) -> None:
    outcome = tried(zoo()[name], "reset(toward=fresh)", draw_fresh, partial(subject, fresh=None))
    assert outcome.kind != "broken", outcome


def test_the_page_is_the_table_of_what_happened() -> None:
    page, rows = table.texts([*zoo()])
    assert (table.PAGE.read_text(), table.TABLE.read_text()) == (page, rows), "python -m tests.zoo.table writes both"


def test_no_intervention_is_left_out() -> None:
    assert set(interventions.names()) == {text.partition("(")[0] for text in VARIANTS}
