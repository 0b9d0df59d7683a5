"""Denormal numbers are zero on every thread while networks train, and what they were afterwards.

Threads inherit the processor's flag when they begin, so each test of two is a process of its own.
"""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from supple.engine.machine import denormals
from supple.engine.machine.denormals import flushes, flushing_denormals
from supple.experiments import train

if not torch.set_flush_denormal(False):
    pytest.skip("this processor cannot flush denormal numbers", allow_module_level=True)

BEGUN = "torch.set_num_threads(2); torch.ones(2**18).mul_(2)"  # the threads of PyTorch


def said(code: str) -> list[str]:
    """The lines that a fresh process prints."""
    code = f"import sys, torch\n{textwrap.dedent(code)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [*done.stdout.splitlines(), *done.stderr.splitlines()]


@pytest.mark.slow
def test_threads_that_started_before_the_flag_are_reported_in_one_line() -> None:
    code = f"""
        from supple.engine.machine.denormals import flushes, flushing_denormals
        {BEGUN}
        told = []
        with flushing_denormals(2, told.append):
            print(flushes(), len(told), "threads were started before this run" in told[0], told[0].count(chr(10)))
        with flushing_denormals(1, told.append):
            print(len(told))
    """
    assert said(code) == ["False 1 True 0", "1"]


def test_training_with_threads_from_before_the_flag_warns_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denormals, "flushes", lambda: False)
    told: list[str] = []
    train("linear", {"tasks": "random", "updates_per_task": 4, "threads": 2}, out=tmp_path / "run", warn=told.append)
    assert ["do not flush denormal numbers" in line for line in told] == [True]


def test_the_flag_is_restored_after_training(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (False, True):
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        torch.set_flush_denormal(before)
        try:
            with flushing_denormals():
                assert flushes()
            assert flushes() == before
            with pytest.raises(KeyError), flushing_denormals():
                raise KeyError
            assert flushes() == before
        finally:
            torch.set_flush_denormal(False)


@pytest.mark.slow
def test_workers_of_a_comparison_flush_from_their_start() -> None:
    code = """
        from multiprocessing import Pipe
        from supple.experiments.queue import workers
        from supple.engine.machine.denormals import flushes
        ours, theirs = Pipe()
        ours.send([])
        workers._work(theirs, {}, 1)
        torch.set_num_threads(2)
        print(flushes())
    """
    assert said(code) == ["True"]
