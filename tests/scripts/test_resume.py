"""`supple resume` continues killed runs of every kind to the bytes of runs that were never interrupted."""

import importlib.util
import runpy
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from supple.engine.kinds import all_kinds
from supple.scripts.main import dispatch
from tests.processes import die_when, ended

SMALL = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "stress" / "small_runs.py"))
RUNS, train, logs, weights = (SMALL[name] for name in ("RUNS", "command", "logs", "weights"))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the files that the runs learn from."""
    made: dict[str, str] = SMALL["places"](tmp_path_factory.mktemp("data"))
    return made


def test_every_kind_has_a_run_that_is_killed() -> None:
    assert RUNS.keys() == all_kinds().keys()


@pytest.mark.slow
@pytest.mark.parametrize("kind", RUNS)
def test_a_killed_run_is_resumed_to_the_same_bytes(
    kind: str, places: dict[str, str], process: Any, tmp_path: Path
) -> None:
    if kind == "dqn" and importlib.util.find_spec("ale_py") is None:
        pytest.skip("ale-py is an extra")
    errors, whole, killed = tmp_path / "errors", tmp_path / "whole", tmp_path / "killed"
    dispatch(train(kind, places, whole))  # in this process, so that its children find imported what they need
    # the first checkpoint is there: somewhere behind it
    first = partial(die_when, lambda: list(killed.glob("checkpoints/0*")))
    child = process(train(kind, places, killed), errors, first)
    assert ended(child) == -signal.SIGKILL, errors.read_text()
    assert ended(process(["resume", str(killed)], errors)) == 0, errors.read_text()
    assert logs(killed) == logs(whole)
    assert weights(killed) == weights(whole)


def refused(process: Any, errors: Path, *words: str) -> str:
    """Return what a command said that was refused."""
    assert ended(process([*words], errors)) == 1
    assert errors.read_text().count("\n") == 1
    return errors.read_text()


def test_a_run_that_another_machine_trained_until_now_is_refused_unless_it_is_taken_over(
    places: dict[str, str], process: Any, tmp_path: Path
) -> None:
    out, errors = tmp_path / "run", tmp_path / "errors"
    dispatch(train("linear", places, out))
    (out / ".lock").write_text("process 7 on elsewhere")
    assert "process 7 on elsewhere was training this run" in refused(process, errors, "resume", str(out))
    assert ended(process(["resume", str(out), "--take-over"], errors)) == 0, errors.read_text()


def test_lines_added_to_the_log_of_a_finished_run_are_reported(
    places: dict[str, str], tmp_path: Path, ask: Any
) -> None:
    out = tmp_path / "run"
    dispatch(train("linear", places, out))
    with (out / "metrics.jsonl").open("a") as log:
        log.write('{"step": 1}\n')
    for command in ("resume", "report"):
        code, stderr = ask(command, out)
        assert (bool(code), stderr.count("\n")) == (True, 1)
        assert "metrics.jsonl: it has" in stderr
        assert "another program has written to this log" in stderr
