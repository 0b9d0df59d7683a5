import math
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from supple.agents import replay
from supple.agents.replay import FrameMemory, Sample, bytes_needed, check_room
from supple.experiments import checkpoint

FRAME = (3, 2)


class Transition(NamedTuple):
    s: np.ndarray
    action: int
    reward: float
    following: np.ndarray
    terminated: bool


class World:
    """Environments of random images, beside a memory that keeps whole transitions of each, under unique rewards.

    None stands where an image was kept that nothing was done on.
    """

    def __init__(self, seed: int, num_envs: int, stack: int, ends: float = 0.1, truncations: float = 0.1) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_envs, self.stack, self.ends, self.truncations = num_envs, stack, ends, truncations
        self.kept: list[list[Transition | None]] = [[] for _ in range(num_envs)]
        self.steps = 0

    def first(self) -> np.ndarray:
        obs = np.zeros((self.num_envs, self.stack, *FRAME), np.uint8)
        obs[:, -1] = self.rng.integers(1, 256, (self.num_envs, *FRAME))
        return obs

    def begin(self, *memories: FrameMemory) -> None:
        if self.steps:
            for kept in self.kept:
                kept.append(None)
        self.obs = self.first()
        for memory in memories:
            memory.begin(self.obs)

    def step(self, *memories: FrameMemory) -> None:
        n = self.num_envs
        self.steps += 1
        newest = self.rng.integers(1, 256, (n, 1, *FRAME), np.uint8)
        final = np.concatenate([self.obs[:, 1:], newest], 1)
        terminated, truncated = self.rng.random(n) < self.ends, self.rng.random(n) < self.truncations
        obs = np.where((terminated | truncated)[:, None, None, None], self.first(), final)
        actions, rewards = self.rng.integers(0, 18, n), self.steps * n + np.arange(float(n))
        for memory in memories:
            memory.add(actions, rewards, terminated, truncated, final, obs)
        for e in range(n):
            following = final[e].copy()
            following[-1] *= not terminated[e]
            kept = Transition(self.obs[e], int(actions[e]), float(rewards[e]), following, bool(terminated[e]))
            self.kept[e].append(kept)
            if truncated[e] and not terminated[e]:
                self.kept[e].append(None)
        self.obs = obs

    def newest(self, capacity: int) -> dict[float, Transition]:
        rows = [row for kept in self.kept for row in kept[-math.ceil(capacity / self.num_envs) :]]
        return {row.reward: row for row in rows if row is not None}


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def same(a: Sample, b: Sample) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def stream(memory: FrameMemory, world: World, steps: int, cuts: float = 0.0) -> None:
    world.begin(memory)
    for _ in range(steps):
        world.step(memory)
        if world.rng.random() < cuts:
            world.begin(memory)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 3),
    capacity=st.integers(1, 25),
    stack=st.integers(1, 4),
    steps=st.integers(1, 90),
    ends=st.sampled_from([0.0, 0.1, 0.5]),
    truncations=st.sampled_from([0.0, 0.1, 0.5]),
    cuts=st.sampled_from([0.0, 0.1]),
)
def test_samples_are_exactly_the_newest_transitions_of_a_memory_that_stores_them_whole(
    seed: int, num_envs: int, capacity: int, stack: int, steps: int, ends: float, truncations: float, cuts: float
) -> None:
    memory, world = FrameMemory(capacity, num_envs, FRAME, stack), World(seed, num_envs, stack, ends, truncations)
    stream(memory, world, steps, cuts)
    expected = world.newest(capacity)
    assert len(memory) == len(expected)
    if not expected:
        return
    sample = memory.sample(40 * len(expected), draws())
    assert set(sample.rewards.tolist()) == set(expected)
    for frames, action, reward, terminated in zip(*sample, strict=True):
        transition = expected[float(reward)]
        np.testing.assert_array_equal(frames[:-1], transition.s)
        np.testing.assert_array_equal(frames[1:], transition.following)
        assert (int(action), bool(terminated)) == (transition.action, transition.terminated)


def test_truncation_bootstraps_from_the_true_last_observation() -> None:
    memory = FrameMemory(10, 1, FRAME, 2)
    images = [np.full((1, 2, *FRAME), i, np.uint8) for i in range(6)]
    memory.begin(images[1])
    no, yes = np.array([False]), np.array([True])
    memory.add(np.array([0]), np.array([1.0]), no, no, images[2], images[2])
    memory.add(np.array([0]), np.array([2.0]), no, yes, images[3], images[5])  # 5 opens the next episode
    sample = memory.sample(20, draws())
    ended = sample.frames[sample.rewards == 2][0]
    assert ended[:, 0, 0].tolist() == [1, 2, 3]


