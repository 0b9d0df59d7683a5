"""Runs that continue under other versions of Python and of packages: the warning, the record and the report."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import metadata
from pathlib import Path

import pytest

from supple import reports
from supple.engine import storage
from supple.engine.spec import read_spec
from supple.engine.storage.versions import remark, versions
from supple.experiments import resume, train
from supple.scripts.main import dispatch
from tests.processes import stop_at

SETTINGS = {"tasks": "semantic,reversal", "updates_per_task": 20, "checkpoint_every": 10}
INSTALLED = metadata.version
HERE = INSTALLED("torch")


@contextmanager
def installed(python: str = "", **changed: str) -> Iterator[None]:
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
        yield


@pytest.mark.slow
def test_a_run_that_continues_under_other_versions_says_so_once_keeps_them_all_and_its_report_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with installed("3.11.0", torch="2.0.0", gymnasium=""), pytest.raises(KeyboardInterrupt):
        train("linear", SETTINGS, out=run, progress=stop_at(20))
    identity = read_spec(run).resolved.identity
    with installed(torch="2.1.0"), pytest.raises(KeyboardInterrupt):
        resume(run, progress=stop_at(20), warn=lambda _: None)
    dispatch(["resume", str(run)])
    assert capsys.readouterr().err.splitlines() == [
        f"supple: {run} was trained with python 3.11.0 (here {versions()['python']}), torch 2.0.0 and 2.1.0 (here "
        f"{HERE}): it continues, but not bit for bit as it would have with the same versions"
    ]
    found, before = read_spec(run).resolved, (run / "config.json").read_bytes()  # whose checksum is right
    assert [own["torch"] for own in found.versions] == ["2.0.0", "2.1.0", HERE]
    assert found.identity == identity
    dispatch(["resume", str(run)])  # it has ended, and is left unchanged
    assert capsys.readouterr().err == ""
    assert (run / "config.json").read_bytes() == before
    (note,) = reports.compose(run).scores["notes"]
    assert note.startswith("trained under different versions, which may be why results differ: python 3.11.0 (run), ")
    assert f"torch 2.0.0 (run), 2.1.0 (run), {HERE} (run)" in note


def test_equal_versions_and_packages_of_one_side_only_are_not_mentioned() -> None:
    with installed(gymnasium=""):
        assert remark(Path("run"), {"": [{"torch": HERE, "gymnasium": "1.0", "gone": "2"}]}, {}) == ""


@pytest.mark.slow
def test_a_comparison_prints_one_line(
    tmp_path: Path, here: Callable[[], AbstractContextManager[None]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = "linear --tasks semantic --updates-per-task 20 --fork-at 0 --arm none --arm snp@0.5 --out"
    with installed(torch="2.0.0"), here():
        dispatch(["compare", *words.split(), str(tmp_path)])
    for outcome in tmp_path.glob("seed-0/*/outcome.json"):
        outcome.unlink()
    with here():
        dispatch(["resume", str(tmp_path)])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"supple: {tmp_path} was trained with torch 2.0.0 (here {HERE}): it continues, but not bit ")
