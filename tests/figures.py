"""Reports without their figures, which take most of the time of a report."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supple.reports.figures.style import Plot


def leave_empty(plot: Plot, folder: Path) -> None:
    for suffix in ("png", "svg"):
        (folder / f"{plot.name}.{suffix}").touch()


@contextmanager
def empty_figures() -> Iterator[None]:
    """The files of figures are there, and nothing is drawn into them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plot, "save", leave_empty)
        yield
