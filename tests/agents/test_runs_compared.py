"""Comparisons: arms depend on the fork and on themselves alone, whatever is killed and however many run at once."""

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.figures import empty_figures
from tests.processes import wait_until

pytestmark = pytest.mark.slow

SETTINGS = shlex.split(
    "--sequence hopper,walker2d --cycles 2 --steps-per-task 384 --num-envs 4 --rollout-steps 32 --minibatch-size 64 "
    "--epochs 2 --hidden 16 16 --adapter 16 --checkpoint-every 200 --measure-every 256 --eval-episodes 1 "
    "--activation rand_smooth_leaky"
)
COMPARE = ["compare", "ppo", *SETTINGS, "--fork-at", "0.5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def whole(nursery: Any, folder: Path, forking: Any) -> Path:
    """Return a comparison that is not killed, with two runs at a time."""
    arms = [word for arm in ("none", "fire@task", "snp") for word in ("--arm", arm)]
    with forking(), empty_figures():
        assert nursery.run(*COMPARE, *arms, "--jobs", 2, "--out", folder / "whole") == 0, nursery.stderr()
    return folder / "whole/seed-0"


def test_arm_none_is_what_the_trunk_would_have_done(nursery: Any, same: Any, folder: Path, whole: Path) -> None:
    """Forked at a task boundary, where a plain run has a checkpoint too: state, episodes and metrics agree."""
    plain = folder / "plain"
    assert nursery.run("train", "ppo", *SETTINGS, "--out", plain) == 0
    assert same.last_state(whole / "none") == same.last_state(plain)
    for name in ("episodes", "metrics"):
        assert same.log(whole / "trunk", name) + same.log(whole / "none", name) == same.log(plain, name)


def test_interventions_change_their_arm_and_say_so(same: Any, whole: Path) -> None:
    for arm, steps in (("snp", {768}), ("fire_task-efebf3", {768, 1152}), ("none", set())):
        events = [json.loads(line) for line in (whole / arm / "events.jsonl").read_text().splitlines()]
        assert {event["step"] for event in events if event["event"] == "intervention"} == steps
        assert (same.last_state(whole / arm) == same.last_state(whole / "none")) == (arm == "none")


@pytest.mark.usefixtures("forked_workers", "without_figures")
@pytest.mark.skipif(not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="children are found in /proc")
def test_a_killed_comparison_resumes_to_the_same_end(nursery: Any, same: Any, folder: Path, whole: Path) -> None:
    """Other jobs, other arms in another order; then a worker dies, and its run is set aside, then the parent."""
    broken = folder / "broken"
    trunk, first, second = (broken / "seed-0" / name for name in ("trunk", "snp", "none"))

    parent = nursery.start(*COMPARE, "--arm", "snp", "--arm", "none", "--jobs", 1, "--out", broken)
    wait_until((trunk / "episodes.jsonl").exists)
    [worker] = nursery.workers(parent)
    os.kill(worker, signal.SIGKILL)
    assert nursery.wait() == 1
    assert json.loads((trunk / "outcome.json").read_text())["reason"].startswith("its process was killed (SIGKILL)")
    assert not first.exists()  # an arm of a trunk that failed is not begun
    assert "failed: seed 0 · trunk" in nursery.stderr()[-2]
    assert "2 that depend on them did not start" in nursery.stderr()[-1]
    assert nursery.run("resume", broken, "--jobs", 1) == 1  # it is left aside, unless

    parent = nursery.start("resume", broken, "--jobs", 1, "--retry-failed")
    wait_until((second / "episodes.jsonl").exists)
    assert nursery.kill_parent(parent) > 0
    assert same.last_state(second) != same.last_state(whole / "none"), "killed too late to prove anything"

    before = {path: path.stat().st_mtime_ns for path in [*trunk.rglob("*"), *first.rglob("*")]}
    assert nursery.run("resume", broken, "--jobs", 1) == 0
    assert before == {path: path.stat().st_mtime_ns for path in [*trunk.rglob("*"), *first.rglob("*")]}
    for arm in ("trunk", "snp", "none"):
        assert same.last_state(broken / "seed-0" / arm) == same.last_state(whole / arm)
        for name in ("episodes", "metrics", "events"):
            assert same.log(broken / "seed-0" / arm, name) == same.log(whole / arm, name)
