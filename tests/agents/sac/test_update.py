"""One update of SAC against formulas written out here, eager and compiled, across interventions."""

import contextlib
import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.sac import SACSettings
from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.agents.sac.update import STATISTICS, SoftUpdate, Transitions, freeze
from supple.engine.compile import can_compile
from supple.engine.hooks.driver import HookDriver
from supple.interventions import Hook, Intervention, Learner, make
from tests.agents.sac.test_networks import Plain

D, A, N = 4, 2, 32
GAMMA, TAU, RATE, DECAY, START = 0.9, 0.05, 3e-3, 0.1, 0.2


def agent_with(**changes: Any) -> SAC:
    values: dict[str, Any] = {
        "env": "a", "steps": 1_000, "actor_width": 8, "critic_width": 8, "critic_blocks": 1, "hidden": (8, 8),
        "batch_size": N, "replay_size": 100, "device": "cpu", "compile": "off", "gamma": GAMMA, "tau": TAU,
        "learning_rate": RATE, "weight_decay": DECAY, "temperature": START, **changes,
    }  # fmt: skip
    return SAC(SACSettings(**values), {"a": Control(D, (-1.0,) * A, (1.0,) * A)})


def in_float64(agent: SAC) -> SAC:
    """Gradients that are zero but for rounding have no sign there either, which Adam would make a step of."""
    for module in (agent.actor, agent.critics, agent.target, agent.temperature):
        module.double()
    return agent


def batches(count: int, seed: int = 0) -> Iterator[tuple[Transitions, Tensor]]:
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        states, next_states = torch.randn(2, N, D, generator=g)
        actions = torch.rand(N, A, generator=g) * 2 - 1
        terminated = torch.rand(N, generator=g) < 0.3
        rewards = torch.randn(N, generator=g)
        yield Transitions(states, actions, rewards, terminated, next_states), torch.randn(N, 2, A, generator=g)


# -- the same, written out ---------------------------------------------------------------------------------


class Critic(Plain):
    """One critic, a network of its own."""

    def __init__(self) -> None:
        super().__init__(D + A, 8, 1, 1)

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        return super().forward(torch.cat([states, actions], 1)).squeeze(1)


