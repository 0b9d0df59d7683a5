"""The figure of metrics: which of them it shows, and which are folded away."""

from pathlib import Path

from supple.experiments.history.collect import load
from supple.experiments.history.data import ComparisonData
from supple.reports.figures.diagnostics import before_and_after, metrics_over_time
from tests import records

STEPS = (0, 50, 100)


def history(folder: Path, **values: tuple[float, float, float]) -> ComparisonData:
    """A run that measured these metrics at three steps, before and after one intervention too."""
    tasks = [{"index": 0, "start": 0, "end": 100, "name": "E", "env": "E"}]
    records.write_run(folder, "ppo", tasks, labels={"arm": "fire"}, hooks=("fire",))
    rows = [{"step": step, "agent/weight_norm": float(step)} for step in STEPS]
    for name, series in values.items():
        for row, value in zip(rows, series, strict=True):
            row[f"agent/{name}"] = value
    sides = {side: {name: series[i] for name, series in values.items()} for i, side in enumerate(("before", "after"))}
    event = {"event": "intervention", "step": 50, "learner": "agent", "intervention": "fire", "contract": {}, **sides}
    records.write_logs(folder, metrics=rows, events=[event])
    return load(folder)


def titles(plot) -> list[str]:  # type: ignore[no-untyped-def]
    return [axes.get_title("left") for axes in plot.figure.axes]


def test_metrics_that_never_change_and_two_kinds_of_dfi_are_folded(tmp_path: Path) -> None:
    data = history(
        tmp_path / "r", dormant_fraction=(0, 0, 0), dfi=(1, 2, 3), dfi_per_dim=(1, 2, 3), dfi_unscaled=(1, 2, 3)
    )
    main, more = metrics_over_time(data)
    assert titles(main) == ["DfI (unscaled)", "weight norm"]
    assert titles(more) == ["dormant units (share)", "DfI per dimension", "DfI (FIRE eq. 2)"]
    assert (main.folded, more.folded) == (False, True)


def test_metrics_that_no_intervention_changes_have_no_panel(tmp_path: Path) -> None:
    plot = before_and_after(history(tmp_path / "r", dormant_fraction=(0, 0, 0), srank=(3, 5, 5)))
    assert plot is not None
    assert titles(plot) == ["srank"]
