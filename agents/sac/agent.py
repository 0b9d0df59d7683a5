"""SAC with SimBa networks, as SimBa and the FIRE paper train it (FIRE paper, Table 5).

Haarnoja et al. 2018 (soft actor–critic with a learned temperature), Lee et al. 2025 (SimBa). The update and its
order are in `update`, the networks in `networks`. Observations are normalised by running statistics that are updated
while acting, and the replay memory contains observations that are not normalised, only centred if they are large (see
`Centre`). An episode that is truncated by a time limit or a checkpoint bootstraps from its true last observation.

In a sequence of environments, all tasks share the replay memory, which keeps the transitions of earlier ones until
newer ones take their place or `replay` forgets them. With `--heads environment` a batch may have transitions of several
environments, and each trains the heads of its own; with `--heads one-hot` each is marked with its own (see `inputs`).
There is one temperature. Continual World (Wołczyk et al. 2021) renews memory and optimizers at each task instead:
`--hook "replay(keep=0)@task"` does so with the memory.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from supple.agents.agent import Policy
from supple.agents.draws import Draws, draw, generators, set_states, states_of
from supple.agents.encoders import make_encoder
from supple.agents.offpolicy.experience import Experience, ReplayAgent
from supple.agents.offpolicy.replay import Sample
from supple.agents.offpolicy.update import UpdateGraph
from supple.agents.rates import initial_rate
from supple.agents.stacks import by_member
from supple.engine.hooks.driver import HookDriver
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.envs import StepResult
from supple.interventions import (
    EndlessData,
    EntropyTemperature,
    Injectable,
    LastLoss,
    Layer,
    Learner,
    OtherMinibatch,
    ReleasedCode,
    Units,
    snapshot,
)
from supple.networks import Adam, copy_module_, evaluating, unit_names
from supple.networks.batch_norm import BatchNorm
from supple.networks.distributions import independent_normals

from .bodies import BODIES, Body, MLPBody, Plain, Seeing, he_normal, initialise_, uniform
from .inputs import Control, Inputs
from .networks import Actor, Apart, Critics, NewHead, QNetworks, features_of, layers_of, new_head
from .settings import SACSettings
from .update import STATISTICS, Joint, SoftUpdate, Temperature, Transitions

JOINT: dict[str, Joint] = {"crossq": "critics", "flash": "both"}  # networks with batch normalisation


class SAC(ReplayAgent):
    """The SAC agent. The loop calls act → remember → update."""

    def __init__(self, settings: SACSettings, spaces: Mapping[str, Control]) -> None:
        """Make the networks and an empty replay memory.

        Args:
            settings: The settings.
            spaces: Environment id → its sizes and bounds.

        Raises:
            ValueError: The environments differ in sizes or bounds, or there is not enough memory.
        """
        s = self.settings = settings
        super().__init__(s, s.device)
        self.inputs, self.spaces = Inputs(spaces, s.heads, self.stack, self.device), spaces
        self._environments = self.inputs.keys if s.heads == "environment" else ()  # those with heads of their own
        self._width_in = self.inputs.size - bool(self._environments)  # bodies do not read an environment's number
        self.env = next(iter(spaces))  # of the current task
        self.control = spaces[self.env]
        self.size = len(self.control.low)  # of an action
        self.left: dict[str, int] = {}  # environment, if they have heads → decisions when it was left, for earlier ones
        self.head = s.value_head()
        self.actor, self.critics = self._new_actor().to(self.device), self._new_critics().to(self.device)
        self.target = None if s.network == "crossq" else self._new_target()
        self._networks = nn.ModuleList(filter(None, (self.actor, self.critics, self.target)))
        self.temperature = Temperature(s.temperature, self.stack).to(self.device)
        self.kept: dict[str, Tensor] = {}  # noise of exploration, and the decisions for which it is kept from now on
        if s.noise_repeat > 1:
            self.kept["noise"] = torch.zeros(*self.stack, s.num_envs, self.size)
            self.kept["decisions"] = torch.zeros(*self.stack, 1, 1, dtype=torch.long)
        self.exploration, self.noise = generators(s, "exploration"), generators(s, "action noise")
        self.experience = Experience(s, self.inputs.layout, self.device, STATISTICS, self._prepare)
        self.learners = self._learners()
        actor, critic = self.learners["actor"], self.learners["critic"]
        self.soft_update = SoftUpdate(
            actor, critic, self.head, s.tau, s.target_entropy * self.size, s.compile == "on", s.policy_delay,
            JOINT.get(s.network, ""),
        )  # fmt: skip
        on_gpu = self.device.type == "cuda"
        self.captured = UpdateGraph(self._learn_from, self.activations) if on_gpu and s.capture else None
        self.begin_activations(s, self.actor, self.critics)

    # -- networks and learners -------------------------------------------------------------------------------

    def _new_body(
        self, d_in: int, width: int, blocks: int, draws: torch.Generator, members: int
    ) -> tuple[Body, NewHead]:
        """Return a new body, and what makes its heads."""
        s = self.settings
        of_layer = partial(initialise_, draw=(uniform if s.network == "mlp" else he_normal)(draws))
        units = Units(s.activation, members)
        encoder = make_encoder(self.control.picture, d_in, s.encoder, units, of_layer, draws)
        d_in = d_in if encoder is None else encoder.features
        body: Plain
        if s.network == "mlp":
            body = MLPBody(d_in, s.hidden, s.activation, draws, members, s.normalization)
        else:
            body = BODIES[s.network](d_in, width, blocks, s.activation, draws, members)
        head = new_head(s.network, body.width, members, draws)
        return body if encoder is None else Seeing(encoder, body), head

    def _new_actor(self) -> Actor:
        s = self.settings

        def make(draws: torch.Generator, members: int) -> Actor:
            body, head = self._new_body(self._width_in, s.actor_width, s.actor_blocks, draws, members)
            return Actor(body, head, self.size, s.log_std == "clipped", self._environments)

        return self.draw_network(make)

    def _new_critics(self) -> Critics:
        s, d_in = self.settings, self._width_in + self.size

        def make(draws: torch.Generator, seeds: int) -> Critics:
            networks = max(1, seeds) * s.critics
            each = [0] * s.critics if s.own_network else [networks]
            parts = []
            for members in each:
                body, head = self._new_body(d_in, s.critic_width, s.critic_blocks, draws, members)
                parts.append(QNetworks(body, head, members, self.head.outputs, self._environments, seeds))
            return Critics(Apart(parts) if s.own_network else parts[0])

        return self.draw_network(make)

    def _new_target(self) -> Critics:
        """Return a copy of the critics that follows them. Only batch normalisation is in training mode in it.

        FlashSAC's target normalises a batch by its own statistics."""
        target = self._new_critics().to(self.device).requires_grad_(False).eval()  # see `Learner.followers`
        copy_module_(target, self.critics)
        for part in target.modules():
            if isinstance(part, BatchNorm):
                part.training = part.own = True
        return target

    def _new_adam(self, module: nn.Module, weight_decay: float, networks: int = 1) -> Adam:
        """Return AdamW. networks: those of one seed among the module's."""
        s, on_gpu = self.settings, self.device.type == "cuda"
        rate = initial_rate(s, s.learning_rate, captured=on_gpu and s.capture)
        constants = rate, s.adam_betas, s.adam_epsilon, weight_decay
        return Adam(module.parameters(), *constants, decoupled=True, networks=networks if self.stack else 0)

    def _learners(self) -> dict[str, Learner]:
        draws = generators(self.settings, "interventions on temperature")
        temperature = Learner(
            "temperature", self.temperature, self._new_adam(self.temperature, 0.0), (), (),
            probe=lambda: None, loss=lambda: torch.zeros(()), redraw=dict, **self.randomness(draws),
        )  # fmt: skip
        shared = EndlessData(), ReleasedCode("sac"), EntropyTemperature(temperature)
        actor = self._learner(
            "actor", self.actor, self._new_actor, layers_of(self.actor), SoftUpdate.actor_losses_of, 1, shared,
            features=features_of(self.actor),
            # before tanh, which is invertible, so that divergences are those of the actions
            policy=lambda outputs, _: independent_normals(outputs[0], outputs[1].exp()),
        )  # fmt: skip
        net, more = self.critics.net, (*shared, Injectable("net"), self.experience.window)
        critic = self._learner(
            "critic", self.critics, self._new_critics, layers_of(net, "net."), SoftUpdate.critic_losses_of, 2, more,
            1 if isinstance(net, Apart) else self.settings.critics,
            features=features_of(net, "net."), followers=(self.target,) if self.target else (),
            values=lambda outputs: outputs if self.head.outputs == 1 else self.head.values(outputs),
        )  # fmt: skip
        return {"actor": actor, "critic": critic}

    def _learner(
        self, name: str, module: nn.Module, new: Callable[[], nn.Module], layers: tuple[Layer, ...],
        losses_of: Callable[[SoftUpdate, Transitions, Tensor], tuple[Tensor, Tensor]], read: int,
        capabilities: tuple[object, ...], networks: int = 1, **own: Any,
    ) -> Learner:  # fmt: skip
        """Return the learner of actor or critics, which read so many of the first tensors of `Transitions`."""
        experience, draws = self.experience, generators(self.settings, f"interventions on {name}")

        def losses(seen: tuple[Transitions, Tensor]) -> Tensor:
            """Return the loss of each network on each row, (networks, n), with all networks in evaluation mode."""
            with evaluating(self._networks):
                each = losses_of(self.soft_update, *seen)[0]
            return each.flatten(0, 1) if each.ndim == 3 else each

        def probe_loss() -> Tensor:
            with evaluating(nn.ModuleList(part for part in self._networks if part is not module)):
                return losses_of(self.soft_update, *experience.require_recent())[0].mean(-1).sum(-1).sum()

        another = OtherMinibatch(lambda: (seen := experience.another(draws)) and seen[0][:read])
        return Learner(
            name, module, self._new_adam(module, self.settings.weight_decay, networks), layers, unit_names(module),
            probe=lambda: (recent := experience.recent()) and recent[0][:read], loss=probe_loss,
            redraw=lambda: snapshot(new()), batches=experience.batches(losses, draws),
            capabilities=(*capabilities, another, LastLoss(lambda: self.soft_update.latest[name])),
            networks=networks, **self.randomness(draws), **own,
        )  # fmt: skip

    def _prepare(self, sample: Sample, draws: Draws) -> tuple[Transitions, Tensor]:
        """Return the transitions of a sample, and noise for the actions in their states."""
        return self._transitions(sample), self._action_noise(sample.rewards.shape[-1], draws)

    def _action_noise(self, rows: int, draws: Draws) -> Tensor:
        """Draw noise for two actions per row, in s and in s′, (*stack, rows, 2, actions)."""
        return draw(torch.randn, (rows, 2, self.size), draws).to(self.device)

    # -- interaction ---------------------------------------------------------------------------------------

    def begin_task(self, env: str) -> None:
        """Act in this environment from now on, with its statistics and heads if there are several of them.

        All tasks share the rest of the networks and the replay memory, which keeps the transitions of earlier ones."""
        if self.inputs.several and env != self.env:
            self.left[self.env] = self.experience.decisions
            self.left.pop(env, None)
            self.inputs.key = env
        self.env = env

    def _resting(self) -> frozenset[str]:
        """Return the environments of which the memory has no transitions, if they have heads of their own.

        It has none of those that were not seen yet, or that were left before it was emptied or, unless it is a
        reservoir, so long ago that it is full since then."""
        oldest = self.experience.oldest
        return frozenset(self._environments) - {self.env} - {env for env, left in self.left.items() if left > oldest}

    def begin_episodes(self, observations: NDArray[Any]) -> None:
        """Begin episodes: all environments were reset to these observations, (rows, d)."""
        if self.inputs.centre.known:  # else the first step decides how they are stored
            self.experience.begin(self.inputs.stored(observations))
        self.current = observations

    def act(self) -> NDArray[np.float32]:
        """Return an action for each current observation, (rows, a), within the environment's bounds."""
        s = self.settings
        self.soft_update.resting = self._resting()
        if s.normalize_observations:
            self.inputs.observe(self.current)
        shape = (s.num_envs, self.size)
        if self.experience.decisions < s.first_decisions:
            actions = draw(torch.rand, shape, self.exploration).mul_(2).sub_(1)
            self.actions: NDArray[np.float32] = actions.view(-1, self.size).numpy()
        else:
            self.actions = self.choose(self.current, self._exploration_noise(shape))
        return self.to_bounds(self.actions)

    def _exploration_noise(self, shape: tuple[int, int]) -> Tensor:
        """Return the noise of an action in each environment, (*stack, n, actions), new or kept from before."""
        noise = draw(torch.randn, shape, self.exploration)
        if self.settings.noise_repeat > 1:
            shares = torch.arange(1.0, self.settings.noise_repeat + 1).pow(-2).cumsum(0)
            spans = torch.searchsorted(shares, draw(torch.rand, (1, 1), self.exploration) * shares[-1])
            over = self.kept["decisions"] == 0
            self.kept = {
                "noise": noise.where(over, self.kept["noise"]),
                "decisions": (1 + spans).where(over, self.kept["decisions"]) - 1,
            }
        return self.kept["noise"] if self.kept else noise

    @torch.no_grad()
    def choose(
        self, observations: np.ndarray, noise: Tensor | None = None, env: str | None = None
    ) -> NDArray[np.float32]:
        """Return actions in [−1, 1], (rows, a), for observations (rows, d) of an environment, by default the current.

        They are the mean actions if `noise`, (*stack, n, a), is None."""
        mean, log_std = self.actor(self.inputs.of(observations, env or self.env))
        before = mean if noise is None else mean + log_std.exp() * noise.to(self.device)  # as in `sample`
        return torch.tanh(before).view(-1, self.size).cpu().numpy()

    def to_bounds(self, actions: NDArray[np.float32], env: str | None = None) -> NDArray[np.float32]:
        """Scale actions from [−1, 1] to an environment's bounds, and clip them against rounding errors."""
        control = self.spaces[env or self.env]
        low, high = (np.asarray(bound, np.float32) for bound in (control.low, control.high))
        return np.minimum(np.maximum(low + 0.5 * (actions + 1.0) * (high - low), low), high)

    def remember(self, result: StepResult) -> None:
        """Store the result of the actions that `act` returned."""
        if not self.inputs.centre.known:
            self.inputs.centre.begin(by_member(result.final_obs, self.stack))
            self.experience.begin(self.inputs.stored(self.current))
        self.experience.add(self.actions, result.reward, self.inputs.stored_result(result))
        self.current = result.obs

    @contextmanager
    def greedy(self, env: str) -> Iterator[Policy]:
        """Yield the policy for evaluations: the mean action for raw observations, (rows, d) → (rows, a).

        The statistics are frozen, and the actor is in evaluation mode inside the context."""
        with evaluating(self.actor):
            yield lambda observations: self.to_bounds(self.choose(observations, env=env), env)

    def _transitions(self, sample: Sample) -> Transitions:
        states, next_states = self.inputs.of_frames(sample.frames)
        return Transitions(states, sample.actions, sample.rewards, sample.discounts, next_states)

    # -- learning ------------------------------------------------------------------------------------------

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Make the gradient steps that the replay ratio requires. The agent can be saved after every call."""
        for sample in self.experience.due():
            noise = self._action_noise(sample.rewards.shape[-1], self.noise)
            if self.captured and not (hooks.penalizes or hooks.follows_updates):
                changes = sum(len(learner.changes) for learner in self.learners.values())
                phase = self.experience.taken % self.settings.policy_delay  # which of the updates are the actor's
                self.captured(*sample, noise, structure=hash((changes, self.soft_update.resting)), phase=phase)
            else:
                self._learn_from(*sample, noise, hooks=hooks)
        return True

    def _learn_from(
        self, frames: Tensor, actions: Tensor, rewards: Tensor, discounts: Tensor, noise: Tensor,
        hooks: HookDriver | None = None,
    ) -> None:  # fmt: skip
        """Make one gradient step on each batch in the sample, in order, without synchronising with the GPU."""
        tensors = (*self._transitions(Sample(frames, actions, rewards, discounts)), noise)
        axis = len(self.stack)
        batches = [*zip(*(tensor.split(self.settings.batch_size, axis) for tensor in tensors), strict=True)]
        for number, batch in enumerate(batches, self.experience.taken - len(batches)):
            if self.stack:  # one layout, and so one compiled update, however many batches there are
                batch = tuple(tensor.contiguous() for tensor in batch)
            self.experience.sums += self.soft_update(Transitions(*batch[:-1]), batch[-1], hooks, number)

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "learners": {name: learner_state(learner) for name, learner in self._all_learners().items()},
            **self.inputs.state_dict(),
            "experience": self.experience.state_dict(),
            "generators": {name: states_of(draws) for name, draws in self._generators().items()},
            **({"env": self.env, "left": dict(self.left)} if self.inputs.several else {}),
            **({"kept noise": self.kept} if self.kept else {}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, learner in self._all_learners().items():
            load_learner_state(learner, state["learners"][name])
        self.inputs.load_state_dict(state)
        if self.settings.normalize_observations:
            self.inputs.refresh(*self.inputs.keys)
        if self.inputs.several:
            self.env = self.inputs.key = state["env"]
            self.left = dict(state["left"])
        self.kept = dict(state["kept noise"]) if self.kept else {}
        self.experience.load_state_dict(state["experience"])
        for name, draws in self._generators().items():
            set_states(draws, state["generators"][name])

    def _all_learners(self) -> dict[str, Learner]:
        return {**self.learners, "temperature": self.soft_update.temperature}

    def _generators(self) -> dict[str, Draws]:
        return {"exploration": self.exploration, "noise": self.noise, **super()._generators()}