class Peer:
    """SAC with separate critics and default AdamW, step by step."""

    def __init__(self, agent: SAC) -> None:
        self.actor = copy.deepcopy(agent.actor)
        self.critics, self.targets = ([Critic().double(), Critic().double()] for _ in range(2))
        for networks, stack in ((self.critics, agent.critics), (self.targets, agent.target)):
            for member, network in enumerate(networks):
                values = {k.removeprefix("net.").removeprefix("body."): v for k, v in stack.state_dict().items()}
                network.load_state_dict({name: value[member] for name, value in values.items()})
        self.log_alpha = nn.Parameter(agent.temperature.log_alpha.detach().clone())
        self.of_actor = torch.optim.AdamW(self.actor.parameters(), RATE, weight_decay=DECAY)
        self.of_critics = torch.optim.AdamW([p for c in self.critics for p in c.parameters()], RATE, weight_decay=DECAY)
        self.of_alpha = torch.optim.Adam([self.log_alpha], RATE)

    def policy(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_std = self.actor(states)
        u = mean + log_std.exp() * noise
        log_probs = torch.distributions.Normal(mean, log_std.exp()).log_prob(u) + 2 * u.cosh().log()
        return torch.tanh(u), log_probs.sum(1)  # 1 − tanh² = 1/cosh²

    def update(self, batch: Transitions, noise: Tensor) -> list[float]:
        actions, log_probs = self.policy(batch.states, noise[:, 0])
        values = torch.min(*(critic(batch.states, actions) for critic in self.critics))
        actor_loss = (self.log_alpha.exp().detach() * log_probs - values).mean()
        entropy = -log_probs.mean().detach()
        self.of_actor.zero_grad()
        actor_loss.backward()
        self.of_actor.step()

        self.of_alpha.zero_grad()
        (self.log_alpha.exp() * (entropy + 0.5 * A)).backward()
        self.of_alpha.step()

        with torch.no_grad():
            next_actions, log_probs = self.policy(batch.next_states, noise[:, 1])
            values = torch.min(*(target(batch.next_states, next_actions) for target in self.targets))
            y = batch.rewards + GAMMA * (1 - batch.terminated.double()) * (values - self.log_alpha.exp() * log_probs)
        found = [critic(batch.states, batch.actions) for critic in self.critics]
        critic_loss = sum((((q - y) ** 2).mean() for q in found), torch.zeros(()))
        self.of_critics.zero_grad()
        critic_loss.backward()
        self.of_critics.step()

        with torch.no_grad():
            for critic, target in zip(self.critics, self.targets, strict=True):
                for ours, theirs in zip(critic.parameters(), target.parameters(), strict=True):
                    theirs.copy_((1 - TAU) * theirs + TAU * ours)
        mean = torch.stack(found).mean()
        return [float(v.detach()) for v in (actor_loss, critic_loss, entropy, mean, self.log_alpha.exp())]

    def values(self) -> dict[str, Tensor]:
        """Parameters under the stack's names."""

        def stacked(networks: list[Critic]) -> dict[str, Tensor]:
            named = [dict(network.named_parameters()) for network in networks]
            return {name: torch.stack([each[name].detach() for each in named]) for name in named[0]}

        critics, targets = ({f"{n}.{k}": v for k, v in stacked(x).items()} for n, x in self._pairs())
        actor = {f"actor.{name}": p.detach() for name, p in self.actor.named_parameters()}
        return {**actor, **critics, **targets, "log_alpha": self.log_alpha.detach()}

    def _pairs(self) -> list[tuple[str, list[Critic]]]:
        return [("critic", self.critics), ("target", self.targets)]


def values_of(agent: SAC) -> dict[str, Tensor]:
    found = {f"actor.{name}": p.detach() for name, p in agent.actor.named_parameters()}
    for prefix, network in (("critic", agent.critics), ("target", agent.target)):
        for name, parameter in network.named_parameters():
            found[f"{prefix}.{name.removeprefix('net.').removeprefix('body.')}"] = parameter.detach()
    return {**found, "log_alpha": agent.temperature.log_alpha.detach()}


def assert_close(found: dict[str, Tensor], wanted: dict[str, Tensor], tolerance: float = 1e-5) -> None:
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        torch.testing.assert_close(
            found[name], value, rtol=tolerance, atol=tolerance, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.slow
def test_updates_are_those_of_separate_critics_with_default_adamw_written_out() -> None:
    agent = in_float64(agent_with())
    for parameter in agent.target.parameters():
        parameter.data.mul_(0.9)  # a target that differs
    peer = Peer(agent)
    for batch, noise in batches(6):
        batch = Transitions(*(x.double() if x.is_floating_point() else x for x in batch))
        statistics = agent.soft_update(batch, noise.double()).tolist()
        assert statistics == pytest.approx(peer.update(batch, noise.double()), rel=1e-8), STATISTICS
        assert_close(values_of(agent), peer.values(), 1e-8)
    moved = [
        float((a - b.detach()).abs().max())
        for a, b in zip(agent.learners["critic"].initial.values(), agent.critics.parameters(), strict=True)
    ]
    assert min(moved) > RATE  # or their equality would say nothing


# -- what reaches what -------------------------------------------------------------------------------------


def test_every_part_of_the_update_uses_what_the_part_before_it_made(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = agent_with()
    parts = {"actor": agent.actor, "temperature": agent.temperature, "critic": agent.critics, "target": agent.target}
    before = {name: [p.detach().clone() for p in module.parameters()] for name, module in parts.items()}
    seen: dict[str, list[str]] = {}

    def changed() -> list[str]:
        return [
            name
            for name, module in parts.items()
            if any(not torch.equal(a, b) for a, b in zip(before[name], module.parameters(), strict=True))
        ]

    for loss in ("actor_loss_of", "critic_loss_of"):
        original = getattr(agent.soft_update, loss)

        def watched(*args: Any, original: Any = original, loss: str = loss) -> Any:
            seen[loss] = changed()
            return original(*args)

        monkeypatch.setattr(agent.soft_update, loss, watched)
    agent.soft_update(*next(batches(1)))
    assert seen == {"actor_loss_of": [], "critic_loss_of": ["actor", "temperature"]}
    assert changed() == list(parts)


def test_the_actors_loss_sends_no_gradient_into_critics_nor_the_critics_loss_into_actor_target_or_temperature() -> None:
    agent = agent_with()
    (batch, noise) = next(batches(1))
    modules = agent.actor, agent.critics, agent.target, agent.temperature

    def reached() -> list[bool]:
        found = [any(p.grad is not None for p in module.parameters()) for module in modules]
        for module in modules:
            module.zero_grad(set_to_none=True)
        return found

    with freeze(agent.critics.parameters()):
        agent.soft_update.actor_loss_of(batch.states, noise[:, 0])[0].backward()
    assert reached() == [True, False, False, False]
    agent.soft_update.critic_loss_of(batch, noise[:, 1])[0].backward()
    assert reached() == [False, True, False, False]
    assert all(p.requires_grad for p in agent.critics.parameters())


def test_freezing_leaves_what_was_frozen_before_frozen_also_after_an_error() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False))
    with contextlib.suppress(ZeroDivisionError), freeze(module.parameters()):
        assert not any(p.requires_grad for p in module.parameters())
        _ = 1 / 0
    assert [p.requires_grad for p in module.parameters()] == [True, True, False, False]


def test_weight_decay_reaches_every_parameter_of_actor_and_critics_and_not_the_temperature() -> None:
    """With steps of no gradient, decay is all that moves: θ ← (1 − η·λ)·θ."""
    agent = agent_with()
    learners = [*agent.learners.values(), agent.soft_update.temperature]
    for learner in learners:
        for parameter in learner.module.parameters():
            parameter.data.fill_(1.0)
            parameter.grad = torch.zeros_like(parameter)
        assert learner.optimizer is not None
        learner.optimizer.step()
    for learner, left in zip(learners, (1 - RATE * DECAY, 1 - RATE * DECAY, 1.0), strict=True):
        for name, parameter in learner.module.named_parameters():
            torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, left), msg=name)


