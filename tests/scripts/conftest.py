"""What the tests of commands share."""

import sys
from collections.abc import Callable

import pytest

from supple.scripts.cli.console import run
from supple.scripts.main import dispatch


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
