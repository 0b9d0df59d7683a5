"""`--trainability-every` of tracks with one network: it is logged, and changes no result."""

from collections.abc import Callable
from pathlib import Path

import pytest

from supple.metrics import trainability
from supple.scripts.main import dispatch
from tests.tracks.logs import read_log, state

COMMON = "--measure-every 6 --checkpoint-every 8 --keep-checkpoints 9 --eval-every 0 --hook fire(steps=5)@task"
MORE = {"linear": ("--updates-per-task", "12"), "pretrain": ("--dropout", "0.1")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", MORE)
def test_trainability_of_one_network_is_measured_around_a_switch_and_leaves_no_trace(
    small: Callable[..., list[str]], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (3, 1e-3))  # updates, learning rate
    run, without = tmp_path / "run", tmp_path / "without"
    more = (*COMMON.split(), *MORE[kind])
    dispatch(small("train", kind, run, *more, "--trainability-every", "8"))
    dispatch(small("train", kind, without, *more))
    assert state(run, 24) == state(without, 24)
    lines = read_log(run, "metrics")
    measured = [line for line in lines if "model/trainability" in line]
    assert [line["step"] for line in measured] == [0, 8, 12, 12, 16, 24]
    assert measured[0]["model/trainability"] == measured[0]["model/trainability/initial"] > 0
    (event,) = [event for event in read_log(run, "events") if event["event"] == "intervention"]
    assert {"trainability", "trainability/initial"} <= event["before"].keys() & event["after"].keys()
    assert all(line["model/update_ratio"] > 0 for line in lines if "model/update_ratio" in line)
