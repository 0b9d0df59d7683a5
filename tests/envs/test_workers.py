"""Environments in worker processes equal those in one process, and end, with their memory, with their parent."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import EnvironmentFault, Envs, EnvWorkers, Vector, WorkerVector, make_env, make_pixels
from tests.envs import pairs
from tests.processes import alive, wait_until

pytestmark = pytest.mark.slow

COUNT = "Count-v0"  # registered in the parent alone


class Count(gym.Env):
    """Observes its step and its actions' sum. Episodes last 2 to 6 steps, as its generator says; even ones are
    truncated. It fails at an action of 0.75, and waits for ever at -0.75."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count, self.total, self.length = 0, self.np_random.random(), int(self.np_random.integers(2, 7))
        return np.array([0, self.total]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action[0] == 0.75:
            raise OSError("too much")
        if action[0] == -0.75:
            os.write(1, b"busy\n")
            signal.pause()
        self.count, self.total = self.count + 1, self.total + action[0]
        done, even = self.count == self.length, self.length % 2 == 0
        reward = np.nan if done and self.length == 3 else float(self.total)
        return np.array([self.count, self.total]), reward, done and not even, done and even, {}


def copies(rows: range, name: str = COUNT, **world: Any) -> Envs:
    return Vector([partial(make_env, name, seed=row, **world) for row in rows])


def games(rows: range) -> Envs:
    return make_pixels("asterix", len(rows), max_frames=100)


@pytest.fixture(scope="module")
def workers() -> Iterator[EnvWorkers]:
    gym.register(COUNT, entry_point=Count)
    workers = EnvWorkers(2, int)
    yield workers
    workers.close()
    del gym.registry[COUNT]


def assert_same(ours: Any, theirs: Any, steps: int = 60, restart_at: int = 0, passed: int = 0) -> int:
    """Assert that both have the same results in the same steps, and return the number of ended episodes."""
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    seeds = list(range(7, 7 + ours.num_envs))
    pairs.assert_same(ours.reset(seeds), theirs.reset(seeds))
    ended = pairs.live(theirs, ours, restart_at)
    if restart_at:
        for one, other in zip(ours.restart(), theirs.restart(), strict=True):
            np.testing.assert_array_equal(one, other)
    ended += pairs.live(theirs, ours, steps - restart_at, passed)
    ours.close()
    theirs.close()
    return ended


@pytest.mark.parametrize(
    ("name", "count", "world"),
    [
        (COUNT, 2, {}),
        (COUNT, 5, {"shifts": "offset(from_task=0)"}),
        (COUNT, 3, {"shifts": "offset(scale=2,over=100)", "task": 1}),
        ("NineRooms-v0", 2, {}),
    ],
)
def test_copies_in_workers_equal_copies_in_one_process(
    workers: EnvWorkers, name: str, count: int, world: dict[str, Any]
) -> None:
    make = partial(copies, name=name, **world)
    assert_same(WorkerVector(workers, name, make, count), make(range(count)), restart_at=20, passed=3)


def test_atari_is_the_same_to_the_last_pixel(workers: EnvWorkers) -> None:
    pytest.importorskip("ale_py")
    assert assert_same(WorkerVector(workers, "ALE/Asterix-v5", games, 3), games(range(3))) == 6


def test_a_fault_in_a_worker_is_raised_here_and_the_workers_stay_usable(workers: EnvWorkers) -> None:
    envs, here = WorkerVector(workers, COUNT, copies, 2), copies(range(2))
    told = []
    for each in (envs, here):
        each.reset([0, 1])
        with pytest.raises(EnvironmentFault) as error:
            each.step(np.array([[0.0], [0.75]], np.float32))
        told.append(str(error.value))
    assert told == [f"{COUNT}: step() raised OSError: too much"] * 2
    envs.close()
    assert_same(WorkerVector(workers, COUNT, copies, 2), copies(range(2)), 5)


def test_what_cannot_be_sent_is_refused_in_one_line(workers: EnvWorkers) -> None:
    with pytest.raises(EnvironmentFault, match=f"^{COUNT}: it cannot be sent to a worker process"):
        WorkerVector(workers, COUNT, lambda rows: copies(rows), 2)


def test_a_killed_worker_is_reported_in_one_line_and_leaves_no_shared_memory() -> None:
    workers = EnvWorkers(2, int)
    envs = WorkerVector(workers, "Hopper-v5", partial(copies, name="hopper"), 2)
    assert not Path("/dev/shm", envs._memory.name).exists()  # the processes alone hold it, and it goes with them
    envs.reset([0, 1])
    os.kill(workers._processes[1].pid or 0, signal.SIGKILL)
    with pytest.raises(EnvironmentFault, match=r"^Hopper-v5: its worker process was killed by SIGKILL$"):
        envs.step(np.zeros((2, 3)))
    assert not any(process.is_alive() for process in workers._processes)
    envs.close()
    workers.close()


PARENT = """
import sys
sys.path.insert(0, {folder!r})
import gymnasium as gym, numpy as np
from tests.envs import test_workers as t
if __name__ == "__main__":
    gym.register(t.COUNT, entry_point=t.Count)
    workers = t.EnvWorkers(2, int)
    envs = t.WorkerVector(workers, t.COUNT, t.copies, 2)
    envs.reset([0, 1])
    print(*(process.pid for process in workers._processes), flush=True)
    envs.step(np.full((2, 1), {action}))
"""


def test_workers_end_with_their_killed_parent_though_they_are_busy(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(folder=str(Path(__file__).parents[2]), action=-0.75))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [parent.stdout.readline() for _ in range(2)] == ["busy\n"] * 2
        assert len(pids) == 2
        assert all(map(alive, pids))
        parent.kill()
        wait_until(lambda: not any(map(alive, pids)))
