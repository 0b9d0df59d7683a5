"""The update of SAC (Haarnoja et al. 2018b) in SimBa's order: actor, temperature, critics, target.

    actor        E[α·log π(a|s) − min Q(s, a)],  a ~ π(·|s)
    temperature  α·(H − H̄),  H = −E[log π(a|s)] as the actor had it before its step, α = exp(log α)
    critics      Σ_i E[(Q_i(s, a) − y)²],  y = r + γ·(1 − terminated)·(min Q⁻(s′, a′) − α·log π(a′|s′)),  a′ ~ π(·|s′)
    target       Q⁻ ← (1 − τ)·Q⁻ + τ·Q

The critics use the actor and the temperature that were just updated. In Haarnoja et al., the temperature's gradient
with respect to log α lacks the factor α. SimBa's released code has it, and so has this one. Python reads no value, and
everything is written in place, so that the update can be compiled or recorded as a CUDA graph.

In a stack of agents, all tensors have the members as their first axis, and each member has its own losses, critics and
temperature. The shape `stack` is (members,) then, and () for one agent.

With a head for each environment, a batch may have transitions of several. A head without any in the memory rests: its
gradient would be zero, but Adam's momentum and the weight decay would move it.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from supple.agents.offpolicy.update import differentiate, take_step
from supple.engine.compile import compile_step
from supple.engine.hooks.driver import HookDriver
from supple.interventions import EntropyTemperature, Learner
from supple.networks.activations import is_random
from supple.networks.unit_vectors import projected
from supple.networks.value_heads import ValueHead

from .networks import Actor

STATISTICS = ("loss/actor", "loss/critic", "policy/entropy", "q/mean", "temperature")

Joint = Literal["", "critics", "both"]  # the networks for which states and next states are one batch


class Temperature(nn.Module):
    """The temperature α = exp(log α), the weight of the policy's entropy, (*stack,)."""

    def __init__(self, start: float, stack: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(start).log().expand(stack).clone())

    def forward(self) -> Tensor:
        return self.log_alpha.exp()


class Transitions(NamedTuple):
    """A batch with normalised observations, whose last numbers may say the environment (see `inputs`).

    Shapes: states and next_states (*stack, n, d), actions (*stack, n, a), rewards and discounts (*stack, n). Discounts
    are γ, with --n-step γᵐ, or 0 after a termination."""

    states: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    next_states: Tensor


