import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.agents.offpolicy import replay
from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory, Sample
from supple.agents.offpolicy.sampling import Recency, ReservoirMemory
from supple.engine.storage import checkpoint
from supple.envs import StepResult

FRAME = (3, 2)
IMAGES = ReplayLayout(FRAME, np.uint8, stack=4)
VECTORS = ReplayLayout((5,), np.float32, action=(2,))
both = pytest.mark.parametrize("layout", [IMAGES, VECTORS], ids=["images", "vectors"])


class Transition(NamedTuple):
    s: np.ndarray
    action: np.ndarray
    reward: float
    following: np.ndarray
    discount: float


class World:
    """Environments of random images, or of random vectors in float64 as MuJoCo's are, beside a memory that keeps
    whole transitions of each in a list, under unique rewards.

    None stands where a frame was kept that nothing was done on.
    """

    def __init__(
        self, seed: int, num_envs: int, layout: ReplayLayout, ends: float = 0.1, truncations: float = 0.1
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.num_envs, self.layout, self.ends, self.truncations = num_envs, layout, ends, truncations
        self.kept: list[list[Transition | None]] = [[] for _ in range(num_envs)]
        self.steps = 0

    def frames(self) -> np.ndarray:
        shape = (self.num_envs, *self.layout.frame)
        return (
            self.rng.integers(1, 256, shape, np.uint8) if self.layout.dtype is np.uint8 else self.rng.normal(size=shape)
        )

    def first(self) -> np.ndarray:
        frames = self.frames()
        if self.layout.stack is None:
            return frames
        obs = np.zeros((self.num_envs, *self.layout.observation), frames.dtype)
        obs[:, -1] = frames
        return obs

    def begin(self, *memories: Any) -> None:
        if self.steps:
            for kept in self.kept:
                kept.append(None)
        self.obs = self.first()
        for memory in memories:
            memory.begin(self.obs)

    def step(self, *memories: Any) -> None:
        n, stacked = self.num_envs, self.layout.stack is not None
        self.steps += 1
        newest = self.frames()
        final = np.concatenate([self.obs[:, 1:], newest[:, None]], 1) if stacked else newest
        terminated, truncated = self.rng.random(n) < self.ends, self.rng.random(n) < self.truncations
        first = self.first()
        obs = np.stack([first[e] if terminated[e] or truncated[e] else final[e] for e in range(n)])
        actions = self.rng.normal(size=(n, *self.layout.action)) if self.layout.action else self.rng.integers(0, 18, n)
        rewards = self.steps * n + np.arange(float(n))
        for memory in memories:
            memory.add(actions, rewards, StepResult(obs, rewards, terminated, truncated, final, []))
        for e in range(n):
            following = final[e].copy()
            following[-1 if stacked else slice(None)] *= not terminated[e]
            self.kept[e].append(
                Transition(self.obs[e], actions[e], float(rewards[e]), following, float(not terminated[e]))
            )
            if truncated[e] and not terminated[e]:
                self.kept[e].append(None)
        self.obs = obs

    def windows(self, steps: int, gamma: float) -> dict[float, Transition]:
        """Return the window of at most so many steps from each transition on, by the reward of the first."""
        found = {}
        for kept in self.kept:
            for i, first in enumerate(kept):
                inside: list[Transition] = []
                for row in kept[i : i + steps]:
                    if row is None or (inside and not inside[-1].discount):
                        break
                    inside.append(row)
                if first is not None:
                    total = sum(gamma**k * row.reward for k, row in enumerate(inside))
                    left = gamma ** len(inside) * inside[-1].discount
                    found[first.reward] = Transition(first.s, first.action, total, inside[-1].following, left)
        return found

    def newest(self, capacity: int, share: float = 1.0) -> dict[float, Transition]:
        """Return the newest share of the transitions that a memory has room for."""
        found = {}
        for kept in self.kept:
            rows = [row for row in kept[-math.ceil(capacity / self.num_envs) :] if row is not None]
            left = math.ceil(round(share * len(rows), 6))
            found |= {row.reward: row for row in rows[len(rows) - left :]}
        return found


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def same(a: Sample, b: Sample) -> bool:
    return all(map(torch.equal, a, b))


def assert_whole(sample: Sample, wanted: Mapping[float, Transition], layout: ReplayLayout) -> None:
    """Require that transitions of a sample are those that were kept whole, and that none of these is missing."""

    def key(s: np.ndarray) -> bytes:  # rewards of windows may be equal, frames are not
        return np.ascontiguousarray(s if layout.stack is None else s[-1], layout.dtype).tobytes()

    by_frame, found, depth = {key(transition.s): transition for transition in wanted.values()}, set(), layout.depth
    assert sample.actions.dtype == (torch.float32 if layout.action else torch.int64)
    for frames, taken, reward, discount in zip(*(tensor.numpy() for tensor in sample), strict=True):
        s, following = (frames[0], frames[1]) if layout.stack is None else (frames[:depth], frames[-depth:])
        transition = by_frame[key(s)]
        found.add(key(s))
        assert np.array_equal(s, transition.s.astype(layout.dtype))
        if discount or len(frames) == depth + 1:
            assert np.array_equal(following, transition.following.astype(layout.dtype))
        assert np.array_equal(taken, transition.action.astype(np.float32 if layout.action else int))
        np.testing.assert_allclose([reward, discount], [transition.reward, transition.discount], rtol=1e-6)
    assert found == by_frame.keys()


def stream(memory: Any, world: World, steps: int, cuts: float = 0.0) -> None:
    world.begin(memory)
    for _ in range(steps):
        world.step(memory)
        if world.rng.random() < cuts:
            world.begin(memory)


@pytest.mark.slow
@settings(max_examples=120)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 3),
    capacity=st.integers(1, 25),
    stack=st.sampled_from([None, 1, 2, 4]),
    kind=st.sampled_from([(FRAME, np.uint8), ((5,), np.float32)]),
    action=st.sampled_from([(), (1,), (2,)]),
    steps=st.integers(0, 90),
    ends=st.sampled_from([0.0, 0.1, 0.5]),
    truncations=st.sampled_from([0.0, 0.1, 0.5]),
    cuts=st.sampled_from([0.0, 0.1]),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.95, 1.0]),
    later=st.integers(0, 40),
    window=st.sampled_from([1, 2, 5]),
)
def test_samples_are_exactly_the_newest_transitions_of_a_memory_that_stores_them_whole(
    seed: int, num_envs: int, capacity: int, stack: int | None, kind: tuple[tuple[int, ...], type],
    action: tuple[int, ...], steps: int, ends: float, truncations: float, cuts: float, share: float, later: int,
    window: int,
) -> None:  # fmt: skip
    """Also after all but a share of each environment's was forgotten, and in windows of several steps."""
    layout = ReplayLayout(*kind, stack, action)
    memory = ReplayMemory(capacity, num_envs, layout, steps=window, gamma=0.9)
    world = World(seed, num_envs, layout, ends, truncations)
    stream(memory, world, steps, cuts)
    left, last = world.newest(capacity, share), (world.steps + 1) * num_envs
    memory.keep(share)
    for _ in range(later):
        world.step(memory)
    windows = world.windows(window, 0.9)
    expected = {r: windows[r] for r in world.newest(capacity) if r in left or r >= last}
    assert memory.sizes().sum() == len(expected)
    if not expected:
        with pytest.raises(ValueError, match="the replay memory is empty"):
            memory.sample(4, draws())
    else:
        assert_whole(memory.sample(30 * len(expected), draws()), expected, layout)


