"""The update as a CUDA graph: learns what the eager update learns, also after interventions; how batches reach it.

What needs a GPU is left out where there is none; recording and replaying as such are tried with a graph of Python.
"""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.dqn.sizes import Pixels, RowSizes
from supple.agents.offpolicy.graph import WARM_UP, UpdateGraph
from supple.agents.offpolicy.layout import ReplayLayout, Sample
from supple.agents.offpolicy.replay import ReplayMemory
from supple.agents.offpolicy.replay_feed import ReplayFeed
from supple.agents.rates import scale_rates
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult
from supple.interventions import Learner, make
from supple.metrics import measure

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)
IMAGES = ReplayLayout((36, 36), np.uint8, stack=4)
VECTORS = ReplayLayout((7,), np.float32, action=(3,))
TOLERANCE = 1e-4  # of parameters that differ by the order of sums; they move by some 1e-3 in every step


def vectors(seed: int) -> Iterator[StepResult]:
    """Yield random vectors of 7 numbers and rewards that do not depend on the actions. No episode ends."""
    rng, going_on = np.random.default_rng(seed), np.zeros(2, bool)
    while True:
        obs = rng.normal(size=(2, 7))
        yield StepResult(obs, rng.normal(size=2), going_on, going_on, obs, [])


def world(num_envs: int = 2, seed: int = 0) -> Iterator[StepResult]:
    """Yield random images and rewards that do not depend on the actions. No episode ends."""
    rng, going_on = np.random.default_rng(seed), np.zeros(num_envs, bool)
    stack = np.zeros((num_envs, 4, 36, 36), np.uint8)
    while True:
        stack = np.concatenate([stack[:, 1:], rng.integers(0, 256, (num_envs, 1, 36, 36), np.uint8)], axis=1)
        yield StepResult(stack, rng.normal(size=num_envs), going_on, going_on, stack, [])


# -- feed --------------------------------------------------------------------------------------------------


def filled(layout: ReplayLayout = IMAGES) -> ReplayMemory:
    rng, going_on = np.random.default_rng(0), np.zeros(2, bool)
    memory = ReplayMemory(100, 2, layout)
    observations = (256 * rng.random((31, 2, *layout.observation))).astype(layout.dtype)
    actions = (3 * rng.random((30, 2, *layout.action))).astype(np.float32 if layout.action else np.int64)
    memory.begin(observations[0])
    for action, obs in zip(actions, observations[1:], strict=True):
        memory.add(action, rng.normal(size=2), StepResult(obs, going_on, going_on, going_on, obs, []))
    return memory


