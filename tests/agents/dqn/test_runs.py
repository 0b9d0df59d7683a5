"""Whole runs of DQN on a real game: killed and resumed, forked, repeated and evaluated.

The processes and the kills are real; see the nursery in tests/agents/conftest.py. Sizes are the smallest at which
episodes end, the replay memory wraps around, every hook fires and the target network is copied.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.agents.small import lines

pytestmark = pytest.mark.slow

pytest.importorskip("ale_py", reason="ale-py is an extra")

COMMON = shlex.split(
    "--num-envs 2 --learning-starts 60 --replay-size 150 --batch-size 4 --hidden 16 "
    "--encoder nature(channels=[4,4,4]) --exploration-steps 60 --target-period 40 --replay-ratio 0.25 --max-frames 120 "
    "--measure-every 120 --checkpoint-every 80 --activation rand_smooth_leaky --device cpu"
)
HOOKS = [word for hook in ("injection@0.4", "redo(tau=0.1)@every:90", "snp@0.7") for word in ("--hook", hook)]
RUN = ["train", "dqn", "--env", "asterix", "--steps", 240, *COMMON, "--eval-episodes", 0, *HOOKS]


@pytest.fixture(scope="module")
def reference(nursery: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that is not killed."""
    run = tmp_path_factory.mktemp("dqn") / "reference"
    assert nursery.run(*RUN, "--out", run) == 0, nursery.stderr()
    return run


def test_the_reference_run_has_everything_that_can_vary(reference: Path) -> None:
    """Every hook fired, also between checkpoints, ReDo recycled units, and the ring of the memory was filled twice."""
    fired = [(e["step"], e["intervention"].split("(")[0]) for e in lines(reference, "events") if "intervention" in e]
    assert fired == [(90, "redo"), (96, "injection"), (168, "snp"), (180, "redo")]
    state = json.loads((max((reference / "checkpoints").iterdir()) / "state.json").read_text().splitlines()[1])
    assert all(rows["first"] > 0 for rows in state["rows"].values())
    assert state["tree"]["work"]["learner"]["changes"] == ["injection"]


def test_a_run_killed_before_changes_of_files_resumes_to_the_same_bytes(
    nursery: Any, same: Any, reference: Path, tmp_path: Path
) -> None:
    assert nursery.killed(RUN, tmp_path / "run", 25) > 2
    same.assert_runs(tmp_path / "run", reference)


def test_returns_are_the_games_own_while_rewards_are_clipped(reference: Path) -> None:
    """Asterix gives 50 points and more; clipped, no return could exceed the length."""
    episodes = lines(reference, "episodes")
    assert all(episode["length"] == 30 and episode["return"] % 50 == 0 for episode in episodes)  # 120 frames
    assert max(episode["return"] for episode in episodes) > 30


def test_games_with_equal_actions_make_a_stream_and_are_scored_by_the_table(nursery: Any, tmp_path: Path) -> None:
    """Asterix and BeamRider have nine actions each; the network and its memory go on from one to the other. In
    Asterix, random play scores 210.0, a human 8503.3."""
    stream = ["--sequence", "asterix,beam_rider", "--steps-per-task", 80, "--eval-episodes", 2, "--hook", "fire@task"]
    assert nursery.run("train", "dqn", *stream, *COMMON, "--out", tmp_path / "run") == 0, nursery.stderr()
    events = [(e["event"], e["step"]) for e in lines(tmp_path / "run", "events")]
    assert events == [("task", 0), ("task", 80), ("intervention", 80)]
    envs = {(e["task"], e["env"]) for e in lines(tmp_path / "run", "episodes")}
    assert envs == {(0, "ALE/Asterix-v5"), (1, "ALE/BeamRider-v5")}
    rows = lines(tmp_path / "run", "metrics")
    first, second = (row for row in rows if "eval/return" in row)
    assert (first["step"], first["task"], second["step"], second["task"]) == (80, 0, 160, 1)
    assert first["eval/human_normalized"] == pytest.approx((first["eval/return"] - 210.0) / (8503.3 - 210.0))
    assert rows[-2]["replay/size"] > 80
