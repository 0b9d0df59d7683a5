"""What is printed around training: the plan, the results and the next commands."""

import shlex
from pathlib import Path

import pytest

from supple.scripts.main import dispatch

LINEAR = "linear --tasks semantic,reversal --updates-per-task 30"
HOOK = "rebalance(lam=5)@task"
PPO = "ppo --env cartpole --steps 512 --num-envs 4 --rollout-steps 32 --hidden 8 --eval-episodes 1"


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out.splitlines()


def test_a_run_prints_its_plan_first_and_results_and_next_commands_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    dispatch(shlex.split(f"train {LINEAR} --hook '{HOOK}' --seed 3 --out {out}"))
    said = lines(capsys)
    assert said[:3] == [
        "plan: linear on semantic, reversal: 2 tasks, 60 updates, seed 3",
        f"hooks: {HOOK}",
        f"results: {out}",
    ]
    done = next(i for i, line in enumerate(said) if line.startswith(f"done: {out} in "))
    assert any("excess loss" in line for line in said[:done])
    assert f"supple report {out}" in said[done + 1]
    assert f"supple doctor {out}" in said[done + 2]


@pytest.mark.usefixtures("forked_workers", "without_figures")
@pytest.mark.slow
def test_a_comparison_prints_its_arms_seeds_and_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    dispatch(shlex.split(f"compare {LINEAR} --fork-at 0 --arm none --arm '{HOOK}' --seeds 0-1 --jobs 1 --out {out}"))
    said = lines(capsys)
    assert said[:3] == [
        f"plan: linear, arms none, {HOOK}, seeds 0, 1",
        "4 runs: 0 finished, 0 failed, 4 remaining, 1 at a time",
        f"results: {out}",
    ]
    assert said[-1].startswith(f"next: supple doctor {out}/seed-0/none")
