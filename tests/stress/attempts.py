"""What the tests of bad inputs share: running a command, checking how it ended, and counting."""

import contextlib
import io
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch

from supple.scripts.cli import console
from supple.scripts.main import dispatch

COUNTS: Counter = Counter()


def ask(words: list[str], monkeypatch) -> tuple[int, str, str]:
    """Run a command as from the shell, and return its exit status and what it wrote to both streams."""
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "argv", ["supple", *words])
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.setattr(console.screen, "file", out)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as stop:
        console.run(dispatch)
    return stop.value.code, out.getvalue(), err.getvalue()


def judge(will: str, answer: tuple[int, str, str], equal: bool = False) -> None:
    """Assert that a command ended as it should: "refused", "diagnosed" or "either".

    equal: whether its outputs are truly equal for all inputs."""
    code, out, err = answer
    lines = err.splitlines()
    if code == 0:
        assert will != "refused", out
        assert all(line.startswith("supple: ") for line in lines)  # warnings of PyTorch
        assert "error on random targets" in out
        assert "nan" not in out
        return
    assert will != "diagnosed", err
    assert code in (1, 2)
    assert len(lines) == 1, err
    assert lines[0].startswith("supple: ")
    assert len(lines[0]) < 900
    assert "Traceback" not in err
    if not equal:
        assert "equal outputs for all" not in err


def held(kind: str) -> None:
    COUNTS[kind] += 1


@pytest.fixture(scope="module", autouse=True)
def counted(request):
    yield
    for kind, count in COUNTS.items():
        print(f"\n{kind}: {count} attempts held", end="")


@pytest.fixture(autouse=True)
def nothing_written(tmp_path: Path, monkeypatch):
    """Run every attempt in an empty folder, and let it leave that empty."""
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    torch.set_num_threads(1)
    yield
    assert not list(here.iterdir())