def test_episodes_cut_by_begin_bootstrap_from_the_last_image_seen() -> None:
    memory = FrameMemory(10, 1, FRAME, 2)
    images = [np.full((1, 2, *FRAME), i, np.uint8) for i in range(4)]
    memory.begin(images[1])
    no = np.array([False])
    memory.add(np.array([0]), np.array([1.0]), no, no, images[2], images[2])
    memory.begin(images[3])
    assert len(memory) == 1
    assert memory.sample(1, draws()).frames[0, :, 0, 0].tolist() == [0, 1, 2]


def test_every_transition_is_drawn_equally_often() -> None:
    memory, world = FrameMemory(40, 3, FRAME), World(1, 3, 4, truncations=0.3)
    stream(memory, world, 100, cuts=0.1)
    rewards = memory.sample(20_000, draws()).rewards
    _, counts = rewards.unique(return_counts=True)
    assert len(counts) == len(memory)
    assert chisquare(counts.numpy()).pvalue > 0.01


def test_draws_depend_on_generator_and_contents_only() -> None:
    memory, world = FrameMemory(30, 2, FRAME), World(2, 2, 4)
    stream(memory, world, 50)
    expected = memory.sample(16, draws(3))
    torch.manual_seed(9)
    out = torch.full((16, 5, *FRAME), 7, dtype=torch.uint8)
    again = memory.sample(16, draws(3), out)
    assert again.frames is out
    assert same(again, expected)
    assert not same(memory.sample(16, draws(4)), expected)


def test_a_sample_is_a_copy() -> None:
    memory, world = FrameMemory(8, 2, FRAME), World(2, 2, 4)
    stream(memory, world, 10)
    sample = memory.sample(16, draws())
    before = Sample(*(tensor.clone() for tensor in sample))
    stream(memory, world, 20)
    assert same(sample, before)


@pytest.mark.parametrize("steps", [0, 7, 40, 200])
def test_a_memory_goes_on_from_a_checkpoint_bit_for_bit(steps: int, tmp_path: Path) -> None:
    world = World(steps, 2, 4)
    memory, restored = FrameMemory(60, 2, FRAME), FrameMemory(60, 2, FRAME)
    stream(memory, world, steps)
    stream(restored, World(99, 2, 4), 100)  # what it held before must not matter
    checkpoint.save(tmp_path, steps, {"memory": memory.state_dict()}, "run")
    world.begin(memory)
    for _ in range(15):  # a second checkpoint adds to the first
        world.step(memory)
    saved = memory.state_dict()
    folder = checkpoint.save(tmp_path, steps + 15, {"memory": saved}, "run")
    restored.load_state_dict(checkpoint.load(folder, "run")["memory"])
    assert len(restored) == len(memory)
    assert same(restored.sample(100, draws()), memory.sample(100, draws()))
    world.begin(memory, restored)
    for _ in range(50):
        world.step(memory, restored)
        assert len(restored) == len(memory)
        assert same(restored.sample(8, draws()), memory.sample(8, draws()))


