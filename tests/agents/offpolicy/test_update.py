"""The update as a CUDA graph: learns what the eager update learns, also after interventions; how batches reach it.

What needs a GPU is left out where there is none; recording and replaying as such are tried with a graph of Python.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN
from supple.agents.offpolicy.experience import ReplayFeed
from supple.agents.offpolicy.replay import ReplayLayout, ReplayMemory
from supple.agents.offpolicy.update import WARM_UP, UpdateGraph
from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from tests.agents.dqn.worlds import VECTORS
from tests.agents.lives import live, vectors
from tests.agents.offpolicy.test_replay import World, both, draws, stream
from tests.agents.sac.worlds import CONTROL, D
from tests.agents.states import apply

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA GPU")


# -- feed --------------------------------------------------------------------------------------------------


def filled(layout: ReplayLayout) -> ReplayMemory:
    memory = ReplayMemory(100, 2, layout)
    stream(memory, World(0, 2, layout), 30)
    return memory


@both
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=needs_gpu)])
def test_a_batch_is_what_the_memory_sampled_in_a_buffer_that_is_used_again(device: str, layout: ReplayLayout) -> None:
    feed, ours, theirs = ReplayFeed(filled(layout), torch.device(device)), draws(1), draws(1)
    places = []
    for size in (8, 8, 3, 16, 16, 16, 8):
        found, wanted = feed(size, ours), feed.memory.sample(size, theirs)
        places.append(found.frames.data_ptr())
        assert {tensor.device.type for tensor in found} == {device}
        assert all(a.dtype == b.dtype and torch.equal(a.cpu(), b) for a, b in zip(found, wanted, strict=True))
    assert device == "cuda" or (len(set(places[:3])), len(set(places[3:]))) == (1, 1)


@needs_gpu
@both
def test_batches_on_the_way_to_the_gpu_are_not_overwritten(layout: ReplayLayout) -> None:
    feed, ours, theirs = ReplayFeed(filled(layout), torch.device("cuda")), draws(), draws()
    for batch in [feed(64, ours) for _ in range(20)]:
        assert torch.equal(batch.frames.cpu(), feed.memory.sample(64, theirs).frames)


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


def test_every_call_learns_once_and_each_shape_and_each_structure_has_its_own_graph(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder(monkeypatch)
    captured = UpdateGraph(recorder.learn)
    shapes = ((4, 4), (8, 8), (8, 4))
    calls = [(shape, structure) for structure in (0, 1) for _ in range(WARM_UP + 2) for shape in shapes]
    for number, ((size, noise), structure) in enumerate(calls):
        captured(torch.full((size,), number / size), torch.zeros(noise), structure=structure)
        assert len(recorder.graphs) <= len(shapes) * (structure + 1)
    assert recorder.learned == pytest.approx(list(range(len(calls))))
    assert len(recorder.graphs) == 2 * len(shapes)


# -- on a GPU ----------------------------------------------------------------------------------------------


COMMON: dict[str, Any] = {
    "env": "a", "steps": 1_000, "num_envs": 2, "batch_size": 8, "replay_size": 400, "learning_starts": 0,
    "learning_rate": 1e-3, "device": "cuda", "replay_ratio": 1.0,
}  # fmt: skip
AGENTS: dict[str, Callable[..., Any]] = {
    "dqn": lambda **own: DQN(DQNSettings(**COMMON, hidden=(32, 32), double_q=True, **own), {"a": VECTORS}),
    "sac": lambda **own: SAC(
        SACSettings(**COMMON, actor_width=16, critic_width=16, action_repeat=1, **own),
        {"a": CONTROL},
    ),
}


@needs_gpu
@pytest.mark.parametrize("name", AGENTS)
def test_a_recorded_update_learns_what_the_eager_one_does_across_interventions(name: str) -> None:
    agents = [AGENTS[name](capture=capture) for capture in (True, False)]
    for agent in agents:
        steps = vectors(D, rows=2)
        agent.begin_episodes(next(steps).obs)
        for applied in ("fire", "injection", "reset"):
            live(agent, steps, 20)
            apply(agent, applied)
    assert agents[0].captured._graphs
    for learner, other in zip(*(agent.learners.values() for agent in agents), strict=True):
        for ours, theirs in zip(learner.module.parameters(), other.module.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