def test_terminated_transitions_do_not_bootstrap_and_all_others_do() -> None:
    agent = agent_with()
    batch, noise = next(batches(1))
    error = {}
    for ends in (False, True):
        batch = batch._replace(terminated=torch.full((N,), ends))
        far = batch._replace(next_states=batch.next_states + 3)
        error[ends] = [float(agent.soft_update.critic_loss_of(b, noise[:, 1])[0].detach()) for b in (batch, far)]
    assert error[True][0] == error[True][1]
    assert error[False][0] != error[False][1]
    with torch.no_grad():
        values = agent.critics(batch.states, batch.actions)
        assert error[True][0] == pytest.approx(float((values - batch.rewards).square().mean(1).sum()), rel=1e-5)


@pytest.mark.parametrize(("entropy", "rises"), [(-50.0, True), (50.0, False)])
def test_the_temperature_rises_where_entropy_is_below_its_aim(entropy: float, rises: bool) -> None:
    agent = agent_with(target_entropy=-entropy)  # far above, far below what a new policy has
    before = float(agent.temperature().detach())
    agent.soft_update(*next(batches(1)))
    assert (float(agent.temperature().detach()) > before) == rises


def test_one_critic_alone_is_trained_without_a_minimum() -> None:
    agent = agent_with(critics=1)
    for batch, noise in batches(3):
        assert bool(agent.soft_update(batch, noise).isfinite().all())
    assert agent.critics(batch.states, batch.actions).shape == (1, N)


