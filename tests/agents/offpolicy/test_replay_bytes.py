"""The memory that a replay memory needs."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory

ATARI = ReplayLayout((84, 84), np.uint8, stack=4)
HUMANOID = ReplayLayout((51,), np.float32, action=(19,))


@pytest.mark.parametrize(("layout", "most"), [(ATARI, 7.3e9), (HUMANOID, 0.3e9)])
def test_a_million_transitions_fit_into_few_gigabytes(layout: ReplayLayout, most: float) -> None:
    arrays = [value for value in vars(ReplayMemory(1_000_000, 8, layout)).values() if isinstance(value, np.ndarray)]
    assert 0.5 * most < sum(array.nbytes for array in arrays) <= most


GROWTH = """
import numpy as np, os
from pathlib import Path
from supple.agents.offpolicy.replay import ReplayLayout
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
print(memory.sizes().sum(), rss() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_used_only_as_rows_fill() -> None:
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    transitions, growth = map(int, done.stdout.split())
    assert transitions == 1000
    assert growth < 100e6
