"""What the tests of commands share."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supple.scripts.cli.console import run
from supple.scripts.main import dispatch
from tests.processes import ended


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Return a function that runs `supple` with some words in this process, and returns exit status and stderr.

    What tyro says of an option, in a box, becomes one line."""

    def run_supple(*words: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["supple", *map(str, words)])
        with pytest.raises(SystemExit) as stop:
            run(dispatch)
        said = capsys.readouterr().err
        if "For full helptext" in said:
            said = " ".join(said.replace("---", "").split()) + "\n"
        return int(stop.value.code or 0), said

    return run_supple


@pytest.fixture
def ask_process(
    process: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    """Return a function that runs `supple WORDS` in a process of its own, and returns exit status and stderr.

    It runs in `tmp_path`, where plug-ins lie. They find in the environment what they shall do wrong."""
    monkeypatch.chdir(tmp_path)

    def run_supple(words: str, wrong: str = "") -> tuple[int, str]:
        monkeypatch.setenv("WRONG", wrong)
        return ended(process(words.split(), Path("errors"))), Path("errors").read_text()

    return run_supple
