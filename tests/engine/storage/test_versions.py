"""Runs that continue under other versions of Python and of packages: the warning, the record and the report."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from supple import reports
from supple.engine import storage
from supple.engine.spec import read_spec
from supple.engine.storage.versions import versions
from supple.engine.user_code import plugins
from supple.experiments import resume, train
from supple.registry.errors import UsageError
from supple.scripts.main import dispatch

SETTINGS = {"tasks": "semantic,reversal", "updates_per_task": 20, "checkpoint_every": 10}
LINEAR = ["linear", "--tasks", "semantic,reversal", "--updates-per-task", "20", "--checkpoint-every", "10"]
INSTALLED = metadata.version
HERE = INSTALLED("torch")


class Stop(Exception):
    """Stands in for a kill."""


def stop(step: int) -> None:
    if step >= 20:
        raise Stop


@contextmanager
def installed(python: str = "", **changed: str) -> Iterator[pytest.MonkeyPatch]:
    """Packages with other versions; "" for one that is not installed."""

    def version(name: str) -> str:
        if changed.get(name) == "":
            raise metadata.PackageNotFoundError(name)
        return changed.get(name) or INSTALLED(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "version", version)
        patch.setattr(storage.versions, "_version", storage.versions._version.__wrapped__)  # not cached
        if python:
            patch.setattr("platform.python_version", lambda: python)
        yield patch


@pytest.fixture
def half(tmp_path: Path) -> Path:
    """A run that was begun with other versions, and interrupted."""
    with installed("3.11.0", torch="2.0.0", gymnasium=""), pytest.raises(Stop):
        train("linear", SETTINGS, out=tmp_path / "run", progress=stop)
    return tmp_path / "run"


@pytest.mark.slow
def test_a_run_that_continues_under_other_versions_gets_one_line_about_it(
    half: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python, lines = versions()["python"], list[str]()
    resume(half, warn=lines.append)
    assert lines == [
        f"{half} was trained with python 3.11.0 (here {python}), torch 2.0.0 (here {HERE}): it continues, but not bit "
        f"for bit as it would have with the same versions"
    ]
    before = (half / "config.json").read_bytes()
    dispatch(["resume", str(half)])  # it has ended, and is left unchanged
    assert capsys.readouterr().err == ""
    assert (half / "config.json").read_bytes() == before


def test_the_command_line_prints_that_line(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dispatch(["resume", str(half)])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"supple: {half} was trained with python 3.11.0 (here ")


@pytest.mark.slow
def test_a_run_keeps_all_versions_it_was_trained_under_and_its_report_names_them(
    half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = read_spec(half).resolved.identity
    with installed(torch="2.1.0"), pytest.raises(Stop):
        resume(half, progress=stop, warn=lambda _: None)
    resume(half, warn=lambda _: None)
    found = read_spec(half).resolved  # whose checksum is right
    assert [own["torch"] for own in found.versions] == ["2.0.0", "2.1.0", HERE]
    assert found.identity == identity
    (note,) = reports.compose(half).scores["notes"]
    assert note.startswith("trained under different versions, which may be why results differ: python 3.11.0 (run), ")
    assert f"torch 2.0.0 (run), 2.1.0 (run), {HERE} (run)" in note


@pytest.mark.slow
def test_a_run_in_which_a_plug_in_raised_continues_with_another_version_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(version: str) -> None:
        monkeypatch.setattr(plugins, "_loaded", {"my.py": plugins.Plugin("my.py", "my.py", version * 64, {})})

    def killed(step: int) -> None:
        raise KeyboardInterrupt

    load("1")
    with pytest.raises(Stop):
        train("linear", SETTINGS, out=tmp_path, progress=stop)
    load("2")
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path, progress=killed, warn=(lines := list[str]()).append)
    assert f"my.py {'1' * 12} (here {'2' * 12})" in lines[0]
    load("1")
    with pytest.raises(UsageError, match="restore that version"):  # it has not failed since
        resume(tmp_path)
    assert read_spec(tmp_path).resolved.versions[-1]["my.py"] == "2" * 12


def test_equal_versions_and_packages_of_one_side_only_are_not_mentioned(tmp_path: Path) -> None:
    lines: list[str] = []
    with installed(mujoco=""), pytest.raises(Stop):
        train("linear", SETTINGS, out=tmp_path / "run", progress=stop)
    with installed(gymnasium=""):
        resume(tmp_path / "run", warn=lines.append)
    assert lines == []


@pytest.fixture
def comparison(tmp_path: Path, here: Callable[[], AbstractContextManager[None]]) -> Path:
    """A comparison of which one arm was trained, and another begun, under another version of torch."""
    trained: list[Any] = []

    def count(step: int, end: int) -> None:
        if step >= end:
            trained.append(step)
        if len(trained) == 2:
            raise KeyboardInterrupt

    arms = ["--fork-at", "0", "--arm", "none", "--arm", "snp@0.5", "--arm", "fire@0.5", "--out"]
    with installed(torch="2.0.0") as patch, here():
        patch.setattr(
            "supple.scripts.cli.progress.Lines.update", lambda self, label, folder, step, end: count(step, end)
        )
        with pytest.raises(KeyboardInterrupt):
            dispatch(["compare", *LINEAR, *arms, str(tmp_path)])
    return tmp_path


@pytest.mark.slow
def test_a_comparison_prints_one_line_and_its_report_names_the_arms(
    comparison: Path, here: Callable[[], AbstractContextManager[None]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len([*comparison.rglob("config.json")]) == 2
    with here():
        dispatch(["resume", str(comparison)])
    wanted = f"supple: {comparison} was trained with torch 2.0.0 (here {HERE}): it continues, but not bit for bit as "
    assert [line[: len(wanted)] for line in capsys.readouterr().err.splitlines()] == [wanted]
    (note,) = json.loads(json.dumps(reports.compose(comparison).scores["notes"]))
    assert f"torch 2.0.0 (seed-0/none and 1 more), {HERE} (seed-0/" in note
