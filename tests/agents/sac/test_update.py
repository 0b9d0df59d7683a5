"""One update of SAC against formulas written out here, eager and compiled, across interventions."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.agents.sac.agent import SAC
from supple.agents.sac.inputs import Control
from supple.agents.sac.update import Transitions
from supple.engine.compile import can_compile
from tests.agents.sac.test_networks import Plain
from tests.agents.sac.worlds import agent_with
from tests.agents.states import apply, learners_of

pytestmark = pytest.mark.slow

D, A, N = 4, 2, 32
GAMMA, TAU, START = 0.9, 0.05, 0.2
ADAM: dict[str, Any] = {"lr": 3e-3, "betas": (0.8, 0.99), "eps": 1e-5}
DECAY = 0.1


def new(**changes: Any) -> SAC:
    values = {
        "batch_size": N, "gamma": GAMMA, "tau": TAU, "temperature": START, "weight_decay": DECAY,
        "learning_rate": ADAM["lr"], "adam_betas": ADAM["betas"], "adam_epsilon": ADAM["eps"],
    }  # fmt: skip
    return agent_with(Control(D, (-1.0,) * A, (1.0,) * A), **{**values, **changes})


def batches(dtype: torch.dtype) -> Iterator[tuple[Transitions, Tensor]]:
    g = torch.Generator().manual_seed(0)
    while True:
        states, next_states = torch.randn(2, N, D, generator=g, dtype=dtype)
        actions = torch.rand(N, A, generator=g, dtype=dtype) * 2 - 1
        discounts = GAMMA * (torch.rand(N, generator=g) < 0.7).to(dtype)
        rewards, noise = torch.randn(N, generator=g, dtype=dtype), torch.randn(N, 2, A, generator=g, dtype=dtype)
        yield Transitions(states, actions, rewards, discounts, next_states), noise


# -- the same, written out ---------------------------------------------------------------------------------


class Critic(Plain):
    """One critic, a network of its own."""

    def __init__(self) -> None:
        super().__init__(D + A, 8, 1, 1)

    def forward(self, states: Tensor, actions: Tensor) -> Tensor:
        return super().forward(torch.cat([states, actions], 1)).squeeze(1)


class Peer:
    """SAC with separate critics and PyTorch's AdamW, step by step."""

    def __init__(self, agent: SAC) -> None:
        self.actor = copy.deepcopy(agent.actor)
        self.critics, self.targets = ([Critic().double(), Critic().double()] for _ in range(2))
        for networks, stack in ((self.critics, agent.critics), (self.targets, agent.target)):
            for member, network in enumerate(networks):
                values = {k.removeprefix("net.").removeprefix("body."): v for k, v in stack.state_dict().items()}
                network.load_state_dict({name: value[member] for name, value in values.items()})
        self.log_alpha = nn.Parameter(agent.temperature.log_alpha.detach().clone())
        self.of_actor = torch.optim.AdamW(self.actor.parameters(), weight_decay=DECAY, **ADAM)
        parameters = [p for critic in self.critics for p in critic.parameters()]
        self.of_critics = torch.optim.AdamW(parameters, weight_decay=DECAY, **ADAM)
        self.of_alpha = torch.optim.Adam([self.log_alpha], **ADAM)

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
            y = batch.rewards + batch.discounts * (values - self.log_alpha.exp() * log_probs)
        found = torch.stack([critic(batch.states, batch.actions) for critic in self.critics])
        critic_loss = (found - y).square().mean(1).sum()
        self.of_critics.zero_grad()
        critic_loss.backward()
        self.of_critics.step()

        with torch.no_grad():
            for critic, target in zip(self.critics, self.targets, strict=True):
                for ours, theirs in zip(critic.parameters(), target.parameters(), strict=True):
                    theirs.copy_((1 - TAU) * theirs + TAU * ours)
        return [float(v.detach()) for v in (actor_loss, critic_loss, entropy, found.mean(), self.log_alpha.exp())]

    def parameters(self) -> list[Tensor]:
        """Return the parameters in the order of the agent's learners, with those of critics as stacks."""
        critics, targets = (
            [torch.stack(parts) for parts in zip(*(network.parameters() for network in networks), strict=True)]
            for networks in (self.critics, self.targets)
        )
        return [*self.actor.parameters(), *critics, *targets, self.log_alpha]


def parameters(agent: SAC) -> list[Tensor]:
    learners = learners_of(agent).values()
    return [p for learner in learners for module in (learner.module, *learner.followers) for p in module.parameters()]


def test_updates_are_those_of_separate_critics_with_adamw_written_out() -> None:
    """In double precision: gradients that are zero but for rounding have no sign, which Adam would make a step of."""
    agent = new()
    for module in (agent.actor, agent.critics, agent.target, agent.temperature):
        module.double()
    for parameter in agent.target.parameters():
        parameter.data.mul_(0.9)  # a target that differs
    peer, stream, start = Peer(agent), batches(torch.float64), [p.detach().clone() for p in parameters(agent)]
    for _ in range(6):
        batch, noise = next(stream)
        statistics = agent.soft_update(batch, noise).tolist()
        assert statistics == pytest.approx(peer.update(batch, noise), rel=1e-8)
        torch.testing.assert_close(parameters(agent), peer.parameters(), rtol=1e-8, atol=1e-8)
    moved = [float((a - b).abs().max().detach()) for a, b in zip(start, parameters(agent), strict=True)]
    assert min(moved) > 1e-3  # or their equality would say nothing


@pytest.mark.skipif(not can_compile(), reason="torch.compile does not work here")
def test_compiled_updates_are_the_eager_ones_across_interventions_and_compiled_once() -> None:
    """Steps of 1e-4, as in the paper: a gradient that is all rounding may step either way. All write in place."""
    eager, compiled = (new(learning_rate=1e-4, adam_betas=(0.9, 0.999), compile=how) for how in ("off", "on"))
    stream = batches(torch.float32)

    def both() -> None:
        for batch in (next(stream), next(stream)):
            found = [agent.soft_update(*batch) for agent in (compiled, eager)]
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(parameters(compiled), parameters(eager), rtol=1e-5, atol=1e-5)

    def places() -> list[int]:
        optimizers = [learner.optimizer for learner in learners_of(compiled).values()]
        slots = [v for optimizer in optimizers for own in optimizer.state.values() for v in own.values()]
        return [tensor.data_ptr() for tensor in (*parameters(compiled), *slots)]

    both()
    held = places()
    for text in ("fire", "snp(noise=0.01)", "reset(what=head)", "reset(toward=fresh)"):
        for agent in (eager, compiled):
            apply(agent, text)
        with torch.compiler.set_stance("fail_on_recompile"):
            both()
    assert places() == held
