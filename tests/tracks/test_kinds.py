"""What there is by kinds of runs, in rooms that do not import each other."""

from supple.experiments.report.collect import LOOPED
from supple.tracks.kinds import KINDS


def test_reports_know_every_kind_of_run() -> None:
    assert set(KINDS) == LOOPED
