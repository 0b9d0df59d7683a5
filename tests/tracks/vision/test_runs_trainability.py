"""`--trainability-every` of stacked classifiers: every seed's number is that of the seed alone."""

from pathlib import Path
from typing import Any

import pytest

from supple.metrics import trainability


def test_measuring_trainability_of_a_stack_matches_single_runs_and_changes_no_result(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (3, 1e-3))  # updates, learning rate
    small: dict[str, Any] = {"width": 6, "hook": ("fire@task",), "activation": "rand_smooth_leaky"}
    runs = {
        seeds: lab.run(tmp_path / str(seeds), seeds=seeds, trainability_every=10, **small)
        for seeds in ((0, 1), (0,), (1,))
    }
    without = lab.run(tmp_path / "without", seeds=(0, 1), **small)
    assert lab.log(without, "tasks") == lab.log(runs[0, 1], "tasks")
    key = "model/trainability"
    for seed in (0, 1):
        stacked, alone = (
            [line for line in lab.log(runs[seeds], "metrics", seed) if key in line] for seeds in ((0, 1), (seed,))
        )
        # every 10 updates, and at both ends of both tasks
        assert [line["step"] for line in stacked] == [0, 10, 12, 12, 20, 24]
        assert [line[key] for line in stacked] == pytest.approx([line[key] for line in alone], abs=1e-5)
        assert stacked[0][key] == stacked[0]["model/trainability/initial"] > 0
    (event,) = [event for event in lab.log(runs[0, 1], "events") if event["event"] == "intervention"]
    assert event["before"]["trainability"] != event["after"]["trainability"]
