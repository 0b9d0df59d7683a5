"""A stack of DQN agents: each member draws, acts and learns as its run alone."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.dqn import DQNSettings
from supple.agents.dqn.agent import DQN, Pixels, Vectors
from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult

SEEDS = (3, 0, 7)
ENVS = 2
NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)
IMAGES, VECTORS = Pixels(stack=4, height=36, width=36, actions=3), Vectors(size=5, actions=3)
KINDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vectors": (VECTORS, {"clip_rewards": False}),
    "layer": (VECTORS, {"normalization": "layer", "double_q": True, "loss": "mse", "weight_decay": 0.01}),
    "spectral": (VECTORS, {"normalization": "spectral", "max_grad_norm": 0.1, "initialization": "pytorch"}),
    "random": (VECTORS, {"activation": "rand_smooth_leaky", "double_q": True, "softmax_values": True}),
    "slopes": (VECTORS, {"activation": "prelu(granularity=global)", "target_period": 10, "replay_ratio": 1.5}),
    "images": (IMAGES, {"hidden": 8, "normalization": "layer"}),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def agent(kind: str, *seeds: int, **changes: Any) -> DQN:
    space, own = KINDS[kind]
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "num_envs": ENVS, "widths": (12, 8), "batch_size": 6, "replay_size": 60,
        "learning_starts": 8, "exploration_steps": 40, "exploration": 0.2, "learning_rate": 1e-3, "device": "cpu",
        "priming_updates": 2, "target_period": 14, **own, **changes,
    }  # fmt: skip
    values |= {"seed": seeds[0], "seeds": seeds} if len(seeds) > 1 else {"seed": seeds[0]}
    made = DQN(DQNSettings(**values), {"a": space})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    return made


def steps(kind: str, seed: int = 0) -> Iterator[StepResult]:
    """Yield steps of the environments of all members, which do not depend on the actions."""
    rng, rows = np.random.default_rng(seed), len(SEEDS) * ENVS
    images = np.zeros((rows, 4, 36, 36), np.uint8)
    while True:
        if KINDS[kind][0] is IMAGES:
            newest = rng.integers(0, 256, (rows, 1, 36, 36), np.uint8)
            images = final = np.concatenate([images[:, 1:], newest], 1)
        else:
            final = rng.normal(size=(rows, 5)) + 1_000 * (np.arange(rows) // ENVS)[:, None]  # centred by member
        terminated, truncated = rng.random((2, rows)) < 0.1
        obs = final.copy()
        if KINDS[kind][0] is IMAGES:
            obs[terminated | truncated, :-1] = 0
            images = obs
        yield StepResult(obs, 5 * rng.normal(size=rows), terminated, truncated, final, [])


def part(result: StepResult, member: int) -> StepResult:
    rows = slice(member * ENVS, (member + 1) * ENVS)
    return StepResult(*(value[rows] for value in result[:5]), [])


class Lives:
    """A stack and its members alone, in the same environments.

    PyTorch's own generator, from which an agent alone draws for its activations, is that of the agent that acts."""

    def __init__(self, kind: str, **changes: Any) -> None:
        self.stack, self.world = agent(kind, *SEEDS, **changes), steps(kind)
        self.alone = [agent(kind, seed, **changes) for seed in SEEDS]
        self.torch = [source.get_state() for source in self.stack.activations]
        first = next(self.world)
        self.stack.begin_episodes(first.obs)
        for member, one in enumerate(self.alone):
            one.begin_episodes(part(first, member).obs)

    def as_member(self, member: int, do: Callable[[], Any]) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.torch[member])
            result = do()
            self.torch[member] = torch.get_rng_state()
        return result

    def live(self, count: int, hooks: HookDriver = NO_HOOKS) -> None:
        for _ in range(count):
            result = next(self.world)
            actions = self.stack.act().reshape(-1, ENVS)
            self.stack.remember(result)
            self.stack.update(hooks, last=False)
            for member, one in enumerate(self.alone):
                assert np.array_equal(self.as_member(member, one.act), actions[member])
                one.remember(part(result, member))
                self.as_member(member, lambda one=one: one.update(hooks, last=False))

    def pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield parameters, buffers, gradients and slots of the networks: those of a member, and its own alone."""
        for member, one in enumerate(self.alone):
            for module, own in ((self.stack.network, one.network), (self.stack.target, one.target)):
                for (name, ours), theirs in zip(module.state_dict().items(), own.state_dict().values(), strict=True):
                    yield f"{member} {name}", ours[member], theirs
            pairs = zip(self.stack.network.named_parameters(), one.network.parameters(), strict=True)
            for (name, ours), theirs in pairs:
                if theirs.grad is not None:
                    yield f"gradient {member} {name}", ours.grad[member], theirs.grad
                for slot, value in one.optimizer.state.get(theirs, {}).items():
                    yield f"{slot} {member} {name}", self.stack.optimizer.state[ours][slot][member], value

    def compare(self, tolerance: float) -> None:
        for what, ours, theirs in self.pairs():
            difference = (ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0)
            assert float(difference) <= tolerance, what
        for ours, theirs in zip(self.stack.activations, self.torch, strict=True):
            assert torch.equal(ours.get_state(), theirs)

    def compare_numbers(self, tolerance: float) -> None:
        numbers = self.stack.numbers()
        for member, one in enumerate(self.alone):
            own = one.numbers()
            assert own.keys() == numbers.keys()
            for name, value in own.items():
                assert numbers[name][member] == pytest.approx(value, rel=tolerance, abs=tolerance), name


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@kinds
def test_first_weights_are_those_of_the_members_alone(kind: str) -> None:
    lives = Lives(kind)
    for what, ours, theirs in lives.pairs():
        assert torch.equal(ours, theirs), what


@pytest.mark.slow
@kinds
def test_a_member_learns_as_alone_in_float64(kind: str, in_float64: None) -> None:
    lives = Lives(kind)
    lives.live(33)
    assert lives.stack.experience.taken >= 50
    lives.compare(1e-10)
    lives.compare_numbers(1e-10)


@kinds
def test_first_updates_are_those_alone(kind: str) -> None:
    lives = Lives(kind)
    lives.live(5)
    assert lives.stack.experience.taken >= 4
    lives.compare(1e-5)
    lives.compare_numbers(1e-5)
