"""How often intervals over a few seeds hold the truth, by the simulation of docs/interval_coverage.py."""

import runpy
from pathlib import Path
from typing import Any

import pytest

from supple.metrics import BOOTSTRAP_COVERAGE, bootstrap_coverage

pytestmark = pytest.mark.slow

SETS = 10_000
# Of the t interval of paired differences and of one arm's mean: (seeds → lowest, highest) coverage.
BANDS: dict[str, dict[str, dict[int, tuple[float, float]]]] = {
    "cover_paired_t": {
        "normal": {3: (0.93, 0.97), 5: (0.93, 0.97), 10: (0.93, 0.97)},
        "heavy-tailed": {3: (0.94, 0.98), 5: (0.94, 0.98), 10: (0.94, 0.98)},
        "bimodal": {3: (0.95, 0.99), 5: (0.95, 0.99), 10: (0.94, 0.98)},
    },
    "cover_t": {
        "normal": {3: (0.93, 0.97), 5: (0.93, 0.97), 10: (0.93, 0.97)},
        "heavy-tailed": {3: (0.94, 0.98), 5: (0.94, 0.98), 10: (0.94, 0.98)},
        "bimodal": {3: (0.79, 0.84), 5: (0.72, 0.77), 10: (0.86, 0.91)},
    },
}


@pytest.fixture(scope="module")
def simulated() -> dict[str, Any]:
    return runpy.run_path(str(Path(__file__).parents[2] / "docs" / "interval_coverage.py"))


@pytest.mark.parametrize("seeds", [3, 5, 10])
@pytest.mark.parametrize("data", ["normal", "heavy-tailed", "bimodal"])
@pytest.mark.parametrize("interval", ["cover_paired_t", "cover_t"])
def test_students_interval_covers_as_the_page_says(
    simulated: dict[str, Any], interval: str, data: str, seeds: int
) -> None:
    truth = () if interval == "cover_paired_t" else (simulated["MEANS"][data],)
    low, high = BANDS[interval][data][seeds]
    assert low <= simulated[interval](simulated["DRAWS"][data], seeds, SETS, *truth) <= high


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
