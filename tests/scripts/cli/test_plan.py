"""What is printed around training: the plan, the forecast after a minute, the results and the next commands."""

import json
import shlex
from pathlib import Path

import pytest

from supple.engine import speed
from supple.engine.storage.run_directory import RunDirectory
from supple.experiments.comparisons.folder import read_comparison
from supple.scripts import compare
from supple.scripts.cli.forecast import Forecast
from supple.scripts.cli.options import parse_request
from supple.scripts.cli.plan import comparison_command
from supple.scripts.main import dispatch

LINEAR = "linear --tasks semantic,reversal --updates-per-task 30"
HOOK = "rebalance(lam=5)@task"
PPO = "ppo --env cartpole --steps 512 --num-envs 4 --rollout-steps 32 --hidden 8 --eval-episodes 1"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time that forecasts measure by, in seconds, in a list."""
    now = [0.0]
    monkeypatch.setattr(speed.time, "monotonic", lambda: now[0])
    return now


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
    assert "supple compare linear" in said[done + 3]


@pytest.mark.slow
def test_resuming_a_finished_run_says_that_it_is_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    dispatch(shlex.split(f"train {LINEAR} --out {out}"))
    lines(capsys)
    dispatch(["resume", str(out)])
    assert lines(capsys)[0] == f"{out} has been trained to its end, step 60"


@pytest.mark.parametrize(
    "line", [f"{LINEAR} --hook='{HOOK}'", f"{PPO} --hook fire@0.5 --hook 'l2_init(strength=1e-3)'"]
)
def test_the_suggested_comparison_parses(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.scripts.cli.training.finish_run", lambda *_: None)
    dispatch(shlex.split(f"train {line} --seed 3 --out {tmp_path / 'run'}"))
    with RunDirectory.open(tmp_path / "run") as run:
        words = shlex.split(comparison_command(run))
    what = parse_request("compare", words[2:])
    found = compare.plan_comparison(what, compare.parse_options(what), "")
    assert found.arms == ("none", " + ".join(json.loads((tmp_path / "run/config.json").read_text())["hooks"]))
    assert (found.seeds, found.fork_at) == ((0, 1, 2, 3, 4), 0)


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


def test_the_remaining_time_is_printed_once_after_a_minute(clock: list[float]) -> None:
    said: list[str] = []
    forecast = Forecast(said.append)
    for clock[0], step in ((0, 0), (10, 5), (30, 105), (80, 355)):  # compiling until 10
        forecast.run(Path("run"), step, 3655)
    assert said == ["measured for a minute: 5 steps/s; about 0:11:00 left, until " + said[0][-9:]]
    clock[0] = 1000.0
    forecast.run(Path("run"), 400, 3655)
    assert len(said) == 1


def test_the_remaining_time_of_several_runs_comes_from_the_mean_speed(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.scripts.cli.training.finish_queue", lambda *_: None)
    out = tmp_path / "out"
    dispatch(shlex.split(f"compare {LINEAR} --fork-at 0 --arm none --arm '{HOOK}' --seeds 0-1 --jobs 2 --out {out}"))
    queue = read_comparison(out).queue(out)
    for begun in queue[:2]:
        held = begun.lock()
        assert held
        with held:
            training = begun._open(held, lambda line: None)
            assert training
            training.close()
    said: list[str] = []
    forecast = Forecast(said.append)
    for clock[0], place, step in ((0, 0, 0), (0, 1, 0), (1, 0, 1), (1, 1, 1), (51, 0, 11), (61, 1, 25)):
        forecast.queued(queue[place], step, queue, 2)
    assert len(said) == 1  # 240 - 11 - 25 steps at 0.2 and 0.4 steps/s
    assert said[0].startswith("measured for a minute: 0.3 steps/s in each of 2 runs at a time; 4 runs: about 0:05:40")