# -- in place, compiled, with hooks ------------------------------------------------------------------------


def places(agent: SAC) -> list[int]:
    learners = [*agent.learners.values(), agent.soft_update.temperature]
    slots = [v for x in learners for s in x.optimizer.state.values() for v in s.values()]  # type: ignore[union-attr]
    parameters = [p for x in learners for m in (x.module, *x.followers) for p in m.parameters()]
    return [tensor.data_ptr() for tensor in (*parameters, *slots)]


INTERVENTIONS = [("fire", {}), ("snp", {"noise": 0.01}), ("reset", {"what": "head"}), ("reset", {"toward": "fresh"})]


def apply(agent: SAC, name: str, **params: Any) -> None:
    for learner in agent.learners.values():
        intervention = make(name, **params)
        if intervention.concerns(learner):
            intervention.attach(learner)
            assert intervention.apply(learner)


@pytest.mark.slow
@pytest.mark.parametrize("contract", ["uniform", "as_released"])
def test_updates_and_interventions_write_in_place(contract: str) -> None:
    agent = agent_with()
    stream = batches(10)
    agent.soft_update(*next(stream))
    held = places(agent)
    for name, params in INTERVENTIONS:
        apply(agent, name, **params, contract=contract)
        agent.soft_update(*next(stream))
        assert places(agent) == held


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(), reason="torch.compile does not work here")
def test_compiled_updates_are_the_eager_ones_across_interventions_and_compiled_once() -> None:
    """Steps of 1e-4, as in the paper: a gradient that is all rounding may step either way."""
    eager, compiled = (agent_with(learning_rate=1e-4, compile=compile) for compile in ("off", "on"))
    stream = batches(10)

    def both() -> None:
        for batch in (next(stream), next(stream)):
            found = [agent.soft_update(*batch) for agent in (compiled, eager)]
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
        assert_close(values_of(compiled), values_of(eager))

    both()
    held = places(compiled)
    for name, params in INTERVENTIONS:
        for agent in (eager, compiled):
            apply(agent, name, **params)
        with torch.compiler.set_stance("fail_on_recompile"):
            both()
    assert places(compiled) == held


class Counter(Intervention):
    """An intervention that pulls parameters towards 0 and counts its calls."""

    name = "counter"

    def __init__(self) -> None:
        self.calls: list[str] = []

    def penalty(self, learner: Learner) -> Tensor:
        return 1e3 * torch.stack([p.square().sum() for p in learner.module.parameters()]).sum()

    def after_update(self, learner: Learner) -> None:
        self.calls.append(learner.name)


def test_penalties_enter_the_gradient_of_the_learner_they_are_of() -> None:
    agent, plain, counter = agent_with(weight_decay=0.0), agent_with(weight_decay=0.0), Counter()
    hook = replace(Hook("counter", counter, None), learner="critic")
    hooks = HookDriver([hook], agent.learners, lambda **_: None, 1)
    for batch, noise in batches(2):
        agent.soft_update(batch, noise, hooks)
        plain.soft_update(batch, noise)
    assert counter.calls == ["critic", "critic"]
    assert all(torch.equal(a, b) for a, b in zip(agent.actor.parameters(), plain.actor.parameters(), strict=True)) is (
        False
    )  # the critics that the second step of the actor climbs differ
    for name, parameter in agent.critics.named_parameters():
        start = agent.learners["critic"].initial[name]
        if "weight" in name and not torch.equal(start, torch.ones_like(start)):
            shrunk = (parameter.detach().abs() < start.abs()) | (start.abs() < 2 * RATE)
            assert bool(shrunk.all()), name


def test_soft_update_wants_an_actor_with_a_temperature() -> None:
    agent = agent_with()
    lone = replace(agent.learners["actor"], capabilities=())
    with pytest.raises(AssertionError):
        SoftUpdate(lone, agent.learners["critic"], GAMMA, TAU, -1.0, False)
