"""DQN on images, as the FIRE paper trains it (Table 4, Appendix E.3), and on vectors.

    L = Huber(Q(s, a) − [sign(r) + γ·(1 − terminated)·max Q⁻(s′)]),   Q⁻ := Q every `target_period` steps

(Mnih et al. 2015.) With `double_q` the online network chooses the action at s′: Q⁻(s′, argmax Q(s′)) (van Hasselt et
al. 2016, arXiv 1509.06461, Equation 4). With another `critic_head` than `mse`, the network learns the distribution of
the return of each action, of which Q is the expectation: C51, HL-Gauss, QR-DQN (see `networks.value_heads`). Replay is
uniform by default. If an episode is truncated by a time limit or a checkpoint, its last transition bootstraps from the
true last observation.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from supple.agents.agent import Policy
from supple.agents.draws import Draws, draw, generators, set_states, states_of
from supple.agents.normalize import Centre
from supple.agents.offpolicy.experience import Experience, ReplayAgent
from supple.agents.offpolicy.replay import Sample
from supple.agents.offpolicy.update import UpdateGraph, differentiate, take_step
from supple.agents.rates import initial_rate
from supple.agents.spaces import only_space
from supple.agents.stacks import by_member
from supple.engine.compile import compile_step
from supple.engine.hooks.driver import HookDriver
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.engine.work import Numbers
from supple.envs import StepResult
from supple.interventions import EndlessData, Injectable, LastLoss, Learner, OtherMinibatch, ReleasedCode
from supple.networks import Adam, CentredRMSprop, copy_module_, evaluating, unit_names
from supple.networks.activations import is_random
from supple.networks.unchanged import keep_states

from .network import Sizes, ValueNetwork
from .settings import DQNSettings

STATISTICS = ("loss/td", "q/mean")


class DQN(ReplayAgent):
    """The DQN agent, or a stack of them. The loop calls act → remember → update."""

    def __init__(self, settings: DQNSettings, spaces: Mapping[str, Sizes]) -> None:
        """Make the network, its target and an empty replay memory.

        Args:
            settings: The settings.
            spaces: Environment id → its sizes.

        Raises:
            ValueError: The environments differ in their sizes, or there is not enough memory.
        """
        s = self.settings = settings
        self.space, self.head = only_space("DQN", spaces), s.value_head(huber=s.loss == "huber")
        super().__init__(s, s.device)
        self.network = self._new_network().to(self.device)
        self.target = self._new_network().to(self.device).requires_grad_(False).eval()
        copy_module_(self.target, self.network)
        self.exploration = generators(s, "exploration")
        self.experience = Experience(s, self.space.layout, self.device, STATISTICS, lambda sample, draws: sample)
        learn = UpdateGraph(lambda *sample: self._learn_from(Sample(*sample)), self.activations)
        self.captured = learn if self.device.type == "cuda" and s.capture else None
        self.centre = Centre(self.space.size, self.stack)
        self.centre.known = self.space.picture is not None  # pixels are not centred
        self._changes = -1  # of the learner when `_prepare` looked last
        self.learner = self._learner()
        self.learners = {"q": self.learner}
        self.begin_activations(s, self.network)

    def _new_network(self) -> ValueNetwork:
        """Return a new network. The members of a stack draw their weights as if alone."""
        s, space = self.settings, self.space
        return self.draw_network(
            lambda draws, members: ValueNetwork(
                space.size, space.layout.actions * self.head.outputs, s.hidden, s.activation, draws, s.normalization,
                s.initialization, s.softmax_values, members, space.picture, s.encoder,
            )
        )  # fmt: skip

    def _learner(self) -> Learner:
        s, stacked = self.settings, bool(self.stack)
        draws, parameters = generators(s, "interventions"), list(self.network.parameters())
        rate = initial_rate(s, s.learning_rate, captured=self.device.type == "cuda" and s.capture)
        optimizer: CentredRMSprop | Adam
        if s.optimizer == "rmsprop":
            options = s.rmsprop_decay, s.rmsprop_epsilon, s.weight_decay, s.rmsprop_momentum
            compiler = compile_step if s.compile == "on" else None
            optimizer = CentredRMSprop(parameters, rate, *options, stacked=stacked, compiler=compiler)
        else:
            optimizer = Adam(parameters, rate, s.adam_betas, s.adam_epsilon, s.weight_decay, networks=int(stacked))

        return Learner(
            "q",
            self.network,
            optimizer,
            self.network.layers(),
            unit_names(self.network),
            probe=lambda: self._states(self.experience.recent()),
            loss=lambda: self.loss_of(self.experience.require_recent())[0].sum(),
            batches=self.experience.batches(self._sample_losses, draws),
            redraw=lambda: {name: p.detach() for name, p in self._new_network().named_parameters()},
            followers=(self.target,),
            policy=lambda outputs, _: self.values_of(outputs).argmax(-1),
            values=self.values_of,
            capabilities=(
                EndlessData(),
                OtherMinibatch(lambda: self._states(self.experience.another(draws))),
                LastLoss(lambda: self._latest),
                Injectable("mlp"),
                ReleasedCode("dqn"),
                self.experience.window,
            ),
            **self.randomness(draws),
        )

    def _states(self, sample: Sample | None) -> tuple[Tensor] | None:
        return None if sample is None else (self.space.split(sample.frames)[0],)

    def _sample_losses(self, sample: Sample) -> Tensor:
        """Return the loss of each transition, (*stack, n), with the network in evaluation mode."""
        with evaluating(self.network):
            return self.losses_of(sample)[0]

    # -- interaction ---------------------------------------------------------------------------------------

    def begin_task(self, env: str) -> None:
        """Do nothing: all tasks share the network and the replay memory."""

    def begin_episodes(self, observations: np.ndarray) -> None:
        """Begin episodes with these observations of all environments, (rows, stack, H, W) or (rows, size)."""
        self.current = self.centre.centre_rows(observations)
        if self.centre.known:  # else the first step decides how they are stored
            self.experience.begin(self.current)

    @property
    def epsilon(self) -> float:
        """The ε of the next action."""
        return self.settings.epsilon_after(self.experience.decisions)

    def act(self) -> NDArray[np.int64]:
        """Return an ε-greedy action for each current observation, (rows,)."""
        self.actions = self.epsilon_greedy(self.current, self.epsilon, self.exploration)
        return self.actions

    @torch.no_grad()
    def epsilon_greedy(self, observations: np.ndarray, epsilon: float, draws: Draws) -> NDArray[np.int64]:
        """Return actions, (rows,), for centred observations (rows, …): random with probability `epsilon`, else greedy.

        Each row is drawn independently, those of a member by its own generator."""
        n = len(observations) // len(self.settings.members)
        actions = draw(partial(torch.randint, self.space.layout.actions), (n,), draws).numpy()
        greedy = draw(torch.rand, (n,), draws).numpy() >= epsilon
        if greedy.any():
            states = torch.from_numpy(by_member(observations, self.stack)).to(self.device, non_blocking=True)
            with keep_states(self._idle_activations(greedy)):
                values = self.values_of(self.network(states)).cpu().numpy()
            actions = np.where(greedy, values.argmax(-1), actions)
        return actions.ravel()

    def _idle_activations(self, greedy: NDArray[np.bool_]) -> list[torch.Generator]:
        """Return the generators of random activations of the members without a greedy row, (members, n).

        The networks of these members run only because others have such a row."""
        self._prepare()
        if not (self.stack and self.random):
            return []
        return [self.activations[member] for member in np.flatnonzero(~greedy.any(-1))]

    def remember(self, result: StepResult) -> None:
        """Store the result of the actions that `act` returned."""
        rewards = np.sign(result.reward) if self.settings.clip_rewards else result.reward
        if not self.centre.known:
            self.centre.begin(by_member(result.final_obs, self.stack))
            self.experience.begin(self.centre.centre_rows(self.current))
        kept = self.centre.centre_result(result)
        self.experience.add(self.actions, rewards, kept)
        self.current = kept.obs

    @contextmanager
    def greedy(self, env: str) -> Iterator[Policy]:
        """Yield the ε-greedy policy for evaluations: actions (rows,) for raw observations (rows, …).

        It has its own generators. The network is in evaluation mode inside the context."""
        epsilon = self.settings.eval_epsilon
        draws = generators(self.settings, f"evaluation {self.experience.decisions}")
        with evaluating(self.network):
            yield lambda rows: self.epsilon_greedy(self.centre.centre_rows(rows), epsilon, draws)

    # -- learning ------------------------------------------------------------------------------------------

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Make the gradient steps that the replay ratio requires. The agent can be saved after every call."""
        s, steps = self.settings, self.experience.decisions
        for sample in self.experience.due():
            if self.captured and not (hooks.penalizes or hooks.follows_updates):
                self.captured(*sample, structure=len(self.learner.changes))
            else:
                self._learn_from(sample, hooks)
        if steps // s.target_period > (steps - s.num_envs) // s.target_period:
            copy_module_(self.target, self.network)
        return True

    def loss_of(self, sample: Sample, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the mean of the losses, (*stack,), and the mean Q(s, a) as a constant."""
        losses, value = self.losses_of(sample, targets)
        return losses.mean(-1), value

    def losses_of(self, sample: Sample, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the loss of each transition, (*stack, n), and the mean Q(s, a).

        `targets`: what `targets_of` returns for the sample, if it is known already."""
        if targets is None:
            targets = self.targets_of(sample)
        states, _ = self.space.split(sample.frames)
        outputs = self._of(sample.actions, self._outputs(self.network, states))
        return self.head.losses(outputs, targets), self.head.values(outputs).detach().mean(-1)

    @torch.no_grad()
    def targets_of(self, sample: Sample) -> Tensor:
        """Return the head's target for r + γ·Z⁻(s′, a′), (*stack, n) or (*stack, n, outputs).

        γ is 0 after a termination. a′ is the best action by the target network, or with double Q by the online network.
        Both are in evaluation mode, so that random activations use their mean slope. Targets then have no noise, and
        measuring the loss does not advance the generator of training."""
        _, after = self.space.split(sample.frames)
        outputs = choosing = self._outputs(self.target, after)
        if self.settings.double_q:
            with evaluating(self.network):
                choosing = self._outputs(self.network, after)
        if choosing is outputs and self.head.outputs == 1:
            best = outputs.amax(-2)  # compiled code reduces faster than it looks up
        else:
            best = self._of(self.head.values(choosing).argmax(-1), outputs)
        return self.head.targets(sample.rewards, sample.discounts, best)

    def values_of(self, outputs: Tensor) -> Tensor:
        """Return the action values, (…, actions), that outputs of a network, (…, actions · outputs), say."""
        return self.head.values(outputs.unflatten(-1, (-1, self.head.outputs)))

    def _outputs(self, network: ValueNetwork, observations: Tensor) -> Tensor:
        """Return a network's outputs in the precision of updates, (*stack, n, actions, outputs) float32."""
        device = observations.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            outputs: Tensor = network(observations)
        return outputs.float().unflatten(-1, (-1, self.head.outputs))

    @staticmethod
    def _of(actions: Tensor, outputs: Tensor) -> Tensor:
        """Return the outputs for one action in each row, (*stack, n, outputs)."""
        return outputs.take_along_dim(actions[..., None, None], -2).squeeze(-2)

    def _learn_from(self, sample: Sample, hooks: HookDriver | None = None) -> None:
        """Make one gradient step on each batch in the sample, in order, without synchronising with the GPU."""
        s, axis = self.settings, len(self.stack)
        self._prepare()
        batches = [*zip(*(tensor.split(s.batch_size, axis) for tensor in sample), strict=True)]
        # The target network is fixed here, so all targets can be computed at once, unless the online network, which
        # changes at every step, chooses the actions.
        once = not (self.compiles or s.double_q)
        targets = self.targets_of(sample).split(s.batch_size, axis) if once else [None] * len(batches)
        for parts, wanted in zip(batches, targets, strict=True):
            batch = Sample(*parts)
            if self.compiles and self.stack:  # one layout, and so one compiled update, however many batches there are
                batch = Sample(*(tensor.contiguous() for tensor in batch))
            self._latest, value, gradients = self.differentiate(self.loss_of, self.trained, batch, wanted)
            self.experience.sums += torch.stack([self._latest, value], -1)
            take_step(self.learner, self.trained, gradients, hooks, s.max_grad_norm)

    def _prepare(self) -> None:
        """Look at the networks anew if an intervention has changed the architecture."""
        if self._changes == (changes := len(self.learner.changes)):
            return
        self._changes, self.random = changes, is_random(self.network)
        self.trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        # compiled code cannot draw from the generators of members
        self.compiles = self.settings.compile == "on" and not (self.stack and self.random)
        self.differentiate = compile_step(differentiate) if self.compiles else differentiate

    def numbers(self) -> Numbers:
        """Return ε, the size of the replay memory, and the means of the statistics since the last call."""
        epsilon = [self.epsilon] * len(self.settings.members) if self.stack else self.epsilon
        return {"exploration/epsilon": epsilon, **super().numbers()}

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            "learner": learner_state(self.learner),
            "experience": self.experience.state_dict(),
            **({} if self.space.picture else {"centre": self.centre.state_dict()}),
            "generators": {name: states_of(draws) for name, draws in self._generators().items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_learner_state(self.learner, state["learner"])
        self.experience.load_state_dict(state["experience"])
        if self.space.picture is None:
            self.centre.load_state_dict(state["centre"])
        for name, draws in self._generators().items():
            set_states(draws, state["generators"][name])

    def _generators(self) -> dict[str, Draws]:
        return {"exploration": self.exploration, **super()._generators()}
