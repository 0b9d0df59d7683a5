"""`supple compare pretrain`: starts and other variants of the settings, each with every arm."""

from pathlib import Path
from typing import Any

import pytest

from supple.engine.spec import read_spec
from supple.experiments.comparisons.grid import Point
from supple.scripts.main import dispatch
from tests.tracks.logs import state

pytestmark = pytest.mark.slow

ARMS = ("none", "fire(steps=5)")
STARTS = ("best", "6", "12")


@pytest.fixture(scope="module")
def warm(bench: Any, tmp_path_factory: pytest.TempPathFactory, here: Any) -> Path:
    """Two arms from three states of the first phase."""
    out = tmp_path_factory.mktemp("compare") / "warm"
    arms = [word for arm in ARMS for word in ("--arm", arm)]
    with here():
        dispatch(bench.command(out, *arms, "--vary", f"start={','.join(STARTS)}", command="compare"))
    return out / "seed-0"


def test_all_arms_of_all_starts_begin_from_states_of_one_trunk(bench: Any, warm: Path) -> None:
    assert sorted(path.name for path in warm.iterdir()) == ["start=12", "start=6", "start=best", "trunk"]
    best = min((line["val_loss"], line["step"]) for line in bench.log(warm / "trunk", "metrics") if "val_loss" in line)
    steps = {"best": best[1], "6": 6, "12": 12}
    for start in STARTS:
        for arm in ARMS:
            folder = warm / Point(arm, {"start": start}).folder
            spec = read_spec(folder)
            assert (spec.start.step, spec.total_steps) == (steps[start], steps[start] + 8)
            assert spec.labels.variant == {"start": start}
            assert spec.resolved.tasks[1]["start"] == steps[start]
            assert [task["task"] for task in bench.log(folder, "tasks")] == [1]


def test_an_arm_equals_a_single_run_that_starts_at_the_same_update(bench: Any, warm: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    dispatch(bench.command(alone, "--start", "6", "--hook", "fire(steps=5)@task"))
    arm = warm / Point("fire(steps=5)", {"start": "6"}).folder
    assert state(arm, 14) == state(alone, 14)
    ours, theirs = (
        [line for line in bench.log(run, "metrics") if line["step"] > 6 and "val_loss" in line] for run in (arm, alone)
    )
    assert ours == theirs
