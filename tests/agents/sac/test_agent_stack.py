"""A stack of SAC agents: each member draws, acts and learns as its run alone."""

from collections.abc import Iterator, Mapping
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
from supple.interventions import Learner, OtherMinibatch
from supple.networks import evaluating
from tests.agents.lives import ENVS, SEEDS, Lives, attached, of_seeds, part, vectors

D, A = 5, 2
KINDS: dict[str, dict[str, Any]] = {
    "simba": {"network": "simba", "target_entropy": -1.0},
    "mlp": {"network": "mlp", "normalization": "layer", "critics": 3, "replay_ratio": 1.5, "priming_updates": 20},
    "spectral": {"network": "mlp", "normalization": "spectral", "critics": 1, "log_std": "clipped"},
    "random": {"network": "mlp", "activation": "rand_smooth_leaky", "normalize_observations": False},
}
kinds = pytest.mark.parametrize("kind", KINDS)


def agent(small: Any, kind: str, *seeds: int, **changes: Any) -> SAC:
    own = {**KINDS[kind], **of_seeds(*seeds), **changes}
    made = small.agent_with(**{"num_envs": ENVS, "learning_starts": 6, **own})
    if len(seeds) == 1:
        torch.manual_seed(made.settings.seed)
    assert isinstance(made, SAC)
    return made


class SACLives(Lives):
    """Lives that also compare the temperature, the last losses and the running statistics."""

    def learners(self, one: SAC) -> Mapping[str, Learner]:
        return one._all_learners()

    def pairs(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        yield from super().pairs()
        for member, one in enumerate(self.alone):
            for name, loss in one.soft_update.latest.items():
                yield f"loss {member} {name}", self.stack.soft_update.latest[name][member], loss

    def compare(self, tolerance: float) -> None:
        super().compare(tolerance)
        for member, one in enumerate(self.alone):
            np.testing.assert_array_equal(
                self.stack.inputs.statistics["all"].mean[member], one.inputs.statistics["all"].mean
            )
            np.testing.assert_array_equal(
                self.stack.inputs.centres["all"].offset[member], one.inputs.centres["all"].offset
            )


def lives_of(small: Any, kind: str, **changes: Any) -> Lives:
    return SACLives(partial(agent, small, kind, **changes), vectors(D))


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
    lives = lives_of(small, kind)
    for what, ours, theirs in lives.pairs():
        assert torch.equal(ours, theirs), what


@pytest.mark.slow
@kinds
def test_a_member_learns_as_alone_in_float64(small: Any, kind: str, in_float64: None) -> None:
    lives = lives_of(small, kind)
    lives.live(28)
    assert lives.stack.experience.taken >= 50
    lives.compare(1e-10)
    lives.compare_numbers(1e-10)


@kinds
def test_first_updates_are_those_alone(small: Any, kind: str) -> None:
    lives = lives_of(small, kind, priming_updates=0, learning_rate=1e-4)
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
        ("random", ("injection@0.4", "reset(toward=fresh)@0.6")),
        ("mlp", ("soft_snp(epsilon=0.01)", "chain(strength=0.1,share=0.1)")),
    ],
)
def test_hooks_do_to_a_member_what_they_do_alone(
    small: Any, kind: str, hooks: tuple[str, ...], in_float64: None
) -> None:
    lives = lives_of(small, kind, replay_ratio=0.5, priming_updates=2)
    lives.live(14, *hooks)
    lives.compare(1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["simba", "random"])
def test_a_stack_continues_from_its_state_bit_for_bit(small: Any, kind: str, tmp_path: Path) -> None:
    hooks = "injection@0.2", "cbp(replacement_rate=0.05,maturity=2)", "soft_snp(epsilon=0.01)"
    whole, resumed = agent(small, kind, *SEEDS), agent(small, kind, *SEEDS)
    drivers, steps = [attached(hooks, one) for one in (whole, resumed)], vectors(D)
    whole.begin_episodes(next(steps).obs)
    for _ in range(8):
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
    for _ in range(5):
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
    lives = lives_of(small, kind)
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
    lives = lives_of(small, kind)
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
        steps = vectors(D)
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
