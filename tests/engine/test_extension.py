"""Runs that are extended beyond their planned length, and the meaning of fractions in their hooks."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from supple.agents.ppo.settings import PPOSettings
from supple.engine.extension import extend
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec, read_spec
from supple.experiments.history.logs import read_log
from supple.registry.errors import UsageError
from supple.scripts.main import dispatch
from supple.tracks.linear.settings import LinearSettings
from tests.processes import stop_at

WORDS = (
    "train ppo --env CartPole-v1 --steps 120 --num-envs 2 --rollout-steps 20 --minibatch-size 10 --epochs 1 --hidden 8 "
    "--adapter 8 --compile off --checkpoint-every 40 --measure-every 40 --eval-episodes 0"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("extension") / "run"
    dispatch([*WORDS.split(), "--hook", "snp@0.5", "--hook", "redo@every:0.5", "--out", str(path)])
    return path


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


@pytest.mark.slow
def test_an_extended_run_continues_and_fractions_of_hooks_keep_their_steps(
    run: Path, made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dispatch(["resume", str(run), "--steps", "240"])
    assert "fractions in its hooks still refer to 120 steps" in capsys.readouterr().err
    for log in ("metrics", "episodes", "events"):
        before, after = ((path / f"{log}.jsonl").read_bytes() for path in (made, run))
        assert after.startswith(before), log
    fired = [(e["hook"], e["step"]) for e in read_log(run, "events") if e["event"] == "intervention"]
    assert fired == [("snp@0.5", 80), ("redo@every:0.5", 80), ("redo@every:0.5", 200)]  # after the rollouts
    assert max(line["step"] for line in read_log(run, "metrics")) == 240
    before = read_spec(run).resolved
    dispatch(["resume", str(run), "--steps", "320"])
    assert read_spec(run).resolved.planned == before.planned == 120


@pytest.mark.slow
def test_a_killed_extended_run_resumes_to_the_same_bytes(run: Path, same: Any, tmp_path: Path) -> None:
    extend(run, 240, lambda line: None)
    whole = Path(shutil.copytree(run, tmp_path / "whole"))
    open_run(whole, lambda line: None).train(lambda step: None)

    with pytest.raises(KeyboardInterrupt):
        open_run(run, lambda line: None).train(stop_at(200))
    open_run(run, lambda line: None).train(lambda step: None)
    same.assert_runs(run, whole)


@pytest.mark.slow
def test_runs_that_cannot_be_extended_are_refused_and_stay_unchanged(run: Path, tmp_path: Path) -> None:
    one, several = {"env": "CartPole-v1", "steps": 120}, {"sequence": "cartpole,acrobot", "steps_per_task": 40}
    for settings, steps, words in (
        (PPOSettings(**one), 120, "--steps is 120"),
        (PPOSettings(**one, schedule="linear"), 240, "--schedule linear"),
        (PPOSettings(**several), 240, "a run of several tasks"),
        (LinearSettings(), 240, "only runs of agents"),
    ):
        with pytest.raises(UsageError, match=words):
            settings.lengthen(steps)
    prepare(RunSpec("ppo", PPOSettings(**one, hook=("ewc(samples=4)",))), tmp_path / "ewc").close()
    for path, steps, words in (
        (tmp_path / "ewc", 240, "has acted on the old end"),
        (run, 121, "is 121, which is not a"),
    ):
        before = (path / "config.json").read_bytes()
        with pytest.raises(UsageError, match=words):
            extend(path, steps, pytest.fail)
        assert (path / "config.json").read_bytes() == before
