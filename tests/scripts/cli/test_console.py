"""What is printed: names in any encoding, a traceback only where it says most, nothing where nobody reads."""

import io
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from supple.registry.errors import RunError
from supple.scripts.cli.console import run, warn
from tests.processes import LONG


def said(main: object, encoding: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """Return the exit status of a command, and what it prints on a stderr that lacks letters."""
    err = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding, write_through=True))
    monkeypatch.setattr(sys, "argv", ["supple"])
    with pytest.raises(SystemExit) as stop:
        run(main)  # type: ignore[arg-type]
    return int(stop.value.code or 0), err.getvalue().decode(encoding)


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "−名[/red]"), ("ascii", r"\u2212\u540d[/red]")])
def test_letters_that_an_encoding_lacks_are_escaped(encoding: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(lambda args: warn("−名[/red]"), encoding, monkeypatch) == (0, f"supple: {shown}\n")


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (RunError("a"), 1, 1),
        (OSError(2, "no file", "x"), 1, 1),
        (MemoryError(), 1, 1),
        (KeyError(1), 1, 5),
    ],
)
def test_a_traceback_follows_what_supple_does_not_expect(
    error: Exception, code: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def main(args: Sequence[str]) -> None:
        raise error

    status, text = said(main, "utf-8", monkeypatch)
    assert (status, text.count("\n") == 1) == (code, lines == 1), text


@pytest.mark.slow
def test_output_that_nobody_reads_ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "supple.scripts.main", "list"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=LONG)
    os.close(writer)
    assert done.returncode in (1, 141)
    assert done.stderr == ""