KINDS: dict[str, Callable[..., ReplayMemory]] = {
    "ring": lambda layout, draws, members=0: ReplayMemory(60, 2, layout, members=members),
    "windows": lambda layout, draws, members=0: ReplayMemory(60, 2, layout, members=members, steps=3, gamma=0.9),
    "recency": lambda layout, draws, members=0: ReplayMemory(60, 2, layout, members=members, sampling=Recency(20, 0.2)),
    "reservoir": lambda layout, draws, members=0: ReservoirMemory(60, 2, layout, draws, members=members),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.mark.slow
@both
@kinds
@pytest.mark.parametrize(("steps", "share"), [(0, 1.0), (40, 1.0), (200, 0.2)])
def test_a_memory_goes_on_from_a_checkpoint_bit_for_bit(
    kind: str, steps: int, share: float, layout: ReplayLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the first of two checkpoints has are not written again: they must not have changed since."""
    monkeypatch.setattr(replay, "CHUNK", 7)
    world = World(steps, 2, layout)
    memory, restored = (KINDS[kind](layout, draws(3)) for _ in range(2))
    stream(memory, world, steps)
    stream(restored, World(99, 2, layout), 100)  # what it held before must not matter
    if share < 1:
        memory.keep(share)
    checkpoint.save(tmp_path, steps, {"memory": memory.state_dict()}, "run")
    stream(memory, world, 15)
    folder = checkpoint.save(tmp_path, steps + 15, {"memory": memory.state_dict()}, "run")
    restored.load_state_dict(checkpoint.load(folder, "run")["memory"])
    assert same(restored.sample(100, draws()), memory.sample(100, draws()))
    world.begin(memory, restored)
    for _ in range(50):
        world.step(memory, restored)
        assert restored.sizes().tolist() == memory.sizes().tolist()
        assert same(restored.sample(8, draws()), memory.sample(8, draws()))


class Shared:
    """A memory of a stack beside those of its members alone, which get their rows of what it gets."""

    def __init__(self, stack: ReplayMemory, alone: Sequence[ReplayMemory]) -> None:
        each = stack.num_envs
        parts = [slice(member * each, (member + 1) * each) for member in range(len(alone))]
        self.parts = [(stack, slice(None)), *zip(alone, parts, strict=True)]

    def begin(self, observations: np.ndarray) -> None:
        for one, rows in self.parts:
            one.begin(observations[rows])

    def add(self, actions: np.ndarray, rewards: np.ndarray, result: StepResult) -> None:
        for one, rows in self.parts:
            one.add(actions[rows], rewards[rows], StepResult(*(array[rows] for array in result[:5]), []))


@both
@kinds
def test_a_members_sample_is_that_of_its_memory_alone(kind: str, layout: ReplayLayout) -> None:
    """Also if another member of a reservoir begins again."""
    together, apart = ([draws(4 + member) for member in range(3)] for _ in range(2))
    stack = KINDS[kind](layout, [draws(member) for member in range(3)], 3)
    alone = [KINDS[kind](layout, draws(member)) for member in range(3)]
    shared, world = Shared(stack, alone), World(0, 6, layout, truncations=0.2)
    for steps, size in ((1, 7), (60, 40), (19, 8)):
        stream(shared, world, steps, cuts=0.1)
        assert stack.sizes().tolist() == [memory.sizes().sum() for memory in alone]
        sample = stack.sample(size, together)
        for member, memory in enumerate(alone):
            assert same(Sample(*(tensor[member] for tensor in sample)), memory.sample(size, apart[member]))
        if kind == "reservoir":
            stack.marks[0] = 0
            alone[0].keep(0)
    assert all(torch.equal(a.get_state(), b.get_state()) for a, b in zip(together, apart, strict=True))


def test_the_saved_memory_of_another_size_is_refused() -> None:
    ring, reservoir = ReplayMemory(20, 2, IMAGES), ReservoirMemory(20, 2, IMAGES, draws())
    stream(ring, World(6, 2, IMAGES), 50)
    for saved, other in (
        (ring, ReplayMemory(30, 2, IMAGES)),
        (ring, ReplayMemory(20, 1, IMAGES)),
        (reservoir, ReservoirMemory(21, 2, IMAGES, draws())),
    ):
        with pytest.raises(ValueError, match=r"do not change .*--replay-size"):
            other.load_state_dict(saved.state_dict())


@both
def test_a_memory_in_a_folder_equals_one_in_ram_and_leaves_no_file(layout: ReplayLayout, tmp_path: Path) -> None:
    world = World(7, 2, layout)
    ram, disk = ReplayMemory(30, 2, layout), ReplayMemory(30, 2, layout, tmp_path)
    world.begin(ram, disk)
    for _ in range(60):
        world.step(ram, disk)
    assert same(ram.sample(100, draws()), disk.sample(100, draws()))
    assert list(tmp_path.iterdir()) == []


def test_a_step_that_does_not_fit_is_refused_before_anything_of_it_is_stored() -> None:
    memory, world = ReplayMemory(10, 2, VECTORS), World(8, 2, VECTORS)
    stream(memory, world, 3)
    before, no, obs, fitting = memory.sample(20, draws()), np.zeros(2, bool), world.obs, np.zeros((2, 2))
    for actions, final, following, message in (
        (np.zeros(2), obs, obs, r"float32 actions of \(2, 2\), got float64 of \(2,\)"),  # would fit by broadcasting
        (fitting.astype(int), obs, obs, r"float32 actions of \(2, 2\), got int64"),
        (fitting, obs[:1], obs, r"float32 observations of \(2, 5\), got"),
        (fitting, obs, obs[:, :4], r"float32 observations of \(2, 5\), got"),
        (fitting, obs.astype(int), obs, r"float32 observations of \(2, 5\), got"),
    ):
        with pytest.raises(ValueError, match=message):
            memory.add(actions, np.zeros(2), StepResult(following, no, no, no, final, []))
    assert memory.sizes().sum() == 6
    assert same(memory.sample(20, draws()), before)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")
def test_a_million_images_fit_into_few_gigabytes_which_are_used_only_as_rows_fill() -> None:
    def used() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before, obs, no = used(), np.ones((8, 4, 84, 84), np.uint8), np.zeros(8, bool)
    memory = ReplayMemory(1_000_000, 8, ReplayLayout((84, 84), np.uint8, stack=4))
    assert sum(value.nbytes for value in vars(memory).values() if isinstance(value, np.ndarray)) <= 7.3e9
    memory.begin(obs)
    for _ in range(125):
        memory.add(np.zeros(8, int), np.zeros(8), StepResult(obs, no, no, no, obs, []))
    assert memory.sizes().sum() == 1_000
    assert used() - before < 100e6
