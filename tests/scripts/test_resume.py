"""`supple resume` continues killed runs of every kind to the bytes of runs that were never interrupted."""

import importlib.util
import runpy
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from supple.engine.kinds import all_kinds
from supple.scripts.main import dispatch
from tests.processes import die_when, ended

pytestmark = pytest.mark.slow

SMALL = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "stress" / "small_runs.py"))
RUNS, train, logs, weights = (SMALL[name] for name in ("RUNS", "command", "logs", "weights"))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the files that the runs learn from."""
    made: dict[str, str] = SMALL["places"](tmp_path_factory.mktemp("data"))
    return made


def test_every_kind_has_a_run_that_is_killed() -> None:
    assert RUNS.keys() == all_kinds().keys()


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


def test_a_run_that_another_machine_trained_until_now_is_refused_unless_it_is_taken_over(
    places: dict[str, str], process: Any, tmp_path: Path
) -> None:
    out, errors = tmp_path / "run", tmp_path / "errors"
    dispatch(train("linear", places, out))
    (out / ".lock").write_text("process 7 on elsewhere")
    assert ended(process(["resume", str(out)], errors)) == 1
    assert "process 7 on elsewhere was training this run" in errors.read_text()
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


WORDS = "train linear --tasks semantic,reversal --updates-per-task 60 --checkpoint-every 50 --keep-checkpoints 3"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run"
    dispatch([*WORDS.split(), "--out", str(path)])
    return path


@pytest.fixture
def unfinished(made: Path, tmp_path: Path) -> Path:
    """Return the folder of a run that was stopped at step 100 of 120."""
    path = Path(shutil.copytree(made, tmp_path / "run"))
    shutil.rmtree(path / "checkpoints/000000000120")
    return path


def test_an_unchanged_run_resumes(unfinished: Path, made: Path, ask: Any) -> None:
    assert ask("resume", unfinished) == (0, "")
    assert (unfinished / "tasks.jsonl").read_bytes() == (made / "tasks.jsonl").read_bytes()


def test_a_report_names_the_line_of_a_log_that_was_damaged(unfinished: Path, ask: Any) -> None:
    file = unfinished / "metrics.jsonl"
    first, second, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, second[:-2], *rest]) + "\n")
    code, said = ask("report", unfinished)
    assert code in (1, 2)
    assert said.startswith(f"supple: {file}, line 2: broken JSON")
    assert said.count("\n") == 1


def test_users_folders_inside_a_run_are_not_removed(unfinished: Path, ask: Any) -> None:
    mine = [
        unfinished / place
        for place in ("kept/2019", "best/9999", "checkpoints/1", "kept/tmp-2019", "checkpoints/tmp-photos-2",
                      "tmp-my-model-photos", "tmp-model-zoo", "best/000000999999")
    ]  # fmt: skip
    for folder in mine[:-1]:
        folder.mkdir(parents=True)
        (folder / "photo").write_text("mine")
    mine[-1].write_text("mine")
    assert ask("resume", unfinished)[0] == 0
    assert all(((folder / "photo") if folder.is_dir() else folder).read_text() == "mine" for folder in mine)


def test_a_report_replaces_only_a_report(made: Path, tmp_path: Path, ask: Any) -> None:
    shutil.copytree(made, tmp_path / "report")
    code, said = ask("report", made, "--out", tmp_path)
    assert (code, said.count("\n")) == (2, 1)
    assert f"{tmp_path / 'report'} is not a report of supple" in said
    assert (tmp_path / "report" / "checkpoints").exists()


@pytest.mark.parametrize("place", ["kept/7", "report", "mine"])
def test_a_run_inside_another_run_is_refused(unfinished: Path, place: str, ask: Any) -> None:
    code, said = ask(*WORDS.split(), "--out", unfinished / place)
    assert (code, said.count("\n")) == (2, 1)
    assert f"lies inside {unfinished}" in said
    assert not (unfinished / place).exists()
