"""Comparisons of classifiers: arms start from one trunk, and each continues as a run of its own."""

import shlex
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from supple.engine.storage.names import slug
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep
from supple.reports import compose
from supple.scripts.main import dispatch
from tests.tracks.logs import state

pytestmark = pytest.mark.slow

OPTIONS = shlex.split(
    "--tasks 2 --images 48 --epochs 2 --batch-size 8 --measure-every 12 --compile off --seeds 3 5 "
    "--activation rand_smooth_leaky --checkpoint-every 50 --jobs 1"
)
ARMS = ("none", "fire@task", "fire", "dash", "ewc(samples=16)", "snp(noise=0.1) + redo(tau=0.5)@every:5")


@pytest.fixture(scope="module")
def whole(lab: Any, tmp_path_factory: pytest.TempPathFactory, here: Any) -> Path:
    """The folder of a stack's trunk and arms, forked where the second of two tasks begins."""
    out = tmp_path_factory.mktemp("compare") / "whole"
    with here():
        arms = [word for arm in ARMS for word in ("--arm", arm)]
        dispatch(lab.command("permuted-mnist", *OPTIONS, *arms, "--out", out, command="compare"))
    return out / "seeds-3-5"


def test_arms_start_from_the_trunk_and_their_interventions_precede_the_first_update(lab: Any, whole: Path) -> None:
    arms = {arm: whole / slug(arm) for arm in ARMS}
    assert {path.name for path in whole.iterdir()} == {"trunk", *(arm.name for arm in arms.values())}
    assert {state(arm, 12) for arm in arms.values()} == {state(whole / "trunk", 12)}
    assert len({state(arm, 24) for arm in arms.values()}) == len(arms) - 1  # fire and fire@task are the same
    events = lab.log(arms[ARMS[-1]], "events")
    assert [(e.get("intervention", e["event"]).split("(")[0], e["step"]) for e in events] == [
        ("snp", 12), ("task", 12), ("redo", 15), ("redo", 20),
    ]  # fmt: skip
    scores = compose(whole.parent).scores["benchmarks"]["permuted mnist"]["arms"]
    assert scores.keys() == arms.keys()
    rows = sorted(lab.log(arms["fire"], "tasks"), key=itemgetter("seed"))
    assert scores["fire"]["online"]["per_seed"] == [row["online_accuracy"] for row in rows]


@pytest.mark.parametrize(
    ("arm", "hooks"),
    [
        ("none", ()),
        ("fire@task", ("fire@task",)),
        ("dash", ("dash@task",)),  # applied at the fork, under another name; looks at the new task's data
        ("ewc(samples=16)", ("ewc(samples=16)",)),  # saw the first task end
    ],
)
def test_an_arm_equals_one_run_with_the_same_hooks(
    lab: Any, whole: Path, tmp_path: Path, arm: str, hooks: tuple[str, ...]
) -> None:
    plain = lab.run(tmp_path / "plain", seeds=(3, 5), activation="rand_smooth_leaky", hook=hooks)
    assert state(whole / slug(arm), 24) == state(plain, 24)
    for log in ("metrics", "tasks", "events") if arm != "dash" else ("metrics", "tasks"):
        assert lab.log(whole / "trunk", log) + lab.log(whole / slug(arm), log) == lab.log(plain, log)


def test_large_networks_are_forked_seed_by_seed_also_within_a_task(lab: Any, tmp_path: Path, here: Any) -> None:
    options = shlex.split(
        "--dataset mnist --network resnet18 --width 4 --first-epochs 3 --epochs 1 --batch-size 12 --eval-epochs 0 "
        "--seeds 3 5 --fork-at 0.6 --arm none --arm fire"
    )
    with here():
        dispatch(lab.command("warm-start", *options, "--out", tmp_path / "out", command="compare"))
    for seed in (3, 5):
        folder = tmp_path / f"out/seed-{seed}"
        for arm in ("none", "fire"):
            assert state(folder / arm, 8) == state(folder / "trunk", 8)  # of 13
            [row] = lab.log(folder / arm, "tasks")
            assert (row["seed"], row["task"], row["updates"]) == (seed, 1, 10)
        [event] = lab.log(folder / "fire", "events")
        assert (event["hook"], event["step"]) == ("fire@start", 8)


def test_seeds_that_are_added_to_a_sweep_form_a_stack_of_their_own(lab: Any, tmp_path: Path) -> None:
    settings = {"data": str(lab.folder), "tasks": 2, "images": 48, "epochs": 1, "compile": "off", "device": "cpu"}
    study = Study("v", "vision", "permuted-mnist", settings, ("none",), (0, 1))
    assert [job.spec.seeds for job in Sweep([study]).begin(tmp_path / "out")] == [(0, 1), (0, 1)]  # a trunk, and none
    more = Sweep([replace(study, seeds=(0, 1, 2, 3))]).begin(tmp_path / "out")
    assert {job.spec.seeds for job in more} == {(0, 1), (2, 3)}
