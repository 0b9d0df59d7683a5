"""Whole runs of SAC: killed and resumed, repeated; hooks on its two learners.

The processes and the kills are real; see the nursery in tests/agents/conftest.py. Sizes are the smallest at which
episodes end, the replay memory wraps around and every hook fires.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.agents.small import lines

pytestmark = pytest.mark.slow

SMALL = shlex.split(
    "--num-envs 2 --learning-starts 20 --replay-size 100 --batch-size 8 --actor-width 8 --critic-width 8 "
    "--critic-blocks 1 --replay-ratio 0.5 --eval-episodes 0 --checkpoint-every 160 --measure-every 240 "
    "--activation rand_smooth_leaky --device cpu --compile off"
)
SHORT = shlex.split("--steps 240 --replay-size 50 --checkpoint-every 80 --measure-every 120")
BALANCE = ["sac", "--env", "inverted_pendulum", *SMALL, *SHORT]  # falls within a few decisions
SWING = ["sac", "--env", "Pendulum-v1", "--steps", "480", *SMALL]  # 200 steps, then the time is up
HOOKS = ["injection@0.4", "actor/redo(tau=0.3)@every:88", "snp@0.7", "critic/fire@0.9"]
RUN = ["train", *BALANCE, *[word for hook in HOOKS for word in ("--hook", hook)]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sac")


@pytest.fixture(scope="module")
def reference(nursery: Any, folder: Path) -> Path:
    """Return a run that is neither killed nor forked."""
    assert nursery.run(*RUN, "--out", folder / "reference") == 0, nursery.stderr()
    return folder / "reference"


def interventions(run: Path) -> list[tuple[int, str, str]]:
    events = [event for event in lines(run, "events") if event["event"] == "intervention"]
    return [(event["step"], event["hook"], event["learner"]) for event in events]


def test_the_reference_run_has_everything_that_can_vary(reference: Path) -> None:
    """Every hook fired on its learners, also between checkpoints, the memory was full, and episodes ended."""
    assert interventions(reference) == [
        (88, HOOKS[1], "actor"),
        (96, HOOKS[0], "critic"),
        (168, HOOKS[2], "actor"),
        (168, HOOKS[2], "critic"),
        (176, HOOKS[1], "actor"),
        (216, HOOKS[3], "critic"),
    ]
    state = json.loads((max((reference / "checkpoints").iterdir()) / "state.json").read_text().splitlines()[1])
    assert all(rows["first"] > 0 for rows in state["rows"].values())
    assert state["tree"]["work"]["learners"]["critic"]["changes"] == ["injection"]
    assert state["tree"]["work"]["experience"]["taken"] == 50  # half of 120 − 20 decisions
    assert len(list((reference / "checkpoints").iterdir())) == 2
    assert len(lines(reference, "episodes")) > 10


def test_a_run_killed_before_changes_of_files_resumes_to_the_same_bytes(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    run = folder / "file-by-file"
    assert nursery.killed(RUN, run, 20) > 2
    same.assert_runs(run, reference)


def test_same_seed_gives_the_same_run_also_measured_more_often_and_evaluated(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    """Neither changes the run, also with random activations and observations in a file. Another seed does."""
    frames, run = folder / "frames", folder / "again"
    frames.mkdir()
    extra = ["--measure-every", 40, "--eval-every", 80, "--eval-episodes", 2, "--replay-folder", frames]
    assert nursery.run(*RUN, *extra, "--out", run) == 0, nursery.stderr()
    assert same.last_state(run) == same.last_state(reference)
    assert same.log(run, "episodes") == same.log(reference, "episodes")
    assert [row["step"] for row in lines(run, "metrics") if "eval/return" in row] == [80, 160, 240]
    assert nursery.run(*RUN, "--seed", 1, "--steps", 160, "--out", folder / "seed") == 0
    begun = [same.log(run, "episodes").splitlines()[:4] for run in (folder / "seed", reference)]
    assert begun[0] != begun[1]


# -- what is logged ----------------------------------------------------------------------------------------


def test_steps_and_lengths_count_steps_of_the_environment(nursery: Any, tmp_path: Path) -> None:
    """Three steps to a decision, 200 to an episode: the last decision of each is cut short."""
    sizes = ["--steps", 1_224, "--action-repeat", 3, "--num-envs", 1, "--checkpoint-every", 10_000]
    light = ["--learning-starts", 390, "--measure-every", 612]
    assert nursery.run("train", *SWING, *sizes, *light, "--out", tmp_path / "run") == 0, nursery.stderr()
    episodes = lines(tmp_path / "run", "episodes")
    assert [(e["step"], e["length"]) for e in episodes] == [(201 * n, 200) for n in range(1, 7)]
    assert all(-200 * 16.3 < e["return"] < 0 for e in episodes)
    rows = lines(tmp_path / "run", "metrics")
    assert [row["step"] for row in rows] == [612, 1_224]
    assert "updates" not in rows[0]
    assert rows[1]["updates"] == 9  # half of 408 − 390 decisions
    assert {"loss/actor", "loss/critic", "policy/entropy", "q/mean", "temperature", "replay/size"} < rows[1].keys()
    assert {"actor/srank", "critic/srank", "actor/dormant_fraction", "critic/dfi"} < rows[1].keys()


def test_hooks_name_a_learner_or_a_condition_on_one_and_come_back_periodically(nursery: Any, tmp_path: Path) -> None:
    hooks = ["reset@every:200", "critic/fire(contract=as_released)@0.25", "snp@when:critic/srank<99.5"]
    arguments = [word for hook in hooks for word in ("--hook", hook)]
    assert nursery.run("train", *SWING, *arguments, "--steps", 960, "--out", tmp_path / "run") == 0, nursery.stderr()
    found = interventions(tmp_path / "run")
    both = ("actor", "critic")
    assert [f for f in found if f[1] == hooks[0]] == [(s, hooks[0], x) for s in (200, 400, 600, 800) for x in both]
    assert [f for f in found if f[1] == hooks[1]] == [(240, hooks[1], "critic")]
    assert found.count((240, hooks[2], "actor")) == found.count((240, hooks[2], "critic")) == 1
    contracts = {e["hook"]: e["contract"] for e in lines(tmp_path / "run", "events") if e["event"] == "intervention"}
    assert contracts[hooks[1]]["temperature"] == "back to its start value"
    assert contracts[hooks[0]]["temperature"] == "kept"


def test_a_stream_of_tasks_shares_networks_memory_and_statistics(nursery: Any, tmp_path: Path) -> None:
    """Balancing one pendulum or another: both show 4 numbers in one run and take one action within ±3."""
    arguments = iter(BALANCE)
    common = [word for word in arguments if not (word in ("--env", "--steps") and next(arguments))]
    stream = ["--sequence", "inverted_pendulum,inverted_pendulum", "--steps-per-task", 80, "--hook", "fire@task"]
    assert nursery.run("train", *common, *stream, "--out", tmp_path / "run") == 0, nursery.stderr()
    assert interventions(tmp_path / "run") == [(80, "fire@task", "actor"), (80, "fire@task", "critic")]
    assert {episode["task"] for episode in lines(tmp_path / "run", "episodes")} == {0, 1}
    assert lines(tmp_path / "run", "metrics")[-1]["replay/size"] > 40
