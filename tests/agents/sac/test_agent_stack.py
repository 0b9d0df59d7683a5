"""A stack of SAC agents: each member draws, acts and learns as its run alone."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.sac.agent import SAC
from supple.agents.sac.networks import Actor, Critics
from supple.engine.divergence import members_not_finite, return_to_start
from supple.engine.hooks.driver import HookDriver
from supple.engine.storage import checkpoint
from supple.envs import StepResult
from supple.interventions import OtherMinibatch, parse_hook
from supple.networks import evaluating

SEEDS = (3, 0, 7)
ENVS, D, A = 2, 5, 2
KINDS: dict[str, dict[str, Any]] = {
    "simba": {"network": "simba", "target_entropy": -1.0},
    "mlp": {"network": "mlp", "normalization": "layer", "critics": 3, "replay_ratio": 1.5, "priming_updates": 20},
    "spectral": {"network": "mlp", "normalization": "spectral", "critics": 1, "log_std": "clipped"},
    "random": {"network": "mlp", "activation": "rand_smooth_leaky", "normalize_observations": False},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def agent(small: Any, kind: str, *seeds: int, **changes: Any) -> SAC:
    own = {"seed": seeds[0], "seeds": seeds} if len(seeds) > 1 else {"seed": seeds[0]}
    made = small.agent_with(**{"num_envs": ENVS, "learning_starts": 6, **KINDS[kind], **own, **changes})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    assert isinstance(made, SAC)
    return made


def world(seed: int = 0) -> Iterator[StepResult]:
    """Yield steps of the environments of all members, which do not depend on the actions."""
    rng, rows = np.random.default_rng(seed), len(SEEDS) * ENVS
    while True:
        final = rng.normal(size=(rows, D)) + 1_000 * (np.arange(rows) // ENVS)[:, None]  # centred by member
        terminated, truncated = rng.random((2, rows)) < 0.1
        obs = np.where((terminated | truncated)[:, None], final + 1, final)
        yield StepResult(obs, rng.normal(size=rows), terminated, truncated, final, [])


def rows_of(result: StepResult, member: int) -> StepResult:
    rows = slice(member * ENVS, (member + 1) * ENVS)
    return StepResult(*(value[rows] for value in result[:5]), [])


def part(value: Tensor, member: int, like: Tensor) -> Tensor:
    """Return what belongs to a member in a tensor of the stack, (members · networks, …), in the shape of its own."""
    return value.unflatten(0, (len(SEEDS), -1))[member].view(like.shape)


def attached(hooks: Sequence[str], one: SAC) -> HookDriver:
    parsed = [hook for text in hooks if (hook := parse_hook(text)) is not None]
    return HookDriver(parsed, one.learners, lambda **_: None, total=40)


class Lives:
    """A stack and its members alone, in the same environments.

    PyTorch's own generator, from which an agent alone draws for its activations, is that of the agent that acts."""

    def __init__(self, small: Any, kind: str, **changes: Any) -> None:
        self.stack, self.world = agent(small, kind, *SEEDS, **changes), world()
        self.alone = [agent(small, kind, seed, **changes) for seed in SEEDS]
        self.torch = [source.get_state() for source in self.stack.activations]
        first = next(self.world)
        self.stack.begin_episodes(first.obs)
        for member, one in enumerate(self.alone):
            one.begin_episodes(rows_of(first, member).obs)

    def as_member(self, member: int, do: Callable[[], Any]) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.torch[member])
            result = do()
            self.torch[member] = torch.get_rng_state()
        return result

    def live(self, count: int, *hooks: str, tolerance: float = 1e-8) -> None:
        """Act and learn, with hooks that are attached to each agent."""
        driven = [attached(hooks, one) for one in (self.stack, *self.alone)]

        def update(one: SAC, driver: HookDriver) -> None:
            one.update(driver, last=False)
            driver.after_steps(one.experience.decisions - ENVS, one.experience.decisions)

        for _ in range(count):
            result = next(self.world)
            actions = self.stack.act().reshape(-1, ENVS, A)
            self.stack.remember(result)
            update(self.stack, driven[0])
            for member, one in enumerate(self.alone):
                np.testing.assert_allclose(self.as_member(member, one.act), actions[member], rtol=0, atol=tolerance)
                one.remember(rows_of(result, member))
                self.as_member(member, partial(update, one, driven[1 + member]))

    def pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield all tensors of networks and optimizers, and the last losses: those of a member, and its own alone."""
        for member, one in enumerate(self.alone):
            for name, learner in self.stack._all_learners().items():
                own = one._all_learners()[name]
                modules = zip((learner.module, *learner.followers), (own.module, *own.followers), strict=True)
                for module, single in modules:
                    for key, theirs in single.state_dict().items():
                        yield f"{member} {name} {key}", part(module.state_dict()[key], member, theirs), theirs
                for key, theirs in own.module.named_parameters():
                    ours = learner.module.get_parameter(key)
                    if theirs.grad is not None:
                        assert ours.grad is not None
                        yield f"gradient {member} {name} {key}", part(ours.grad, member, theirs), theirs.grad
                    assert learner.optimizer is not None
                    assert own.optimizer is not None
                    for slot, value in own.optimizer.state.get(theirs, {}).items():
                        found = learner.optimizer.state[ours][slot]
                        yield f"{slot} {member} {name} {key}", part(found, member, value), value
            for name, loss in one.soft_update.latest.items():
                yield f"loss {member} {name}", self.stack.soft_update.latest[name][member], loss

    def compare(self, tolerance: float) -> None:
        for what, ours, theirs in self.pairs():
            difference = (ours - theirs).abs().max() / theirs.abs().max().clamp_min(1.0)
            assert float(difference) <= tolerance, what
        for member, one in enumerate(self.alone):
            assert torch.equal(self.stack.activations[member].get_state(), self.torch[member])
            for name, draws in one._generators().items():
                assert torch.equal(self.stack._generators()[name][member].get_state(), draws.get_state()), name
            for name, learner in one._all_learners().items():
                ours = self.stack._all_learners()[name].generators[member]
                assert torch.equal(ours.get_state(), learner.generator.get_state()), name
            np.testing.assert_array_equal(self.stack.statistics.mean[member], one.statistics.mean)
            np.testing.assert_array_equal(self.stack.centre.offset[member], one.centre.offset)

    def compare_numbers(self, tolerance: float) -> None:
        numbers = self.stack.numbers()
        for member, one in enumerate(self.alone):
            own = one.numbers()
            assert own.keys() == numbers.keys()
            for name, value in own.items():
                assert numbers[name][member] == pytest.approx(value, rel=tolerance, abs=tolerance), name


@pytest.fixture
def in_float64(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compute in double precision also where acting and the memory have single precision."""
    actor, critics = Actor.forward, Critics.forward
    monkeypatch.setattr(Actor, "forward", lambda network, x: actor(network, x.double()))
    monkeypatch.setattr(Critics, "forward", lambda network, x, a: critics(network, x.double(), a.double()))
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@kinds
def test_first_weights_are_those_of_the_members_alone(small: Any, kind: str) -> None:
    lives = Lives(small, kind)
    for what, ours, theirs in lives.pairs():
        assert torch.equal(ours, theirs), what


