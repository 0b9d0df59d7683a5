"""How often intervals over a few seeds hold the truth, by the simulation of docs/interval_coverage.py."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from supple.metrics import BOOTSTRAP_COVERAGE, bootstrap_coverage

pytestmark = pytest.mark.slow

SETS = 10_000
SEEDS = (3, 5, 10)
COVERAGE = {  # of the t interval of paired differences, and of one arm's mean, at these numbers of seeds
    ("cover_paired_t", "normal"): (0.95, 0.95, 0.95),
    ("cover_paired_t", "heavy-tailed"): (0.96, 0.96, 0.96),
    ("cover_paired_t", "bimodal"): (0.97, 0.97, 0.96),
    ("cover_t", "normal"): (0.95, 0.95, 0.95),
    ("cover_t", "heavy-tailed"): (0.96, 0.96, 0.96),
    ("cover_t", "bimodal"): (0.815, 0.745, 0.885),
}


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[2] / "docs" / "interval_coverage.py"))


@pytest.mark.parametrize(("interval", "data"), COVERAGE)
def test_students_interval_covers_as_the_page_says(simulated: dict[str, Any], interval: str, data: str) -> None:
    truth = () if interval == "cover_paired_t" else (simulated["MEANS"][data],)
    found = [simulated[interval](simulated["DRAWS"][data], seeds, SETS, *truth) for seeds in SEEDS]
    assert found == pytest.approx(COVERAGE[interval, data], abs=0.02)


@pytest.mark.parametrize(("seeds", "coverage"), [(2, 0.5), (3, 0.75), (5, 0.84)])
def test_a_bootstrap_of_few_seeds_covers_far_less_than_its_level(
    simulated: dict[str, Any], seeds: int, coverage: float
) -> None:
    """With two and three seeds the interval is from the smallest to the largest: it misses with chance 2 · 2⁻ⁿ."""
    found = simulated["cover_bootstrapped_mean"](simulated["DRAWS"]["normal"], seeds, 2000, 0.0, 400)
    assert found == pytest.approx(coverage, abs=0.03)


def test_the_label_of_a_bootstrapped_iqm_says_what_is_simulated(simulated: dict[str, Any]) -> None:
    found = simulated["cover_bootstrapped_iqm"](simulated["DRAWS"]["normal"], 3, 400, 1, 1000)
    assert found == pytest.approx(bootstrap_coverage(3, 1), abs=0.06)


def test_between_the_numbers_of_the_table_the_next_smaller_ones_count() -> None:
    assert bootstrap_coverage(4, 3) == BOOTSTRAP_COVERAGE[3][1]
    assert bootstrap_coverage(100, 57) == BOOTSTRAP_COVERAGE[20][10]


def test_a_single_run_has_no_coverage() -> None:
    with pytest.raises(ValueError, match="bootstrap_coverage: needs 2 runs"):
        bootstrap_coverage(1, 3)
