"""Interruptions, closed streams and too little memory: one line, a run that resumes, and no process left behind."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.processes import LONG, alive, ended, wait_until

LINEAR = "--tasks semantic,reversal --updates-per-task 200000 --measure-every 50000 --eval-every 0"
IMPORTING = """
import os, signal, sys
wanted = sys.argv.pop(1)
class Interrupting:
    def find_spec(self, name, *_):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
from supple.scripts.main import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verb"), [("SIGINT", "interrupted"), ("SIGTERM", "terminated"), ("SIGHUP", "hung up")]
)
def test_an_interrupted_run_prints_the_step_from_which_it_resumes(
    process: Callable[..., int], tmp_path: Path, name: str, verb: str
) -> None:
    number = getattr(signal, name)
    run, errors = tmp_path / "run", tmp_path / "errors"
    child = begun(process, run, errors)
    os.kill(child, number)
    assert ended(child) == 128 + number
    newest = max(int(folder.name) for folder in (run / "checkpoints").glob("0*"))
    assert errors.read_text() == f"supple: {verb}; `supple resume {run}` continues from step {newest:,}\n"
    assert (run / ".lock").read_text() == ""


@pytest.mark.slow
def test_a_run_interrupted_before_its_first_checkpoint_resumes_from_step_0(
    process: Callable[..., int], tmp_path: Path
) -> None:
    run, errors = tmp_path / "run", tmp_path / "errors"
    child = process(shlex.split(f"train linear {LINEAR} --checkpoint-every 300000 --out {run}"), errors)
    wait_until((run / "metrics.jsonl").exists)
    os.kill(child, signal.SIGTERM)
    assert ended(child) == 143
    assert errors.read_text() == f"supple: terminated; `supple resume {run}` continues from step 0\n"


def begun(process: Callable[..., int], run: Path, errors: Path) -> int:
    """Start a run of some seconds, and wait for its first checkpoint."""
    child = process(shlex.split(f"train linear {LINEAR} --checkpoint-every 20 --out {run}"), errors)
    wait_until(lambda: [*(run / "checkpoints").glob("0*")])
    return child


@pytest.mark.slow
def test_a_run_under_nohup_survives_a_closed_terminal(process: Callable[..., int], tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        child = begun(process, tmp_path / "run", tmp_path / "errors")
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(child, signal.SIGHUP)
    seen = {*(tmp_path / "run" / "checkpoints").glob("0*")}
    wait_until(lambda: {*(tmp_path / "run" / "checkpoints").glob("0*")} - seen)  # it goes on
    os.kill(child, signal.SIGTERM)
    assert ended(child) == 143


@pytest.mark.slow
def test_a_closed_terminal_ends_the_process_and_releases_its_lock(process: Callable[..., int], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = begun(process, tmp_path / "run", Path(f"/dev/fd/{writer}"))
    os.close(writer)
    os.close(reader)  # from now on, it cannot print
    os.kill(child, signal.SIGHUP)
    assert ended(child) == 129
    assert (tmp_path / "run/.lock").read_text() == ""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["tyro", "torch"])
def test_an_interruption_during_an_import_is_one_line(tmp_path: Path, module: str) -> None:
    words = [sys.executable, "-c", IMPORTING, module, "train", "linear", *shlex.split(LINEAR)]
    done = subprocess.run([*words, "--out", str(tmp_path / "run")], capture_output=True, text=True, timeout=LONG)
    assert (done.returncode, done.stderr) == (130, "supple: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_comparison_counts_its_runs_and_its_workers_end(tmp_path: Path) -> None:
    """A terminal that closes hangs up on all processes at once; the workers leave that to their parent."""
    out = tmp_path / "out"
    words = shlex.split(
        f"compare linear {LINEAR} --checkpoint-every 20 --fork-at 0 --arm none --arm snp@0.9 --jobs 2 --out {out}"
    )
    command = [sys.executable, "-m", "supple.scripts.main", *words]
    own: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    parent = subprocess.Popen(command, **own)
    arms = [out / "seed-0" / arm for arm in ("none", "snp_0.9-909f81")]
    wait_until(lambda: all([*(arm / "checkpoints").glob("0*")] for arm in arms))
    workers = psutil.Process(parent.pid).children()
    assert len(workers) >= 2
    os.killpg(parent.pid, signal.SIGHUP)
    stderr = parent.communicate()[1]
    assert parent.returncode == 129
    wait_until(lambda: not any(alive(worker.pid) for worker in workers))
    assert stderr == (
        f"supple: hung up; 0 of 2 runs ended; `supple resume {out}` continues the others from their last checkpoints\n"
    )
    assert not any(lock.read_text() for lock in out.rglob(".lock"))


@pytest.mark.slow
def test_running_out_of_memory_is_an_error_in_one_line(tmp_path: Path) -> None:
    supple = f"{shlex.quote(sys.executable)} -m supple.scripts.main train linear {LINEAR} --out {tmp_path / 'run'}"
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v 300000; exec {supple}"], capture_output=True, text=True, timeout=LONG
    )
    assert done.returncode == 1
    assert done.stderr.startswith("supple: out of memory (")
    assert done.stderr.count("\n") == 1
