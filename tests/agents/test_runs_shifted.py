"""Runs whose tasks differ by shifts: killed and forked while a change is coming, they go on to the same bytes; what a
task is given is in the run's files, and every arm of a comparison meets the same."""

import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.agents.evaluate import play
from supple.engine.spec import read_spec
from supple.envs import make_env, parse_shifts
from supple.scripts import compare, train
from tests.agents.small import lines

pytestmark = pytest.mark.slow

SLIDING = "offset(scale=2,over=300)"
BY_EPISODE = "permute_actions(over=300)"
BOTH = f"{SLIDING} + {BY_EPISODE}"
SHIFTED = shlex.split(
    "--env CartPole-v1 --cycles 3 --steps-per-task 400 --num-envs 2 --rollout-steps 20 --minibatch-size 20 --epochs 2 "
    "--hidden 8 --adapter 0 --eval-episodes 1 --eval-every 160 --measure-every 200 --checkpoint-every 120 "
    "--max-episode-steps 30"
)
RUN = ["train", "ppo", *SHIFTED, "--shift", BOTH]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that is not killed, with a saved state where the comparison below forks."""
    run = tmp_path_factory.mktemp("shifted") / "reference"
    train.main([*RUN[1:], "--out", str(run)])
    return run


def test_a_fork_during_a_gradual_change_is_what_the_trunk_would_have_done(
    here: Any, same: Any, reference: Path, tmp_path: Path
) -> None:
    with here():
        arms = ["--fork-at", "0.5", "--arm", "none", "--arm", "snp"]
        compare.main([*RUN[1:], *arms, "--out", str(tmp_path / "out")])
    trunk, none, snp = (tmp_path / "out/seed-0" / name for name in ("trunk", "none", "snp"))
    for log in ("episodes", "metrics", "events"):
        assert same.log(trunk, log) + same.log(none, log) == same.log(reference, log)
    assert same.last_state(none) == same.last_state(reference)
    assert same.last_state(snp) != same.last_state(none)
    assert values_in(trunk) == values_in(none) == values_in(snp) == values_in(reference)


def values_in(run: Path) -> list[dict[str, Any]]:
    """Return the values of each task's shifts in config.json."""
    return [task["shift"] for task in read_spec(run).resolved.tasks]


def test_the_values_of_each_tasks_shifts_are_in_the_runs_files(reference: Path) -> None:
    env, shifts = make_env("CartPole-v1"), parse_shifts(BOTH)
    expected = [shifts.values(env, 0, task) for task in range(3)]
    assert values_in(reference) == expected
    assert [row["shift"] for row in lines(reference, "events") if row["event"] == "task"] == expected
    first, second, third = (np.array(task["offset"]["offset"]) for task in expected)
    assert not first.any()  # no task before it
    assert (second != 0).all()
    assert (third != second).all()


@pytest.mark.parametrize("over", [0, 320])
def test_evaluations_have_the_shift_of_the_moment(over: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offsets: list[float] = []

    def noting(policy: Any, env: str, envs: Any, seeds: Any) -> list[list[float]]:
        plain = make_env(env)
        offsets.append(float(np.abs(envs.reset(seeds)[0] - plain.reset(seed=seeds[0])[0]).max()))
        plain.close()
        return play(policy, env, envs, seeds)

    monkeypatch.setattr("supple.agents.returns_by_task.play", noting)
    run, text = tmp_path / "run", f"offset(scale=2,over={over})"
    train.main(["ppo", *SHIFTED, "--cycles", "2", "--shift", text, "--out", str(run)])
    whole = np.abs(values_in(run)[1]["offset"]["offset"]).max()
    steps = [row["step"] for row in lines(run, "metrics") if "eval/return" in row]
    passed = [max(step - 400, 0) for step in steps]
    shares = [min(1.0, n / over) if over else float(n > 0) for n in passed]
    np.testing.assert_allclose(offsets, [share * whole for share in shares], rtol=1e-4, atol=1e-5)
    assert over == 0 or any(0 < share < 1 for share in shares)
