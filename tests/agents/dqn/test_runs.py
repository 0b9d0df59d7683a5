"""Whole runs of DQN on a real game: killed and resumed, forked, repeated and evaluated.

The processes and the kills are real; see the nursery in tests/agents/conftest.py. Sizes are the smallest at which
episodes end, the replay memory wraps around, every hook fires and the target network is copied.
"""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.scripts.main import dispatch
from tests.agents.small import lines

pytestmark = pytest.mark.slow

pytest.importorskip("ale_py", reason="ale-py is an extra")

GAME = shlex.split(
    "dqn --env asterix --steps 240 --num-envs 2 --learning-starts 60 --replay-size 150 --batch-size 4 --hidden 16 "
    "--encoder nature(channels=[4,4,4]) --exploration-steps 60 "
    "--target-period 40 --replay-ratio 0.25 --max-frames 120 --eval-episodes 0 "
    "--measure-every 120 --checkpoint-every 80 --activation rand_smooth_leaky --device cpu"
)
HOOKS = [word for hook in ("injection@0.4", "redo(tau=0.1)@every:90", "snp@0.7") for word in ("--hook", hook)]
RUN = ["train", *GAME, *HOOKS]
FORKED = "--steps 160 --learning-starts 20 --checkpoint-every 40 --measure-every 160 --replay-size 400"
COMPARE = ["compare", *GAME, *FORKED.split()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("dqn")


@pytest.fixture(scope="module")
def reference(nursery: Any, folder: Path) -> Path:
    """Return a run that is neither killed nor forked."""
    assert nursery.run(*RUN, "--out", folder / "reference") == 0, nursery.stderr()
    return folder / "reference"


@pytest.fixture(scope="module")
def evaluated(nursery: Any, folder: Path) -> Path:
    """Return the same run with evaluations, and with its frames in a file."""
    (folder / "frames").mkdir()
    more = ["--eval-every", 120, "--eval-episodes", 2, "--replay-folder", folder / "frames"]
    assert nursery.run(*RUN, *more, "--out", folder / "evaluated") == 0, nursery.stderr()
    return folder / "evaluated"


@pytest.fixture(scope="module")
def ratios(nursery: Any, folder: Path) -> dict[float, Path]:
    """Return runs by replay ratio: the first has two threads, the second another seed."""
    runs = {0.25: ["--threads", 2], 4: ["--seed", 1]}
    sizes = ["--steps", 80, "--measure-every", 40]
    for ratio, own in runs.items():
        words = ["train", *GAME, *sizes, "--replay-ratio", ratio, *own, "--out", folder / str(ratio)]
        assert nursery.run(*words) == 0, nursery.stderr()
    return {ratio: folder / str(ratio) for ratio in runs}


def test_the_reference_run_has_everything_that_can_vary(reference: Path) -> None:
    """Every hook fired, also between checkpoints, ReDo recycled units, and the ring of the memory was filled twice."""
    fired = {e["step"]: e for e in lines(reference, "events") if e["event"] == "intervention"}
    assert [(step, e["intervention"].split("(")[0]) for step, e in fired.items()] == [
        (90, "redo"), (96, "injection"), (168, "snp"), (180, "redo"),
    ]  # fmt: skip
    state = json.loads((max((reference / "checkpoints").iterdir()) / "state.json").read_text().splitlines()[1])
    assert all(rows["first"] > 0 for rows in state["rows"].values())
    assert state["tree"]["work"]["learner"]["changes"] == ["injection"]
    assert len(list((reference / "checkpoints").iterdir())) == 2


# -- killed, repeated, with other means to the same end ----------------------------------------------------


def test_a_run_killed_before_changes_of_files_resumes_to_the_same_bytes(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    run = folder / "file-by-file"
    assert nursery.killed(RUN, run, 25) > 2
    same.assert_runs(run, reference)


def test_same_seed_gives_the_same_run_also_evaluated_and_with_frames_in_a_file(
    same: Any, reference: Path, evaluated: Path, folder: Path
) -> None:
    same.assert_states(evaluated, reference)
    for log in ("episodes", "events"):
        assert same.log(evaluated, log) == same.log(reference, log)
    measured = [row for row in same.log(evaluated, "metrics").splitlines() if b"eval/" not in row]
    assert measured == same.log(reference, "metrics").splitlines()
    assert list((folder / "frames").iterdir()) == []


def test_the_number_of_threads_leaves_the_games_alone_and_another_seed_does_not(
    same: Any, reference: Path, ratios: dict[float, Path]
) -> None:
    """Up to the first gradient step: PyTorch's threads, which --threads sets too, may add up in another order."""
    begun = same.log(reference, "episodes").splitlines()[:2]
    threads, seed = (same.log(ratios[ratio], "episodes").splitlines()[:2] for ratio in (0.25, 4))
    assert threads == begun
    assert seed != begun


# -- comparisons -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(here: Any, folder: Path) -> Path:
    """Return a comparison that is not killed, in this process."""
    arms = [word for arm in ("none", "injection") for word in ("--arm", arm)]
    with here():
        dispatch([*COMPARE, *arms, "--jobs", "1", "--out", str(folder / "whole")])
    return folder / "whole/seed-0"


def test_arms_share_the_files_of_their_trunks_memory(whole: Path) -> None:
    """Those rows lie on the disk once, as long as they are alive; an arm adds its own."""
    at_fork = whole / "trunk/checkpoints/000000000080"
    inodes = {file.stat().st_ino for file in at_fork.glob("rows-*")}
    assert len(inodes) == 4  # two environments, two checkpoints
    for arm in ("none", "injection"):
        files = list((whole / arm / "checkpoints/000000000160").glob("rows-*"))
        assert inodes < {file.stat().st_ino for file in files}
        assert len(files) == 8


# -- what is logged ----------------------------------------------------------------------------------------


def test_evaluations_are_normalised_by_the_scores_of_the_table(evaluated: Path) -> None:
    """At every multiple of --eval-every and at the end. Asterix: random play 210.0, a human 8503.3."""
    rows = [row for row in lines(evaluated, "metrics") if "eval/return" in row]
    assert [row["step"] for row in rows] == [120, 240]
    for row in rows:
        assert row["eval/return"] % 25 == 0  # the mean of two
        assert row["eval/human_normalized"] == pytest.approx((row["eval/return"] - 210.0) / (8503.3 - 210.0))


def test_returns_are_the_games_own_while_rewards_are_clipped(reference: Path) -> None:
    """Asterix gives 50 points and more; clipped, no return could exceed the length."""
    episodes = lines(reference, "episodes")
    assert all(episode["length"] == 30 and episode["return"] % 50 == 0 for episode in episodes)  # 120 frames
    assert max(episode["return"] for episode in episodes) > 30
    assert json.loads((reference / "config.json").read_text())["settings"]["clip_rewards"]


@pytest.mark.parametrize(("ratio", "updates"), [(0.25, 5), (4, 80)])
def test_replay_ratio_is_gradient_steps_per_environment_step(
    ratios: dict[float, Path], ratio: float, updates: int
) -> None:
    rows = lines(ratios[ratio], "metrics")
    assert [row["step"] for row in rows] == [40, 80]
    assert sum(row["updates"] for row in rows[1:]) == updates


def test_games_with_equal_actions_make_a_stream(nursery: Any, tmp_path: Path) -> None:
    """Asterix and BeamRider have nine actions each; the network and its memory go on from one to the other."""
    arguments = iter(GAME)
    game = [word for word in arguments if not (word in ("--env", "--steps") and next(arguments))]
    stream = ["--sequence", "asterix,beam_rider", "--steps-per-task", 80, "--eval-episodes", 1, "--hook", "fire@task"]
    assert nursery.run("train", *game, *stream, "--out", tmp_path / "run") == 0, nursery.stderr()
    events = [(e["event"], e["step"]) for e in lines(tmp_path / "run", "events")]
    assert events == [("task", 0), ("task", 80), ("intervention", 80)]
    envs = {(e["task"], e["env"]) for e in lines(tmp_path / "run", "episodes")}
    assert envs == {(0, "ALE/Asterix-v5"), (1, "ALE/BeamRider-v5")}
    rows = lines(tmp_path / "run", "metrics")
    assert [(row["step"], row["task"]) for row in rows if "eval/return" in row] == [(80, 0), (160, 1)]
    assert rows[-2]["replay/size"] > 80
