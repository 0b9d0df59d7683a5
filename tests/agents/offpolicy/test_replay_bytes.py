"""The memory that a replay memory needs, and the errors where the machine has too little."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from supple.agents.offpolicy import capacity
from supple.agents.offpolicy.capacity import bytes_needed, check_memory
from supple.agents.offpolicy.layout import ReplayLayout
from supple.agents.offpolicy.replay import ReplayMemory

ATARI = ReplayLayout((84, 84), np.uint8, stack=4)
HUMANOID = ReplayLayout((51,), np.float32, action=(19,))


def test_a_million_transitions_fit_into_7_3_gigabytes() -> None:
    assert bytes_needed(1_000_000, 8, ATARI) <= 7.3e9


def test_a_million_transitions_of_a_humanoid_fit_into_300_megabytes() -> None:
    assert bytes_needed(1_000_000, 8, HUMANOID) <= 0.3e9


@pytest.mark.parametrize("layout", [ATARI, HUMANOID, ReplayLayout((3, 2), np.uint8, stack=1)])
def test_bytes_needed_counts_every_array(layout: ReplayLayout) -> None:
    memory = ReplayMemory(100, 3, layout)
    arrays = [value for value in vars(memory).values() if isinstance(value, np.ndarray)]
    assert bytes_needed(100, 3, layout) == sum(array.nbytes for array in arrays)


GROWTH = """
import numpy as np, os
from pathlib import Path
from supple.agents.offpolicy.layout import ReplayLayout
from supple.agents.offpolicy.replay import ReplayMemory
from supple.envs import StepResult
def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = rss()
memory = ReplayMemory(1_000_000, 8, ReplayLayout((84, 84), np.uint8, stack=4))
obs, no = np.ones((8, 4, 84, 84), np.uint8), np.zeros(8, bool)
memory.begin(obs)
for _ in range(125):
    memory.add(np.zeros(8, int), np.zeros(8), StepResult(obs, no, no, no, obs, []))
print(len(memory), rss() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_used_only_as_rows_fill() -> None:
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    transitions, growth = map(int, done.stdout.split())
    assert transitions == 1000
    assert growth < 100e6


def test_lack_of_memory_is_refused_with_a_size_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(capacity, "free_memory", lambda: 3_200_000_000)
    needed = bytes_needed(1_000_000, 8, ATARI)
    with pytest.raises(
        ValueError, match=r"^a replay memory of 1,000,000 transitions needs 7\.1 GB, but only 3\.2 GB of"
    ):
        check_memory(needed, 1_000_000)
    with pytest.raises(ValueError, match=r": lower --replay-size \(to about 430,000\), or .* --replay-folder DIR$"):
        check_memory(needed, 1_000_000)
    check_memory(bytes_needed(430_000, 8, ATARI), 430_000)
    check_memory(needed, 1_000_000, tmp_path)


def test_small_sizes_are_written_in_megabytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_memory", lambda: 120_000_000)
    with pytest.raises(ValueError, match=r"1,000,000 transitions needs 287 MB, but only 120 MB of memory is free"):
        check_memory(bytes_needed(1_000_000, 8, HUMANOID), 1_000_000)


def test_runs_side_by_side_need_memory_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "free_memory", lambda: 8_000_000_000)
    needed = bytes_needed(1_000_000, 8, ATARI)
    check_memory(needed, 1_000_000)
    with pytest.raises(ValueError, match=r"^2 simultaneous runs, .* 1,000,000 transitions, need 14\.1 GB"):
        check_memory(needed, 1_000_000, runs=2)
    with pytest.raises(ValueError, match=r"lower --jobs, lower --replay-size \(to about 540,000\)"):
        check_memory(needed, 1_000_000, runs=2)


def test_lack_of_disk_space_is_refused_with_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"[GM]B of {tmp_path} is free: lower .* or choose another --replay-folder"):
        check_memory(10**16, 10**12, tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path}/missing is not a folder"):
        check_memory(1, 10, tmp_path / "missing")
