import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from supple.agents.offpolicy import replay
from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory, Sample
from supple.agents.offpolicy.sampling import ReservoirMemory
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
    terminated: bool


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
            self.kept[e].append(Transition(self.obs[e], actions[e], float(rewards[e]), following, bool(terminated[e])))
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


class Shared:
    """A memory of a stack beside those of its members alone, which get their rows of what it gets.

    Args:
        stack: The memory of all members.
        alone: Those of the members.
    """

    def __init__(self, stack: Any, alone: Sequence[Any]) -> None:
        self.stack, self.alone = stack, alone

    def begin(self, observations: np.ndarray) -> None:
        for one, rows in self._parts(len(observations)):
            getattr(one, "memory", one).begin(observations[rows])

    def add(self, actions: np.ndarray, rewards: np.ndarray, result: StepResult) -> None:
        for one, rows in self._parts(len(actions)):
            one.add(actions[rows], rewards[rows], StepResult(*(array[rows] for array in result[:5]), []))

    def _parts(self, rows: int) -> list[tuple[Any, slice]]:
        each = rows // len(self.alone)
        parts = [slice(member * each, (member + 1) * each) for member in range(len(self.alone))]
        return [(self.stack, slice(None)), *zip(self.alone, parts, strict=True)]


def stream(memory: ReplayMemory | Shared, world: World, steps: int, cuts: float = 0.0) -> None:
    world.begin(memory)
    for _ in range(steps):
        world.step(memory)
        if world.rng.random() < cuts:
            world.begin(memory)


def assert_members_draw_alone(stack: ReplayMemory, alone: Sequence[ReplayMemory]) -> None:
    assert stack.sizes().tolist() == [memory.sizes().sum() for memory in alone]
    together, separate = ([draws(4 + member) for member in range(len(alone))] for _ in range(2))
    for size in (7, 40, 1):
        sample = stack.sample(size, together)
        for member, memory in enumerate(alone):
            for ours, theirs in zip(sample, memory.sample(size, separate[member]), strict=True):
                assert ours.dtype == theirs.dtype
                assert torch.equal(ours[member], theirs)
    assert all(torch.equal(a.get_state(), b.get_state()) for a, b in zip(together, separate, strict=True))


@pytest.mark.slow
@settings(max_examples=80)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_envs=st.integers(1, 3),
    capacity=st.integers(1, 25),
    stack=st.sampled_from([None, 1, 2, 4]),
    kind=st.sampled_from([(FRAME, np.uint8), ((5,), np.float32)]),
    action=st.sampled_from([(), (1,), (2,)]),
    steps=st.integers(1, 90),
    ends=st.sampled_from([0.0, 0.1, 0.5]),
    truncations=st.sampled_from([0.0, 0.1, 0.5]),
    cuts=st.sampled_from([0.0, 0.1]),
)
def test_samples_are_exactly_the_newest_transitions_of_a_memory_that_stores_them_whole(
    seed: int, num_envs: int, capacity: int, stack: int | None, kind: tuple[tuple[int, ...], type],
    action: tuple[int, ...], steps: int, ends: float, truncations: float, cuts: float,
) -> None:  # fmt: skip
    layout = ReplayLayout(*kind, stack, action)
    memory, world = ReplayMemory(capacity, num_envs, layout), World(seed, num_envs, layout, ends, truncations)
    stream(memory, world, steps, cuts)
    expected = world.newest(capacity)
    assert memory.sizes().sum() == len(expected)
    if not expected:
        return
    sample = memory.sample(20 * len(expected), draws())
    assert set(sample.rewards.tolist()) == set(expected)
    assert sample.actions.dtype == (torch.float32 if action else torch.int64)
    for frames, taken, reward, terminated in zip(*sample, strict=True):
        transition = expected[float(reward)]
        s, following = (frames[0], frames[1]) if stack is None else (frames[:-1], frames[1:])
        assert np.array_equal(s, transition.s.astype(layout.dtype))
        assert np.array_equal(following, transition.following.astype(layout.dtype))
        assert np.array_equal(taken, transition.action.astype(np.float32 if action else int))
        assert bool(terminated) == transition.terminated


@both
def test_every_transition_is_drawn_equally_often(layout: ReplayLayout) -> None:
    memory, world = ReplayMemory(40, 3, layout), World(1, 3, layout, truncations=0.3)
    stream(memory, world, 100, cuts=0.1)
    rewards = memory.sample(20_000, draws()).rewards
    _, counts = rewards.unique(return_counts=True)
    assert len(counts) == memory.sizes().sum()
    assert chisquare(counts.numpy()).pvalue > 0.01


@both
def test_draws_depend_on_generator_and_contents_only(layout: ReplayLayout) -> None:
    memory, world = ReplayMemory(30, 2, layout), World(2, 2, layout)
    stream(memory, world, 50)
    expected = memory.sample(16, draws(3))
    torch.manual_seed(9)
    out = memory.buffer(16).fill_(7)
    again = memory.sample(16, draws(3), out)
    assert again.frames is out
    assert same(again, expected)
    assert not same(memory.sample(16, draws(4)), expected)


def test_a_sample_is_a_copy() -> None:
    memory, world = ReplayMemory(8, 2, IMAGES), World(2, 2, IMAGES)
    stream(memory, world, 10)
    sample = memory.sample(16, draws())
    before = Sample(*(tensor.clone() for tensor in sample))
    stream(memory, world, 20)
    assert same(sample, before)