def test_saved_rows_never_change_once_new_episodes_began(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, world = FrameMemory(60, 2, FRAME), World(5, 2, 4)
    stream(memory, world, 50)
    rows = memory.state_dict()["envs"][0]
    before = {name: tensor.clone() for name, tensor in rows.read(rows.end - 5, rows.end).items()}
    stream(memory, world, 10)
    after = memory.state_dict()["envs"][0].read(rows.end - 5, rows.end)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    monkeypatch.setattr(replay, "CHUNK", 7)  # the same in many small reads
    restored = FrameMemory(60, 2, FRAME)
    restored.load_state_dict(memory.state_dict())
    assert same(restored.sample(50, draws()), memory.sample(50, draws()))


def test_a_restored_memory_waits_for_new_episodes() -> None:
    memory, world = FrameMemory(20, 2, FRAME), World(6, 2, 4)
    stream(memory, world, 5)
    memory.load_state_dict(memory.state_dict())
    with pytest.raises(ValueError, match="call begin before add"):
        world.step(memory)


def test_the_saved_memory_of_another_size_is_refused() -> None:
    memory, world = FrameMemory(20, 2, FRAME), World(6, 2, 4)
    stream(memory, world, 50)
    for other in (FrameMemory(30, 2, FRAME), FrameMemory(20, 1, FRAME)):
        with pytest.raises(ValueError, match="keep --num-envs and --replay-size as they were"):
            other.load_state_dict(memory.state_dict())


def test_a_memory_in_a_folder_equals_one_in_ram_and_leaves_no_file(tmp_path: Path) -> None:
    world = World(7, 2, 4)
    ram, disk = FrameMemory(30, 2, FRAME), FrameMemory(30, 2, FRAME, folder=tmp_path)
    world.begin(ram, disk)
    for _ in range(60):
        world.step(ram, disk)
    assert same(ram.sample(100, draws()), disk.sample(100, draws()))
    assert list(tmp_path.iterdir()) == []


def test_a_million_transitions_fit_into_7_3_gigabytes() -> None:
    assert bytes_needed(1_000_000, 8, (84, 84)) <= 7.3e9


def test_bytes_needed_counts_every_array() -> None:
    memory = FrameMemory(100, 3, FRAME, 2)
    arrays = [value for value in vars(memory).values() if isinstance(value, np.ndarray)]
    assert bytes_needed(100, 3, FRAME, 2) == sum(array.nbytes for array in arrays)


GROWTH = """
import numpy as np, os
from pathlib import Path
from supple.agents.replay import FrameMemory
def rss():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before = rss()
memory = FrameMemory(1_000_000, 8, (84, 84))
obs, no = np.ones((8, 4, 84, 84), np.uint8), np.zeros(8, bool)
memory.begin(obs)
for _ in range(125):
    memory.add(np.zeros(8, int), np.zeros(8), no, no, obs, obs)
print(len(memory), rss() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_memory_is_taken_as_it_fills() -> None:
    done = subprocess.run([sys.executable, "-c", GROWTH], capture_output=True, text=True, check=True)
    transitions, growth = map(int, done.stdout.split())
    assert transitions == 1000
    assert growth < 100e6


def test_an_empty_memory_is_not_sampled() -> None:
    memory = FrameMemory(10, 2, FRAME)
    for _ in range(2):
        with pytest.raises(ValueError, match="the replay memory is empty"):
            memory.sample(4, draws())
        memory.begin(np.zeros((2, 4, *FRAME), np.uint8))


def test_what_does_not_fit_is_refused_by_name() -> None:
    memory, world = FrameMemory(10, 2, FRAME), World(8, 2, 4)
    world.begin()
    with pytest.raises(ValueError, match="call begin before add"):
        world.step(memory)
    stream(memory, world, 3)
    with pytest.raises(ValueError, match=r"uint8 images of \(3, 2\), got float64 of \(3, 2\)"):
        memory.begin(world.obs / 255)
    with pytest.raises(ValueError, match=r"uint8 images of \(3, 2\), got uint8 of \(2, 3\)"):
        memory.begin(world.obs.swapaxes(2, 3))
    with pytest.raises(ValueError, match=r"uint8 CPU tensor of \(4, 5, 3, 2\)"):
        memory.sample(4, draws(), torch.empty(4, 4, 3, 2, dtype=torch.uint8))
    with pytest.raises(ValueError, match="of at least 1, got 0, 2"):
        FrameMemory(0, 2, FRAME)


def test_lack_of_memory_is_told_with_a_size_that_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(replay, "_free_memory", lambda: 3_200_000_000)
    needed = bytes_needed(1_000_000, 8, (84, 84))
    with pytest.raises(ValueError, match=r"^replay of 1,000,000 transitions needs 7\.1 GB, but 3\.2 GB of memory is"):
        check_room(needed, 1_000_000)
    with pytest.raises(ValueError, match=r": lower --replay-size \(to about 430,000\), or .* --replay-folder DIR$"):
        check_room(needed, 1_000_000)
    check_room(bytes_needed(430_000, 8, (84, 84)), 430_000)
    check_room(needed, 1_000_000, tmp_path)


def test_runs_side_by_side_need_room_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_free_memory", lambda: 8_000_000_000)
    needed = bytes_needed(1_000_000, 8, (84, 84))
    check_room(needed, 1_000_000)
    with pytest.raises(ValueError, match=r"^2 runs at a time, each with a replay of 1,000,000 .* need 14\.1 GB"):
        check_room(needed, 1_000_000, runs=2)
    with pytest.raises(ValueError, match=r"lower --jobs, lower --replay-size \(to about 540,000\)"):
        check_room(needed, 1_000_000, runs=2)


def test_lack_of_disk_space_is_told_with_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"GB of {tmp_path} is free: lower .* or choose another --replay-folder"):
        check_room(10**16, 10**12, tmp_path)
    with pytest.raises(ValueError, match=f"{tmp_path}/missing is no folder"):
        check_room(1, 10, tmp_path / "missing")


def test_a_containers_limit_counts_and_file_cache_does_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = replay._free_memory()
    monkeypatch.setattr(replay, "CGROUP", tmp_path)
    for name, text in (("max", "1000000"), ("current", "900000"), ("stat", "anon 1\ninactive_file 300000\n")):
        (tmp_path / f"memory.{name}").write_text(text)
    assert replay._free_memory() == 400_000 < machine
    (tmp_path / "memory.max").write_text("max\n")
    assert replay._free_memory() > 400_000
