"""The run directory: created completely or not at all, with logs that can be truncated to a checkpoint."""

import math
import os
from pathlib import Path
from typing import Any

import pytest

from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.engine.storage.checkpoint import newest_step
from supple.engine.storage.run_directory import LOGS, RunDirectory
from supple.experiments.history.logs import read_log
from supple.registry.errors import RunError
from supple.tracks.linear.settings import LinearSettings
from supple.tracks.linear.work import LinearWork

AGENT_LOGS = ("metrics", "episodes", "events")


def contents(run: RunDirectory) -> dict[str, bytes]:
    return {file: (run.path / file).read_bytes() for file in LOGS.values() if (run.path / file).exists()}


def log_some(run: RunDirectory, step: int) -> None:
    run.metrics(step, {"loss": step / 3})
    run.episode(step=step, **{"return": 1.5})
    run.event(event="task", step=step)


def test_logs_that_are_truncated_and_written_again_equal_logs_without_interruption(tmp_path: Path) -> None:
    with RunDirectory(tmp_path, "") as run:
        run.start_logs({}, 0.0, AGENT_LOGS)
        log_some(run, 1)
        lengths = run.log_lengths(1)
        log_some(run, 2)
    whole = contents(run)
    (tmp_path / LOGS["episodes"]).write_bytes(whole[LOGS["episodes"]] + b'{"step": 3, "ret')
    with RunDirectory(tmp_path, "") as run:
        run.start_logs(lengths, 12.0, AGENT_LOGS)
        assert 12.0 <= run.seconds() < 13.0
        log_some(run, 2)
    again = contents(run)
    assert [again[LOGS[name]] for name in ("episodes", "events")] == [
        whole[LOGS[name]] for name in ("episodes", "events")
    ]
    assert [(line["step"], line["loss"]) for line in read_log(tmp_path, "metrics")] == [(1, 1 / 3), (2, 2 / 3)]


def test_the_other_logs_are_written_if_one_cannot_be(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path, "")
    run.start_logs({}, 0.0, AGENT_LOGS)
    log_some(run, 1)
    (tmp_path / LOGS["metrics"]).unlink()
    with pytest.raises(RunError, match="removed or renamed"):
        run.close()
    assert read_log(tmp_path, "episodes") == [{"step": 1, "return": 1.5}]


def test_numbers_that_json_does_not_have_are_logged_as_null_with_their_texts(tmp_path: Path) -> None:
    shown: dict[str, Any] = {}
    with RunDirectory(tmp_path, "") as run:
        run.show = lambda step, values: shown.update(values)
        run.start_logs({}, 0.0, AGENT_LOGS)
        run.metrics(1, {"loss": math.nan, "norm": 2.0})
        run.event(event="intervention", step=1, seeds=[0, 1], after={"a/srank": [2.0, -math.inf]})  # of a stack
    metrics, event = (read_log(tmp_path, name)[0] for name in ("metrics", "events"))
    assert (metrics["loss"], metrics["norm"], metrics["not_finite"]) == (None, 2.0, {"loss": "nan"})
    assert (event["after"], event["not_finite"]) == ({"a/srank": [2.0, None]}, {"after/a/srank/1": "-inf"})
    assert math.isnan(shown["loss"])


def test_an_environment_may_change_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    settings = LinearSettings(tasks="random", updates_per_task=40, measure_every=20, checkpoint_every=10)
    whole = LinearWork.advance

    def advance(*values: Any) -> int:
        os.chdir(tmp_path / "elsewhere")
        return whole(*values)

    monkeypatch.setattr(LinearWork, "advance", advance)
    prepare(RunSpec("linear", settings), Path("run"), pytest.fail).train(lambda step: None)
    assert newest_step(tmp_path / "run/checkpoints") == 40
    assert not [*(tmp_path / "elsewhere").iterdir()]
    assert (tmp_path / "run/.lock").read_text() == ""


def test_the_returns_of_a_stack_are_shown_by_seed_and_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[tuple[int, dict[str, Any]]] = []
    with RunDirectory(tmp_path, "") as run:
        run.show = lambda step, values: shown.append((step, {**values}))
        run.start_logs({}, 0.0, AGENT_LOGS)
        for seed, value in ((3, 1.0), (8, 5.0), (3, 2.0)):
            run.episode(step=1, seed=seed, **{"return": value})
        run.metrics(2, {"loss": math.inf}, seed=3)
        monkeypatch.setattr("supple.engine.storage.run_directory.SHOWN", 0.0)
        run.episode(step=4, seed=3, **{"return": 7.0})
    returns = (2, {"seed-3/train/return": 1.5}), (2, {"seed-8/train/return": 5.0}), (4, {"seed-3/train/return": 7.0})
    assert shown == [(2, {"seed-3/loss": math.inf}), *returns]