@pytest.mark.slow
@kinds
def test_a_member_learns_as_alone_in_float64(small: Any, kind: str, in_float64: None) -> None:
    lives = Lives(small, kind)
    lives.live(28)
    assert lives.stack.experience.taken >= 50
    lives.compare(1e-10)
    lives.compare_numbers(1e-10)


@kinds
def test_first_updates_are_those_alone(small: Any, kind: str) -> None:
    lives = Lives(small, kind, priming_updates=0, learning_rate=1e-4)
    lives.live(4, tolerance=1e-5)
    assert lives.stack.experience.taken >= 2
    lives.compare(1e-5)
    lives.compare_numbers(1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "hooks"),
    [
        ("simba", ("fire@0.4",)),
        ("simba", ("fire(contract=as_released)@0.4", "reset(what=head,contract=as_released)@0.5")),
        ("mlp", ("snp(noise=0.01)@0.4", "l2_init(strength=0.01)")),
        ("simba", ("redo(tau=0.9)@every:12", "critic/cbp(replacement_rate=0.05,maturity=2)")),
        ("random", ("cbp(replacement_rate=0.05,maturity=2)",)),
        ("random", ("injection@0.4", "reset(toward=fresh)@0.6")),
        ("mlp", ("soft_snp(epsilon=0.01)", "chain(strength=0.1,share=0.1)")),
    ],
)
def test_hooks_do_to_a_member_what_they_do_alone(
    small: Any, kind: str, hooks: tuple[str, ...], in_float64: None
) -> None:
    lives = Lives(small, kind)
    lives.live(16, *hooks)
    lives.compare(1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simba", "random"])
def test_a_stack_continues_from_its_state_bit_for_bit(small: Any, kind: str, tmp_path: Path) -> None:
    hooks = "injection@0.2", "cbp(replacement_rate=0.05,maturity=2)", "soft_snp(epsilon=0.01)"
    whole, resumed = agent(small, kind, *SEEDS), agent(small, kind, *SEEDS)
    drivers, steps = [attached(hooks, one) for one in (whole, resumed)], world()
    whole.begin_episodes(next(steps).obs)
    for _ in range(12):
        live_once(whole, next(steps), drivers[0])
    whole.numbers()
    live_once(whole, next(steps), drivers[0])
    assert whole.learners["critic"].changes
    folder = checkpoint.save(tmp_path, 1, {"agent": whole.state_dict(), "hooks": drivers[0].state_dict()}, "run")
    state = checkpoint.load(folder, "run")
    resumed.load_state_dict(state["agent"])
    drivers[1].load_state_dict(state["hooks"])
    first = next(steps)
    whole.begin_episodes(first.obs)
    resumed.begin_episodes(first.obs)
    for _ in range(8):
        result = next(steps)
        for one, driver in zip((whole, resumed), drivers, strict=True):
            live_once(one, result, driver)
        assert np.array_equal(whole.actions, resumed.actions)
    before, after = small.everything(whole), small.everything(resumed)
    assert small.changed(before, after) == []
    assert whole.numbers() == resumed.numbers()
    with whole.greedy("a") as policy, resumed.greedy("a") as other:
        assert np.array_equal(policy(first.obs), other(first.obs))


def live_once(one: SAC, result: StepResult, hooks: HookDriver) -> None:
    one.act()
    one.remember(result)
    one.update(hooks, last=False)
    hooks.after_steps(one.experience.decisions - ENVS, one.experience.decisions)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mlp", "random"])
def test_evaluation_policies_and_measured_losses_are_those_alone(small: Any, kind: str, in_float64: None) -> None:
    lives = Lives(small, kind)
    lives.live(10)
    rows = np.concatenate([next(lives.world).obs[::ENVS] for _ in range(3)]).reshape(3, len(SEEDS), D).swapaxes(0, 1)
    with lives.stack.greedy("a") as policy:
        chosen = policy(rows.reshape(-1, D)).reshape(len(SEEDS), 3, A)
    for name, learner in lives.stack.learners.items():
        losses, another = list(learner.batches(2)), learner.offers(OtherMinibatch).inputs()
        assert {loss.shape for loss in losses} == {(learner.members, lives.stack.settings.batch_size)}
        total = 0.0
        for member, one in enumerate(lives.alone):
            with one.greedy("a") as policy:
                np.testing.assert_allclose(policy(rows[member]), chosen[member], rtol=0, atol=1e-8)
            own = one.learners[name]
            for ours, theirs in zip(losses, own.batches(2), strict=True):
                torch.testing.assert_close(part(ours, member, theirs), theirs, rtol=1e-10, atol=1e-10)
            for ours, theirs in zip(another, own.offers(OtherMinibatch).inputs(), strict=True):
                assert torch.equal(ours[member], theirs)
            for ours, theirs in zip(learner.probe(), own.probe(), strict=True):
                assert torch.equal(ours[member], theirs)
            with evaluating(one.actor), evaluating(one.critics):
                total += float(own.loss().detach())
        with evaluating(lives.stack.actor), evaluating(lives.stack.critics):
            assert float(learner.loss().detach()) == pytest.approx(total, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simba", "random"])
def test_redrawn_networks_are_those_alone(small: Any, kind: str) -> None:
    lives = Lives(small, kind)
    for name, learner in lives.stack.learners.items():
        drawn = learner.redraw()
        for member, one in enumerate(lives.alone):
            for key, value in lives.as_member(member, one.learners[name].redraw).items():
                assert torch.equal(part(drawn[key], member, value), value)
    lives.compare(0.0)


@pytest.mark.slow
def test_a_member_that_diverges_leaves_the_others_alone(small: Any) -> None:
    stack, spoiled = (agent(small, "simba", *SEEDS) for _ in range(2))
    for one in (stack, spoiled):
        steps = world()
        one.begin_episodes(next(steps).obs)
        for step in range(14):
            if step == 8 and one is spoiled:
                with torch.no_grad():
                    one.actor.mean.weight[1, 0] = float("nan")
                live_once(one, next(steps), small.no_hooks)
                assert members_not_finite(one.learners) == [1]
                assert one.sound().tolist() == [True, False, True]
                for learner in one.learners.values():
                    return_to_start(learner, [1])
                one.numbers()
            else:
                live_once(one, next(steps), small.no_hooks)
    for name, learner in stack._all_learners().items():
        module = spoiled._all_learners()[name].module
        rows = learner.networks_of([0, 2])
        for key, parameter in learner.module.named_parameters():
            assert torch.equal(parameter[rows], module.get_parameter(key)[rows]), (name, key)
