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
    "--num-envs 2 --learning-starts 20 --batch-size 8 --actor-width 8 --critic-width 8 --critic-blocks 1 "
    "--replay-ratio 0.5 --activation rand_smooth_leaky --device cpu --compile off"
)
HOOKS = ["injection@0.4", "actor/redo(tau=0.3)@every:88", "snp@0.7", "critic/fire(contract=as_released)@0.9"]
RUN = [
    *("train", "sac", "--env", "inverted_pendulum", *SMALL),  # falls within a few decisions
    *shlex.split("--steps 240 --replay-size 50 --checkpoint-every 80 --measure-every 120 --eval-episodes 0"),
    *(word for hook in HOOKS for word in ("--hook", hook)),
]


@pytest.fixture(scope="module")
def reference(nursery: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that is not killed."""
    run = tmp_path_factory.mktemp("sac") / "reference"
    assert nursery.run(*RUN, "--out", run) == 0, nursery.stderr()
    return run


def test_the_reference_run_has_everything_that_can_vary(reference: Path) -> None:
    """Every hook fired on its learners, also between checkpoints, the memory was full, and episodes ended."""
    fired = [event for event in lines(reference, "events") if event["event"] == "intervention"]
    assert [(event["step"], event["hook"], event["learner"]) for event in fired] == [
        (88, HOOKS[1], "actor"), (96, HOOKS[0], "critic"), (168, HOOKS[2], "actor"), (168, HOOKS[2], "critic"),
        (176, HOOKS[1], "actor"), (216, HOOKS[3], "critic"),
    ]  # fmt: skip
    assert [event["contract"]["temperature"] for event in fired[-2:]] == ["kept", "back to its start value"]
    state = json.loads((max((reference / "checkpoints").iterdir()) / "state.json").read_text().splitlines()[1])
    assert all(rows["first"] > 0 for rows in state["rows"].values())
    assert state["tree"]["work"]["experience"]["taken"] == 50  # half of 120 − 20 decisions
    assert len(lines(reference, "episodes")) > 10


def test_a_run_killed_before_changes_of_files_resumes_to_the_same_bytes(
    nursery: Any, same: Any, reference: Path, tmp_path: Path
) -> None:
    assert nursery.killed(RUN, tmp_path / "run", 20) > 2
    same.assert_runs(tmp_path / "run", reference)


def test_measurements_evaluations_and_observations_in_a_file_leave_training_alone(
    nursery: Any, same: Any, reference: Path, tmp_path: Path
) -> None:
    (frames := tmp_path / "frames").mkdir()
    extra = ["--measure-every", 40, "--eval-every", 80, "--eval-episodes", 2, "--replay-folder", frames]
    assert nursery.run(*RUN, *extra, "--out", tmp_path / "run") == 0, nursery.stderr()
    assert same.last_state(tmp_path / "run") == same.last_state(reference)
    assert same.log(tmp_path / "run", "episodes") == same.log(reference, "episodes")
    assert [row["step"] for row in lines(tmp_path / "run", "metrics") if "eval/return" in row] == [80, 160, 240]


def test_steps_and_lengths_count_steps_of_the_environment(nursery: Any, tmp_path: Path) -> None:
    """Three steps to a decision, 200 to an episode: the last decision of each is cut short."""
    own = shlex.split(
        "--env Pendulum-v1 --steps 1224 --action-repeat 3 --num-envs 1 --checkpoint-every 10000 --learning-starts 390 "
        "--measure-every 612 --replay-size 100 --eval-episodes 0"
    )
    assert nursery.run("train", "sac", *SMALL, *own, "--out", tmp_path / "run") == 0, nursery.stderr()
    episodes = lines(tmp_path / "run", "episodes")
    assert [(e["step"], e["length"]) for e in episodes] == [(201 * n, 200) for n in range(1, 7)]
    assert all(-200 * 16.3 < e["return"] < 0 for e in episodes)
    first, last = lines(tmp_path / "run", "metrics")
    assert (first["step"], last["step"]) == (612, 1_224)
    assert "updates" not in first
    assert last["updates"] == 9  # half of 408 − 390 decisions
    assert {"policy/entropy", "temperature", "actor/srank", "critic/dfi"} < last.keys()
