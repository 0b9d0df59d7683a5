"""benchmarks/rows.py: a benchmark of many runs loses no row if it is killed or a run fails."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import alive, wait_until

SCRIPT = """
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, {benchmarks!r})
from rows import add_missing


def one(job):
    (Path(__file__).parent / f"worker-{{job}}").write_text(str(os.getpid()))
    if job == int(sys.argv[1]):
        time.sleep(3600)
    if job == int(sys.argv[2]):
        raise ValueError("broken")
    return {{"job": job, "square": job**2}}


if __name__ == "__main__":
    add_missing(Path(__file__).parent / "rows" / "found.jsonl", range(4), lambda row, job: row["job"] == job, one, str)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(benchmarks=str(Path(__file__).parents[1] / "benchmarks")))
    return path


def start(script: Path, sleeps: int = -1, fails: int = -1) -> subprocess.Popen[str]:
    """Start the script with a job that sleeps, and one that fails."""
    command = [sys.executable, str(script), str(sleeps), str(fails)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def found(script: Path) -> list[int]:
    path = script.parent / "rows" / "found.jsonl"
    return sorted(json.loads(line)["job"] for line in path.read_text().splitlines()) if path.exists() else []


def test_a_killed_benchmark_keeps_its_rows_and_adds_the_missing_ones(script: Path) -> None:
    process = start(script, sleeps=2)
    wait_until(lambda: found(script) == [0, 1, 3])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    pid = int((script.parent / "worker-2").read_text())
    try:
        wait_until(lambda: not alive(pid))
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
    output, _ = start(script).communicate()
    assert output.startswith("1 of 4 runs to do")
    assert found(script) == [0, 1, 2, 3]


def test_a_failing_run_is_reported_and_the_others_finish(script: Path) -> None:
    process = start(script, fails=0)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert "ValueError: broken" in errors
    assert errors.endswith("1 of 4 runs failed\n")
    assert found(script) == [1, 2, 3]
