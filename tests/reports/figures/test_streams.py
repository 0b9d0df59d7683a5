"""Figures over the tasks of a stream."""

from pathlib import Path

import pytest

from supple.experiments.comparisons.grid import Point
from supple.experiments.history.collect import load
from supple.reports.figures.streams import draw_stream, training_curve
from tests import records


def test_runs_of_other_lengths_are_drawn_to_their_ends(tmp_path: Path) -> None:
    variants = [{"steps_per_task": length} for length in (50, 100)]
    records.write_plan(tmp_path, "ppo", ["none"], [0], 0, variants)
    for variant in variants:
        length, folder = variant["steps_per_task"], tmp_path / "seed-0" / Point("none", variant).folder
        tasks = [
            {"index": i, "cycle": i, "env": "E", "name": "E", "start": i * length, "end": (i + 1) * length}
            for i in range(2)
        ]
        records.write_run(folder, "ppo", tasks, labels={"arm": "none", "variant": variant})
        episodes = [
            {"step": step, "env": "E", "task": (step - 1) // length, "cycle": 0, "return": 1.0, "length": 1}
            for step in range(1, 2 * length + 1)
        ]
        records.write_logs(folder, episodes=episodes)
    (axes,) = draw_stream(load(tmp_path), ["E"], training_curve, "return").axes
    assert axes.get_xlim() == (0, 200)
    ends = sorted(line.get_xdata()[-1] for line in axes.lines if len(line.get_xdata()) > 5)
    assert ends == pytest.approx([50, 100, 100, 200], abs=2)
