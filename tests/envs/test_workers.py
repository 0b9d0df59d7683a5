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
from tests.processes import alive, wait_until

pytestmark = pytest.mark.slow

COUNT = "Count-v0"  # registered in the parent alone


class Count(gym.Env):
    """Observes its step and its actions' sum. Episodes last 2 to 6 steps, as its generator says; even ones are
    truncated. It fails where its action is as large as can be."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.count, self.total, self.length = 0, self.np_random.random(), int(self.np_random.integers(2, 7))
        return np.array([0, self.total]), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        if action[0] == 1.0:
            raise OSError("too much")
        if action[0] == -1.0:
            os.write(1, b"busy\n")
            signal.pause()
        self.count, self.total = self.count + 1, self.total + action[0]
        done, even = self.count == self.length, self.length % 2 == 0
        reward = np.nan if done and self.length == 3 else float(self.total)
        return np.array([self.count, self.total]), reward, done and not even, done and even, {}


def counts(rows: range, **world: Any) -> Envs:
    return Vector([lambda: make_env(COUNT, **world)] * len(rows))


def offset_counts(rows: range) -> Envs:
    return Vector([partial(make_env, COUNT, shifts="offset(from_task=0)", seed=row) for row in rows])


def rooms(rows: range) -> Envs:
    return Vector([lambda: make_env("ninerooms")] * len(rows))


def bodies(rows: range) -> Envs:
    return Vector([lambda: make_env("hopper")] * len(rows))


def games(rows: range) -> Envs:
    return make_pixels("asterix", len(rows), max_frames=100)


@pytest.fixture(scope="module")
def workers() -> Iterator[EnvWorkers]:
    gym.register(COUNT, entry_point=Count)
    workers = EnvWorkers(2, int)
    yield workers
    workers.close()
    del gym.registry[COUNT]


def assert_same(ours: Any, theirs: Envs, steps: int = 60, restart_at: int = 0, passed: int = 0) -> int:
    """Assert that both have the same results in the same steps, and return the number of ended episodes."""
    n, space, ended = ours.num_envs, theirs.single_action_space, 0
    assert (ours.single_observation_space, ours.single_action_space) == (theirs.single_observation_space, space)
    seeds = list(range(7, 7 + n))
    np.testing.assert_array_equal(ours.reset(seeds), theirs.reset(seeds))
    space.seed(0)
    for step in range(steps):
        for envs in (ours, theirs):
            envs.progress(passed * step)
        if restart_at and step == restart_at:
            for one, other in zip(ours.restart(), theirs.restart(), strict=True):
                np.testing.assert_array_equal(one, other)
        actions = np.stack([space.sample() for _ in range(n)])
        one, other = ours.step(actions), theirs.step(actions)
        for a, b in zip(one[:5], other[:5], strict=True):
            np.testing.assert_array_equal(a, b)
            assert (a.dtype, a.flags["C_CONTIGUOUS"]) == (b.dtype, True)
        assert one.episodes == other.episodes
        assert (one.final_obs is one.obs) == (not one.episodes)
        ended += len(one.episodes)
    ours.close()
    theirs.close()
    return ended


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_in_workers_equal_copies_in_one_process(workers: EnvWorkers, copies: int) -> None:
    assert assert_same(WorkerVector(workers, COUNT, counts, copies), counts(range(copies)), restart_at=20) > 20


def test_discrete_observations_keep_their_type(workers: EnvWorkers) -> None:
    assert_same(WorkerVector(workers, "NineRooms-v0", rooms, 2), rooms(range(2)))


def test_gradual_shifts_are_the_same_in_workers(workers: EnvWorkers) -> None:
    make = partial(counts, shifts="offset(scale=2,over=100)", seed=3, task=1)
    assert_same(WorkerVector(workers, COUNT, make, 3), make(range(3)), passed=3)


def test_each_copy_is_made_for_its_row(workers: EnvWorkers) -> None:
    assert_same(WorkerVector(workers, COUNT, offset_counts, 3), offset_counts(range(3)))


def test_frozen_copies_are_the_same_in_workers(workers: EnvWorkers) -> None:
    envs, here = WorkerVector(workers, COUNT, counts, 3), counts(range(3))
    for each in (envs, here):
        each.reset([0, 1, 2])
        each.freeze([0, 2])
    for _ in range(9):
        ours, theirs = (each.step(np.zeros((3, 1), np.float32)) for each in (envs, here))
        np.testing.assert_array_equal(ours.obs, theirs.obs)
        assert ours.episodes == theirs.episodes
        assert not ours.reward[[0, 2]].any()
    assert_same(envs, here)


def test_atari_is_the_same_to_the_last_pixel(workers: EnvWorkers) -> None:
    pytest.importorskip("ale_py")
    assert assert_same(WorkerVector(workers, "ALE/Asterix-v5", games, 3), games(range(3))) == 6


def test_a_fault_in_a_worker_is_raised_here_and_the_workers_stay_usable(workers: EnvWorkers) -> None:
    envs, here = WorkerVector(workers, COUNT, counts, 2), counts(range(2))
    told = []
    for each in (envs, here):
        each.reset([0, 1])
        with pytest.raises(EnvironmentFault) as error:
            each.step(np.array([[0.0], [1.0]], np.float32))
        told.append(str(error.value))
    assert told == [f"{COUNT}: step() raised OSError: too much"] * 2
    envs.close()
    assert_same(WorkerVector(workers, COUNT, counts, 2), counts(range(2)), 5)


def test_misuse_is_refused_in_one_line(workers: EnvWorkers) -> None:
    with pytest.raises(EnvironmentFault, match=f"^{COUNT}: it cannot be sent to a worker process"):
        WorkerVector(workers, COUNT, lambda rows: counts(rows), 2)


def test_a_killed_worker_is_reported_in_one_line_and_leaves_no_shared_memory() -> None:
    workers = EnvWorkers(2, int)
    envs = WorkerVector(workers, "Hopper-v5", bodies, 2)
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
    envs = t.WorkerVector(workers, t.COUNT, t.counts, 2)
    envs.reset([0, 1])
    print(*(process.pid for process in workers._processes), flush=True)
    envs.step(np.full((2, 1), {action}))
"""


def test_workers_end_with_their_killed_parent_though_they_are_busy(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT.format(folder=str(Path(__file__).parents[2]), action=-1.0))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [parent.stdout.readline() for _ in range(2)] == ["busy\n"] * 2
        assert len(pids) == 2
        assert all(map(alive, pids))
        parent.kill()
        wait_until(lambda: not any(map(alive, pids)))
