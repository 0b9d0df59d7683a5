"""What there is by kinds of runs, in rooms that do not import each other."""

import pytest

from supple.experiments.report.kind import Report
from supple.experiments.report.registry import REPORTS, report_of
from supple.tracks.kinds import KINDS


@pytest.mark.parametrize("kind", REPORTS)
def test_every_kind_of_run_brings_its_report(kind: str) -> None:
    assert isinstance(report_of(kind), Report)


def test_no_kind_of_run_is_without_a_report() -> None:
    assert REPORTS.keys() >= KINDS.keys() | {"ppo", "dqn", "sac", "vision"}