KINDS: dict[str, Callable[[ReplayLayout], ReplayMemory]] = {
    "ring": lambda layout: ReplayMemory(60, 2, layout),
    "reservoir": lambda layout: ReservoirMemory(60, 2, layout, draws(3)),
}


@pytest.mark.slow
@both
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("steps", "share"), [(0, 1.0), (7, 1.0), (40, 1.0), (200, 1.0), (50, 0.2)])
def test_a_memory_goes_on_from_a_checkpoint_bit_for_bit(
    kind: str, steps: int, share: float, layout: ReplayLayout, tmp_path: Path
) -> None:
    world = World(steps, 2, layout)
    memory, restored = KINDS[kind](layout), KINDS[kind](layout)
    stream(memory, world, steps)
    stream(restored, World(99, 2, layout), 100)  # what it held before must not matter
    if share < 1:
        memory.keep(share)
    checkpoint.save(tmp_path, steps, {"memory": memory.state_dict()}, "run")
    world.begin(memory)
    for _ in range(15):  # a second checkpoint adds to the first
        world.step(memory)
    folder = checkpoint.save(tmp_path, steps + 15, {"memory": memory.state_dict()}, "run")
    restored.load_state_dict(checkpoint.load(folder, "run")["memory"])
    assert same(restored.sample(100, draws()), memory.sample(100, draws()))
    world.begin(memory, restored)
    for _ in range(50):
        world.step(memory, restored)
        assert restored.sizes().tolist() == memory.sizes().tolist()
        assert same(restored.sample(8, draws()), memory.sample(8, draws()))


@both
def test_saved_rows_never_change_once_new_episodes_began(layout: ReplayLayout, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, world = ReplayMemory(60, 2, layout), World(5, 2, layout)
    stream(memory, world, 50)
    rows = memory.state_dict()["envs"][0]
    before = {name: tensor.clone() for name, tensor in rows.read(rows.end - 5, rows.end).items()}
    stream(memory, world, 10)
    after = memory.state_dict()["envs"][0].read(rows.end - 5, rows.end)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    monkeypatch.setattr(replay, "CHUNK", 7)  # the same in many small reads
    restored = ReplayMemory(60, 2, layout)
    restored.load_state_dict(memory.state_dict())
    assert same(restored.sample(50, draws()), memory.sample(50, draws()))


def test_the_saved_memory_of_another_size_is_refused() -> None:
    memory, world = ReplayMemory(20, 2, IMAGES), World(6, 2, IMAGES)
    stream(memory, world, 50)
    for other in (ReplayMemory(30, 2, IMAGES), ReplayMemory(20, 1, IMAGES)):
        with pytest.raises(ValueError, match="do not change --num-envs or --replay-size"):
            other.load_state_dict(memory.state_dict())
    reservoir = ReservoirMemory(20, 2, IMAGES, draws())
    with pytest.raises(ValueError, match="do not change --replay-size"):
        ReservoirMemory(21, 2, IMAGES, draws()).load_state_dict(reservoir.state_dict())


@both
def test_a_memory_in_a_folder_equals_one_in_ram_and_leaves_no_file(layout: ReplayLayout, tmp_path: Path) -> None:
    world = World(7, 2, layout)
    ram, disk = ReplayMemory(30, 2, layout), ReplayMemory(30, 2, layout, tmp_path)
    world.begin(ram, disk)
    for _ in range(60):
        world.step(ram, disk)
    assert same(ram.sample(100, draws()), disk.sample(100, draws()))
    assert list(tmp_path.iterdir()) == []


def test_an_empty_memory_is_not_sampled() -> None:
    memory = ReplayMemory(10, 2, IMAGES)
    for _ in range(2):
        with pytest.raises(ValueError, match="the replay memory is empty"):
            memory.sample(4, draws())
        memory.begin(np.zeros((2, 4, *FRAME), np.uint8))


def test_a_step_that_does_not_fit_is_refused_before_anything_of_it_is_stored() -> None:
    memory, world = ReplayMemory(10, 2, VECTORS), World(8, 2, VECTORS)
    world.begin()
    with pytest.raises(ValueError, match="call begin before add"):
        world.step(memory)
    stream(memory, world, 3)
    before, no, obs = memory.sample(20, draws()), np.zeros(2, bool), world.obs
    result = StepResult(obs, no, no, no, obs, [])
    with pytest.raises(ValueError, match=r"takes float32 actions of \(2, 2\), got float64 of \(2,\)"):
        memory.add(np.zeros(2), np.zeros(2), result)  # would fit by broadcasting
    with pytest.raises(ValueError, match=r"takes float32 actions of \(2, 2\), got int64"):
        memory.add(np.zeros((2, 2), int), np.zeros(2), result)
    for final, following in ((obs[:1], obs), (obs, obs[:, :4]), (obs.astype(int), obs)):
        with pytest.raises(ValueError, match=r"takes float32 observations of \(2, 5\), got"):
            memory.add(np.zeros((2, 2)), np.zeros(2), result._replace(final_obs=final, obs=following))
    assert memory.sizes().sum() == 6
    assert same(memory.sample(20, draws()), before)