def _trainable(module: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


class SoftUpdate:
    """One gradient step of actor, temperature and critics, and the update of the target.

    Args:
        actor: The actor's learner, which offers the temperature.
        critics: The critics' learner, whose follower is the target; without one, the critics are their own.
        head: What the critics' outputs say about the return.
        tau: The rate at which the target moves towards the critics, in [0, 1].
        target_entropy: The target H̄ of the entropy, in nats.
        compiled: Compute losses and gradients by torch.compile, with forward and backward pass in one graph. With two
            graphs, ReLU would save a boolean mask, which is slow to write (the update of a 2 × 256 MLP took twice as
            long). In-place changes by interventions take effect as in eager mode. A stack with random activations is
            not compiled, because each member draws from its own generator.
        delay: Actor and temperature take a step at each of so many updates.
        joint: The networks for which states and next states are one batch: none, the critics, or the actor as well.
    """

    def __init__(
        self, actor: Learner, critics: Learner, head: ValueHead, tau: float, target_entropy: float,
        compiled: bool, delay: int = 1, joint: Joint = "",
    ) -> None:  # fmt: skip
        temperature = actor.offers(EntropyTemperature)
        assert temperature is not None
        assert isinstance(actor.module, Actor)
        self.actor, self.critics, self.temperature, self.policy = actor, critics, temperature.learner, actor.module
        self.target = critics.followers[0] if critics.followers else None
        self.stack: tuple[int, ...] = (actor.seeds,) if actor.seeds else ()
        self.head, self.tau, self.target_entropy = head, tau, target_entropy
        self.delay, self.joint = delay, joint
        self.latest: dict[str, Tensor] = {}  # losses of the last update without penalties, (*stack,), by learner
        self.resting: frozenset[str] = frozenset()  # environments whose heads stay as they are, without data for them
        self.prepared: tuple[int, frozenset[str]] | None = None  # changes, and what rested
        self.log_alpha = list(temperature.learner.module.parameters())
        # One graph for each loss of each agent, and for each architecture that it has in the course of the run.
        self.compiled = compile_step(differentiate) if compiled else differentiate

    def __call__(self, batch: Transitions, noise: Tensor, hooks: HookDriver | None = None, number: int = 0) -> Tensor:
        """Make the step and return the statistics that STATISTICS names, (*stack, 5).

        Those of the actor are 0 if it takes no step, and `delay` times as large otherwise: their mean is right.

        Args:
            batch: The transitions, n rows.
            noise: Standard normal numbers for a ~ π(·|s) and a′ ~ π(·|s′), (*stack, n, 2, actions).
            hooks: Act on the actor and the critics at their updates.
            number: The number of the update, from 0 on.
        """
        self._prepare()
        critics = self.trained[1]
        if number % self.delay == 0:
            actor_loss, entropy = self._improve_policy(batch, noise, hooks)
        critic_loss, value, gradients = self.differentiate(self.critic_loss_of, critics, batch, noise)
        self.latest["critic"] = critic_loss
        self._step(self.critics, critics, gradients, hooks)
        with torch.no_grad():
            if self.target is not None:
                torch._foreach_lerp_(*self.averaged, self.tau)
            for theirs, ours in self.copied:
                theirs.copy_(ours)  # the singular vectors of spectral normalisation, which suit similar weights too
            if number % self.delay:
                actor_loss = entropy = torch.zeros_like(critic_loss)
            elif self.delay > 1:
                actor_loss, entropy = actor_loss * self.delay, entropy * self.delay
            return torch.stack([actor_loss, critic_loss, entropy, value, self.temperature.module()], -1)

    def _improve_policy(self, batch: Transitions, noise: Tensor, hooks: HookDriver | None) -> tuple[Tensor, Tensor]:
        """Make a step of actor and temperature, and return the actor's loss and its entropy before, (*stack,) each."""
        policy, critics = self.trained
        for parameter in critics:  # spectral and batch normalisation store statistics only where they are trained
            parameter.requires_grad_(False)
        loss, entropy, gradients = self.differentiate(self.actor_loss_of, policy, batch, noise)
        for parameter in critics:
            parameter.requires_grad_()
        self.latest["actor"] = loss
        self._step(self.actor, policy, gradients, hooks)
        with torch.no_grad():  # α·(H − H̄) is its own derivative with respect to log α
            gradient = self.temperature.module() * (entropy - self.target_entropy)
        take_step(self.temperature, self.log_alpha, [gradient])
        return loss, entropy

    def _prepare(self) -> None:
        """Look at the networks anew if an intervention has changed an architecture, or other heads rest."""
        state = len(self.actor.changes) + len(self.critics.changes), self.resting
        if self.prepared == state:
            return
        critics, self.prepared = self.critics.module, state
        self.trained = _trainable(self.policy), _trainable(critics)
        self.projected = {"actor": projected(self.policy), "critic": projected(critics)}
        self.averaged: tuple[list[Tensor], list[Tensor]] = ([], [])
        self.copied: list[tuple[Tensor, Tensor]] = []
        if self.target is not None:
            self.averaged = list(self.target.parameters()), list(critics.parameters())
            self.copied = list(zip(self.target.buffers(), critics.buffers(), strict=True)) if not self.joint else []
        random = bool(self.stack) and (is_random(self.policy) or is_random(critics))
        self.differentiate = differentiate if random else self.compiled
        named = [*self.policy.named_parameters(), *critics.named_parameters()]
        self.idle = {p for name, p in named if any(f".{env}." in name for env in self.resting)}  # of heads that rest

    def _step(
        self, learner: Learner, parameters: list[nn.Parameter], gradients: Sequence[Tensor], hooks: HookDriver | None
    ) -> None:
        resting = [None if p in self.idle else g for p, g in zip(parameters, gradients, strict=True)]
        take_step(learner, parameters, resting, hooks, projected=self.projected[learner.name])

    def actor_loss_of(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actor's loss, (*stack,), and the entropy of its actions as a constant, (*stack,)."""
        losses, entropy = self.actor_losses_of(batch, noise)
        return losses.mean(-1), entropy

    def actor_losses_of(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the actor's loss on each state, (*stack, n), and the entropy of its actions, (*stack,)."""
        seen = torch.cat([batch.states, batch.next_states], -2) if self.joint == "both" else batch.states
        actions, log_probs = self.policy.sample(seen, noise[..., 0, :])
        values = self.head.values(self._outputs_of(self.critics.module, batch.states, actions)).amin(-2)
        with torch.no_grad():
            alpha = self.temperature.module()
        return alpha[..., None] * log_probs - values, -log_probs.detach().mean(-1)

    def critic_loss_of(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the critics' loss, (*stack,), and their mean value as a constant, (*stack,)."""
        losses, value = self.critic_losses_of(batch, noise)
        return losses.mean(-1).sum(-1), value

    def critic_losses_of(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each critic on each transition, (*stack, critics, n), and their mean value, (*stack,)."""
        rows, states, actions, next_states = batch.rewards.shape[-1], batch.states, batch.actions, batch.next_states
        with torch.no_grad():
            next_actions, log_probs = self.policy.sample(next_states, noise[..., 1, :])
            cost = self.temperature.module()[..., None] * log_probs
            if self.joint:
                states = next_states = torch.cat([states, next_states], -2)
                actions = next_actions = torch.cat([actions, next_actions], -2)
            if self.target is not None:
                after = self._outputs_of(self.target, next_states, next_actions)
        outputs = self._outputs_of(self.critics.module, states, actions)
        with torch.no_grad():
            after = self._smallest((outputs if self.target is None else after)[..., -rows:, :])
            targets = self.head.targets(batch.rewards, batch.discounts, after, cost)
            targets = targets.unsqueeze(len(self.stack))
        outputs = outputs[..., :rows, :]
        targets = targets.expand(*outputs.shape[: len(self.stack) + 1], *targets.shape[len(self.stack) + 1 :])
        return self.head.losses(outputs, targets), self.head.values(outputs.detach()).mean((-2, -1))

    def _smallest(self, outputs: Tensor) -> Tensor:
        """Return the outputs of the critic with the smallest value: (*stack, critics, n, k) → (*stack, n, k)."""
        if self.head.outputs == 1:
            return outputs.amin(-3)
        best = self.head.values(outputs).argmin(-2)[..., None, :, None]
        return outputs.gather(-3, best.expand(*best.shape[:-1], outputs.shape[-1])).squeeze(-3)

    def _outputs_of(self, critics: nn.Module, states: Tensor, actions: Tensor) -> Tensor:
        """Return the outputs of critics, (*stack, critics, n, outputs)."""
        outputs: Tensor = critics(states, actions)
        outputs = outputs.unsqueeze(-1) if self.head.outputs == 1 else outputs
        return outputs.unflatten(0, (*self.stack, -1)) if self.stack else outputs
