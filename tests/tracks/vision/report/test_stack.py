"""What a stack pools over its members is reported for a single network."""

from pathlib import Path

import numpy as np
import pytest
import torch

from supple.experiments.history.collect import Episodes, RunData
from supple.metrics import Metric, metrics
from supple.tracks.vision.report.stack import by_seed


def test_numbers_of_events_are_divided_by_how_each_metric_is_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(metrics.loaded(), "mine", Metric("units", "weights", lambda v: torch.ones(v.networks), "sum"))
    before = {"mine": 8.0, "dfi": 8.0, "weight_norm": 8.0, "dfi_unscaled": 8.0, "trainability": 8.0, "srank": None}
    event = {"event": "intervention", "step": 1, "before": before, "after": {}, "change": {"sfe": 8.0}}
    none = np.empty(0)
    episodes = Episodes(none, none.astype(int), none, none, none.astype(bool))
    run = RunData(Path(), {"settings": {"seeds": [0, 1, 2, 3]}}, (), episodes, [], [event])
    first, *others = by_seed(run)
    (scaled,) = first.events
    assert scaled["before"] == {"mine": 2, "dfi": 2, "weight_norm": 4, "dfi_unscaled": 8, "trainability": 8}
    assert scaled["change"] == {"sfe": 2}
    assert not any(other.events for other in others)