@pytest.mark.parametrize("layout", [IMAGES, VECTORS], ids=["images", "vectors"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_a_batch_is_what_the_memory_sampled(device: str, layout: ReplayLayout) -> None:
    memory = filled(layout)
    feed, (ours, theirs) = (
        ReplayFeed(memory, torch.device(device)),
        (torch.Generator().manual_seed(1) for _ in range(2)),
    )
    for size in (8, 8, 3, 16, 16, 16, 8):
        found, wanted = feed(size, ours), memory.sample(size, theirs)
        assert {tensor.device.type for tensor in found} == {device}
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            assert torch.equal(a.cpu(), b)


def test_the_buffer_is_used_again_and_grows_with_the_batch() -> None:
    feed, draws = ReplayFeed(filled(), torch.device("cpu")), torch.Generator().manual_seed(1)
    places = [feed(size, draws).frames.data_ptr() for size in (8, 8, 3)]
    assert len(set(places)) == 1
    larger = feed(16, draws).frames
    assert len(larger) == 16
    assert feed(8, draws).frames.data_ptr() == larger.data_ptr()


@needs_gpu
@pytest.mark.parametrize("layout", [IMAGES, VECTORS], ids=["images", "vectors"])
def test_batches_on_the_way_to_the_gpu_are_not_overwritten(layout: ReplayLayout) -> None:
    feed, draws, again = ReplayFeed(filled(layout), torch.device("cuda")), torch.Generator(), torch.Generator()
    again.set_state(draws.get_state())
    batches = [feed(64, draws) for _ in range(20)]
    for batch in batches:
        assert torch.equal(batch.frames.cpu(), feed.memory.sample(64, again).frames)


# -- recording, with a graph of Python ---------------------------------------------------------------------


class Recorder:
    """Stands for `torch.cuda` and its graphs: while one is recorded, nothing is computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.learned: list[float] = []
        self.graphs: list[Any] = []
        self.recording: Any = None
        for name in ("Stream", "current_stream"):
            monkeypatch.setattr(torch.cuda, name, lambda: self)
        monkeypatch.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
        monkeypatch.setattr(torch.cuda, "CUDAGraph", self.new_graph)
        monkeypatch.setattr(torch.cuda, "graph", self.record)

    def wait_stream(self, other: "Recorder") -> None:
        """Do nothing: all streams are the same here."""

    def new_graph(self) -> Any:
        self.graphs.append(type("Graph", (), {"replay": None})())
        return self.graphs[-1]

    @contextlib.contextmanager
    def record(self, graph: Any) -> Iterator[None]:
        self.recording = graph
        yield
        self.recording = None

    def learn(self, *tensors: Tensor) -> None:
        learn = lambda: self.learned.append(sum(float(tensor.sum()) for tensor in tensors))  # noqa: E731
        if self.recording:
            self.recording.replay = learn
        else:
            learn()


def sample_of(size: int, reward: float) -> Sample:
    rewards, no = torch.full((size,), reward / size), torch.zeros(size, dtype=torch.bool)
    return Sample(torch.zeros(size, 5, 1, 1, dtype=torch.uint8), torch.zeros(size, dtype=torch.int64), rewards, no)


def test_every_call_learns_once_from_its_own_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    captured = UpdateGraph(recorder.learn)
    for number in range(3 * WARM_UP):
        captured(*sample_of(4, number), torch.full((2, 4), number / 8), structure=0)
    assert recorder.learned == [2 * number for number in range(3 * WARM_UP)]
    assert len(recorder.graphs) == 1


def test_each_shape_and_each_structure_has_its_own_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(monkeypatch)
    captured = UpdateGraph(recorder.learn)
    shapes = ((4, (4, 1)), (8, (8, 1)), (8, (8, 2)))
    calls = [(shape, structure) for structure in (0, 1) for _ in range(WARM_UP + 2) for shape in shapes]
    for number, ((size, noise), structure) in enumerate(calls):
        captured(*sample_of(size, number), torch.zeros(noise), structure=structure)
        assert len(recorder.graphs) <= len(shapes) * (structure + 1)
    assert recorder.learned == pytest.approx(list(range(len(calls))))
    assert len(recorder.graphs) == 2 * len(shapes)


# -- on a GPU ----------------------------------------------------------------------------------------------


class Life:
    """An agent in a world that ignores its actions, so that rounding errors cannot change its observations."""

    agent: Any
    contracts: tuple[str, ...]  # of an injection
    values: dict[str, Any]

    def __init__(self, capture: bool, **changes: Any) -> None:
        common = {"env": "a", "steps": 1_000, "num_envs": 2, "batch_size": 8, "replay_size": 400, "learning_starts": 0}
        learning = {"learning_rate": 1e-3, "device": "cuda", "capture": capture}
        self.agent = self.build({**common, **learning, **self.values, **changes})
        self.begin(seed=0)

    def build(self, values: dict[str, Any]) -> Any:
        raise AttributeError("each algorithm's own")

    def world(self, seed: int) -> Iterator[StepResult]:
        return world(seed=seed)

    def begin(self, seed: int) -> None:
        self.steps = self.world(seed)
        self.agent.begin_episodes(next(self.steps).obs)

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.agent.act()
            self.agent.remember(next(self.steps))
            self.agent.update(NO_HOOKS, last=False)

    def apply(self, name: str, **params: Any) -> None:
        for learner in self.agent.learners.values():
            intervention = make(name, **params)
            if intervention.concerns(learner):
                intervention.attach(learner)
                assert intervention.apply(learner)

    def learners(self) -> list[Learner]:
        return list(self.agent.learners.values())

    def trained(self) -> list[Tensor]:
        """Return the trained parameters of all networks."""
        return [p for x in self.agent.learners.values() for p in x.module.parameters() if p.requires_grad]

    def parameters(self) -> list[Tensor]:
        """Return copies of what `trained` returns, and of everything else that an update writes."""
        every = [p for x in self.learners() for m in (x.module, *x.followers) for p in m.parameters()]
        slots = [v for x in self.learners() for p in x.module.parameters() for v in self.slots(x, p)]
        return [tensor.detach().clone() for tensor in (*self.trained(), *every, *slots)]

    @staticmethod
    def slots(learner: Learner, parameter: Tensor) -> list[Tensor]:
        assert learner.optimizer is not None
        return list(learner.optimizer.state.get(parameter, {}).values())

    @property
    def graphs(self) -> list[Any]:
        assert self.agent.captured
        return [graph for graph, _ in self.agent.captured._graphs.values()]


class LifeOfDQN(Life):
    """DQN with random actions."""

    contracts = ("uniform", "as_released")
    values = {"hidden": 32, "exploration": 1.0, "target_period": 20}  # noqa: RUF012

    def build(self, values: dict[str, Any]) -> DQN:
        return DQN(DQNSettings(**values), {"a": Pixels(stack=4, height=36, width=36, actions=3)})


class LifeOfDQNOnVectors(Life):
    """DQN with random actions, double Q, clipped gradients and singular vectors that every update changes."""

    contracts = ("uniform",)
    values = {  # noqa: RUF012
        "widths": (32, 32), "exploration": 1.0, "target_period": 20, "double_q": True, "max_grad_norm": 1.0,
        "normalization": "spectral",
    }  # fmt: skip

    def build(self, values: dict[str, Any]) -> DQN:
        return DQN(DQNSettings(**values), {"a": RowSizes(size=7, actions=3)})

    def world(self, seed: int) -> Iterator[StepResult]:
        return vectors(seed)


class LifeOfStack(LifeOfDQNOnVectors):
    """Two seeds of DQN in one stack, each with random slopes of its own and one environment."""

    values = LifeOfDQNOnVectors.values | {"activation": "rand_smooth_leaky", "seeds": (0, 1), "num_envs": 1}

    def parameters(self) -> list[Tensor]:
        return [*super().parameters(), *(source.get_state() for source in self.agent.activations)]


class LifeOfSAC(Life):
    """Two gradient steps in every vector step, and a policy that acts."""

    contracts = ("uniform",)
    values = {"actor_width": 16, "critic_width": 16, "action_repeat": 1, "replay_ratio": 1.0, "learning_rate": 3e-3}  # noqa: RUF012

    def build(self, values: dict[str, Any]) -> SAC:
        return SAC(SACSettings(**values), {"a": Control(7, (-1.0, -2.0), (1.0, 2.0))})

    def world(self, seed: int) -> Iterator[StepResult]:
        return vectors(seed)

    def learners(self) -> list[Learner]:
        return [*super().learners(), self.agent.soft_update.temperature]


LIVES = [LifeOfDQN, LifeOfSAC]


def assert_equal(a: Life, b: Life) -> None:
    for ours, theirs in zip(a.parameters(), b.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=TOLERANCE)


def assert_moved(life: Life, before: list[Tensor]) -> None:
    """Assert that training changed every trained parameter; else the equality of two agents would say nothing."""
    moves = [(p.detach() - q).abs().max() for p, q in zip(life.trained(), before, strict=False)]
    assert min(map(float, moves)) > 10 * TOLERANCE


INTERVENTIONS: dict[str, Callable[[Life], None]] = {
    "none": lambda life: None,
    "fire": lambda life: life.apply("fire"),
    "fire as released": lambda life: life.apply("fire", contract="as_released"),
    "snp": lambda life: life.apply("snp", noise=0.01),
    "reset": lambda life: life.apply("reset", what="head"),
    "fresh reset": lambda life: life.apply("reset", toward="fresh", contract="as_released"),
    "redo": lambda life: life.apply("redo", tau=0.8),
}


@pytest.fixture
def _repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


@needs_gpu
@pytest.mark.usefixtures("_repeatable")
@pytest.mark.parametrize("life_of", [*LIVES, LifeOfStack])
def test_a_recorded_update_follows_the_schedule_of_its_learning_rate(life_of: type[Life]) -> None:
    recorded, eager = (life_of(capture=capture, schedule="linear") for capture in (True, False))
    for share in (1.0, 0.3, 0.1):
        for life in (recorded, eager):
            scale_rates(life.agent.learners.values(), share)
            life.live(10)
        assert_equal(recorded, eager)
    assert len(recorded.graphs) == 1
    before = recorded.parameters()
    scale_rates(recorded.agent.learners.values(), 0.0)
    recorded.live(2)
    for ours, theirs in zip(recorded.trained(), before, strict=False):
        assert torch.equal(ours.detach(), theirs)


@needs_gpu
@pytest.mark.usefixtures("_repeatable")
@pytest.mark.parametrize("life_of", LIVES)
@pytest.mark.parametrize("name", INTERVENTIONS)
def test_a_recorded_update_learns_what_the_eager_one_does_across_an_intervention(
    name: str, life_of: type[Life]
) -> None:
    recorded, eager = life_of(capture=True), life_of(capture=False)
    for life in (recorded, eager):
        life.live(20)
    assert_equal(recorded, eager)
    graphs = recorded.graphs
    assert len(graphs) == 1
    for life in (recorded, eager):
        INTERVENTIONS[name](life)
    assert_equal(recorded, eager)
    before = recorded.parameters()
    for life in (recorded, eager):
        life.live(20)
    assert recorded.graphs == graphs  # still valid, and still in use
    assert_equal(recorded, eager)
    assert_moved(recorded, before)
    assert recorded.agent.numbers() == pytest.approx(eager.agent.numbers(), rel=1e-2)


@needs_gpu
@pytest.mark.usefixtures("_repeatable")
@pytest.mark.parametrize("life_of", [LifeOfDQNOnVectors, LifeOfStack])
def test_double_q_clipping_singular_vectors_and_members_are_recorded_too(life_of: type[Life]) -> None:
    recorded, eager = life_of(capture=True), life_of(capture=False)
    for life in (recorded, eager):
        life.live(20)
        life.apply("fire")
    before = recorded.parameters()
    for life in (recorded, eager):
        life.live(20)
    assert len(recorded.graphs) == 1
    assert_equal(recorded, eager)
    assert_moved(recorded, before)
    for ours, theirs in zip(recorded.agent.network.buffers(), eager.agent.network.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=TOLERANCE)


@needs_gpu
@pytest.mark.usefixtures("_repeatable")
@pytest.mark.parametrize(("life_of", "contract"), [(x, contract) for x in LIVES for contract in x.contracts])
def test_after_an_injection_the_update_is_recorded_again(life_of: type[Life], contract: str) -> None:
    recorded, eager = life_of(capture=True), life_of(capture=False)
    for life in (recorded, eager):
        life.live(20)
    (old,) = recorded.graphs
    for life in (recorded, eager):
        life.apply("injection", contract=contract)
    before = recorded.parameters()
    for life in (recorded, eager):
        life.live(20)
    (new,) = recorded.graphs
    assert new is not old
    assert_equal(recorded, eager)
    assert_moved(recorded, before)
    for life in (recorded, eager):
        life.apply("fire")
        life.live(10)
    assert recorded.graphs == [new]
    assert_equal(recorded, eager)


@needs_gpu
@pytest.mark.usefixtures("_repeatable")
@pytest.mark.parametrize("life_of", LIVES)
def test_a_loaded_agent_records_its_own_graph_and_learns_the_same(life_of: type[Life]) -> None:
    first, second = life_of(capture=True), life_of(capture=True)
    first.live(20)
    first.apply("injection")
    first.live(10)
    state = first.agent.state_dict()
    memory = {"memory": state["experience"].pop("memory")}  # rows are read, not kept
    state = copy.deepcopy(state)
    second.agent.load_state_dict({**state, "experience": state["experience"] | memory})
    for life in (first, second):
        life.begin(seed=1)
        life.live(20)
    assert second.graphs
    assert_equal(first, second)


@needs_gpu
@pytest.mark.parametrize("life_of", LIVES)
def test_measurements_and_probes_run_where_the_network_is(life_of: type[Life]) -> None:
    life = life_of(capture=True, activation="rand_smooth_leaky")
    life.live(20)
    draws = torch.cuda.get_rng_state()
    for learner in life.agent.learners.values():
        assert all(np.isfinite(value) for value in measure(learner, per_layer=True).values())
    assert torch.equal(draws, torch.cuda.get_rng_state())  # measuring draws nothing
    life.live(5)
    life.agent.numbers()
