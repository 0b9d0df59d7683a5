"""PPO on a stream of environments.

Schulman et al. 2017 (arXiv 1707.06347). The loss is that of Stable-Baselines3, but with `clip_value` CleanRL's: the
larger of the errors of the value and of the clipped value, where Stable-Baselines3 takes the clipped one. Everything
else is set up like CleanRL (vwxyzjn/cleanrl, cleanrl/ppo_continuous_action.py), which in addition halves the value loss
and lets the learning rate fall to 0 over the run: `value_coefficient=0.25`, `schedule="linear"`. CleanRL counts
truncated episodes as terminated; here they bootstrap from the true last observation. The network and the stream are
those of the cycling-MuJoCo benchmark ("Activation Function Design Sustains Plasticity in Continual Learning", section
7). All environments train the same hidden layers. Each environment has its own adapter, heads and observation
statistics, which are used again when it returns. With `heads="one"`, the environments share these too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Distribution

from supple.agents.agent import Policy
from supple.agents.draws import Draws, draw, generators, set_states, sources_of, states_of
from supple.agents.stacks import StackedAgent, by_member
from supple.engine.hooks.driver import HookDriver
from supple.engine.storage.learner_state import learner_state, load_learner_state
from supple.engine.work import Numbers
from supple.envs import ArrayVector, StepResult
from supple.interventions import LastLoss, Learner, OtherMinibatch
from supple.metrics.arrays import Array
from supple.networks import Adam, evaluating
from supple.networks.activations import is_random
from supple.networks.inference import MOST_ROWS, CompiledForward
from supple.networks.unchanged import keep_states
from supple.registry.errors import Diverged

from .collect import Collector
from .network import SHARED, MultiHead, PolicySpace, rows_of, share_space
from .normalizers import Normalizers
from .policies import Categorical, Gaussian
from .recent import RecentBatch
from .rollout import Rollout, RolloutBatch
from .settings import PPOSettings
from .update import (
    STATISTICS,
    GradientStep,
    Loss,
    most_in_a_stack,
    normalize,
    ppo_loss,
    steps_per_call,
)

# Most gradient steps in one compiled call, by the length of a run in environment steps. Eight save 3 µs a step on
# HalfCheetah, but take 16 s longer to compile.
UNROLL, UNROLL_LONG, LONG = 5, 8, 5_000_000
IMAGES = 512  # whose values are computed at once


class PPO(StackedAgent):
    """The PPO agent, or a stack of them. The loop calls act → remember → update, and `begin_task` for another world."""

    def __init__(self, settings: PPOSettings, spaces: Mapping[str, PolicySpace]) -> None:
        """Make the network, and the statistics of each environment.

        Args:
            settings: The settings.
            spaces: Environment id → its space, in the order of the stream.

        Raises:
            ValueError: The environments must share one head, but their spaces differ.
        """
        s = self.settings = settings.complete(next(iter(spaces.values())).picture)
        super().__init__(s, s.device)
        self.spaces = spaces = share_space(spaces) if s.heads == "one" else dict(spaces)
        self.network = self._new_network().to(self.device)
        self.noise = generators(s, "action noise")
        self.shuffle = generators(s, "minibatches")
        self.normalizers = Normalizers(s, spaces, self.stack)
        self.gradient_step = GradientStep(s.max_grad_norm, s.compile == "on", bool(self.stack))
        self.key = next(iter(spaces))
        self._intervening = generators(s, "interventions")
        self.recent = RecentBatch(self.network, s, self._intervening)
        self.updates = 0  # gradient steps so far
        self._collector: Collector | None = None  # takes steps of this rollout in C
        self._sound = torch.ones(self.stack, dtype=torch.bool)  # whether the losses of the last update were finite
        self.learners = {"agent": self._learner()}
        self.begin_activations(s, self.network)

    def _new_network(self) -> MultiHead:
        """Return a new network. The members of a stack draw their weights as if alone."""
        s = self.settings
        shape: tuple[Any, Any, Any, Any] = (s.hidden, s.adapter, s.activation, s.share_value)
        return self.draw_network(
            lambda draws, members: MultiHead(
                self.spaces, *shape, draws, s.init_lambda, value_hidden=s.value_hidden,
                initialization=s.initialization, normalization=s.normalization, members=members, encoder=s.encoder,
            )
        )  # fmt: skip

    def _key(self, env: str) -> str:
        return SHARED if self.settings.heads == "one" else env

    def _learner(self) -> Learner:
        s, recent, units = self.settings, self.recent, self.network.units()
        wiring, unwired = self.network.wiring(units)
        return Learner(
            "agent",
            self.network,
            Adam(
                self.network.parameters(), s.learning_rate, s.adam_betas, s.adam_epsilon, s.weight_decay,
                networks=int(bool(self.stack)),
            ),
            self.network.layers(),
            units,
            probe=lambda: (probe := recent.probe) and (probe[1].observations, probe[0]),
            loss=recent.probe_loss,
            batches=recent.batches,
            last_inputs=lambda: recent.minibatch,
            redraw=lambda: {name: p.detach() for name, p in self._new_network().named_parameters()},
            wiring=wiring,
            unwired=unwired,
            policy=self._policy,
            values=lambda outputs: outputs[1],
            capabilities=(OtherMinibatch(recent.another), LastLoss(lambda: self._latest[-1, ..., 0])),
            **self.randomness(self._intervening),
        )  # fmt: skip

    def _policy(self, outputs: tuple[Tensor, Tensor], parameters: Mapping[str, Tensor]) -> Distribution:
        """Return the policy that the outputs parameterise, in the environment of the current or last batch."""
        key = self.recent.key
        scale = parameters.get(f"log_std.{key}")
        return self.spaces[key].policy.distribution(outputs[0], None if scale is None else rows_of(scale))

    # -- interaction ---------------------------------------------------------------------------------------

    def begin_task(self, env: str) -> None:
        """Act in `env` from now on, with its statistics, adapter and heads from earlier visits."""
        s = self.settings
        self.key = self._key(env)
        self.rollout = Rollout(s.rollout_steps, (*self.stack, s.num_envs), self.spaces[self.key])

    def begin_episodes(self, observations: Array) -> None:
        """Begin episodes: all environments were reset to these observations, (rows, d)."""
        self._collector = None
        self.normalizers.rewards[self.key].reset_returns()
        self._observe(observations)

    def _observe(self, rows: Array) -> None:
        self.current = self.normalizers.observe(self._flatten(rows), self.key)

    def _flatten(self, observations: NDArray[Any]) -> NDArray[Any]:
        """Return observations, (rows, …), as rows of numbers of each member, (*stack, n, d)."""
        return by_member(observations.reshape(len(observations), -1), self.stack)

    def act(self) -> np.ndarray:
        """Sample an action for each current observation, (rows, *shape)."""
        s, policy = self.settings, self.spaces[self.key].policy
        if not self.rollout.filled:
            self._policy_of = self.network.make_policy(self.key, s.compile == "on")
            self._collector = None
            # For the whole rollout at once, like the log-probabilities in `update`: many small tensors are slow.
            drawn = [policy.noise((s.rollout_steps, s.num_envs), own).numpy() for own in sources_of(self.noise)]
            self._noise = np.stack(drawn, 1) if self.stack else drawn[0]
            scale = self.network.scale(self.key)
            self._log_std = None if scale is None else scale.detach().cpu()
        self._outputs = self._outputs_of(self._policy_of, self.current)
        noise = self._noise[self.rollout.filled]
        self._actions = policy.draw(self._outputs, noise, self._log_std)
        return self._actions.reshape(-1, *policy.shape)

    @torch.no_grad()
    def _outputs_of(self, policy: Callable[[Tensor], Tensor], observations: NDArray[Any]) -> NDArray[np.float32]:
        """Return a policy's outputs, (*stack, n, outputs), on the CPU, for normalised observations (*stack, n, d)."""
        return policy(torch.from_numpy(observations).to(self.device)).cpu().numpy()

    def remember(self, result: StepResult) -> None:
        """Store the result of the actions that `act` returned."""
        reward, terminated, truncated = (
            by_member(rows, self.stack) for rows in (result.reward, result.terminated, result.truncated)
        )
        final = self._flatten(result.final_obs)
        rewards = self.normalizers.scale(reward, terminated | truncated, self.key)
        self.normalizers.begin(final, self.key)
        self.rollout.add(self.current, self._outputs, self._actions, rewards, terminated, truncated)
        if (cut := truncated & ~terminated).any():
            self.rollout.add_truncations(cut, self.normalizers.normalize(final, self.key))
        self._observe(result.obs)

    def collect(self, envs: ArrayVector, most: int) -> int:
        """Take steps in C while no episode ends, and return their number: at most `most`, and none that is the first or
        the last of a rollout."""
        if not self.rollout.filled or envs.compiled is None or self.normalizers.moves(self.key):
            return 0
        s, forward, policy = self.settings, self._policy_of, self.spaces[self.key].policy
        if not isinstance(forward, CompiledForward) or type(policy) not in (Categorical, Gaussian):
            return 0
        if s.num_envs > MOST_ROWS:
            return 0
        if self._collector is None:
            drawn = self._noise, None if self._log_std is None else np.exp(self._log_std.numpy())
            known = self.normalizers, self.key
            self._collector = Collector(envs.compiled, forward, policy, *known, self.rollout, *drawn)
        if taken := self._collector(self.current, min(most, s.rollout_steps - self.rollout.filled - 1)):
            self.current = self._collector.current
            envs.show(self._collector.shown)
        return taken

    @contextmanager
    def greedy(self, env: str) -> Iterator[Policy]:
        """Yield the most likely action for raw observations, (rows, d) → (rows, *shape), with frozen statistics.

        The network is in evaluation mode inside the context."""
        key = self._key(env)
        policy = self.spaces[key].policy
        with evaluating(self.network):
            acting = self.network.make_policy(key, self.settings.compile == "on")

            def act(rows: NDArray[Any]) -> np.ndarray:
                observations = self.normalizers.normalize(self._flatten(rows), key)
                outputs = self._outputs_of(acting, observations)
                return policy.best(outputs).reshape(-1, *policy.shape)

            yield act

    # -- learning ------------------------------------------------------------------------------------------

    def update(self, hooks: HookDriver, last: bool) -> bool:
        """Learn from the rollout if it is full or the task ends (`last`). Return whether an update was made."""
        s = self.settings
        if self.rollout.filled < s.rollout_steps and not last:
            return False
        with torch.no_grad():
            values = self._values()
            log_probs = self._log_probs()
        batch = self.rollout.batch(values, log_probs, s.gamma, s.gae_lambda, s.target_lambda)
        if s.normalize_advantage and s.advantage_scope == "batch":
            batch = batch._replace(advantages=normalize(batch.advantages))
        batch = batch.to(self.device)
        self.rollout.clear()
        self.recent.learning = self.key, batch
        learner = self.learners["agent"]
        loss = self._loss(hooks)
        n = batch.size
        size = min(s.minibatch_size, n)
        # A hook that acts between two gradient steps needs them one by one.
        whole = s.rollout_steps * s.num_envs
        trained = self._trained_parameters(hooks)
        most = UNROLL if s.stream()[1] * s.cycles < LONG else UNROLL_LONG
        if self.stack:
            most = most_in_a_stack(most, sum(p.numel() for p in trained), min(s.minibatch_size, whole))
        unroll = 1 if hooks.interleaves else steps_per_call(whole // min(s.minibatch_size, whole), most)
        # compiled code cannot draw from the generators of members
        random = bool(self.stack) and is_random(self.network)
        self.gradient_step.begin(self.optimizer, trained, unroll, hooks.traceable and not random)
        before = partial(hooks.before_update, learner) if hooks.precedes_updates else None
        statistics = []
        for _ in range(s.epochs):
            # One gather per epoch, so that minibatches are views. Rows beyond the last full minibatch are left out
            # of this epoch.
            order = draw(torch.randperm, n, self.shuffle).to(self.device)[..., : n // size * size]
            for rows in batch.take(order).split(size * unroll):
                hooks.before_loss(learner)
                self._latest = self.gradient_step(loss, size, *rows, before=before)
                self.recent.minibatch = rows.observations, self.key
                statistics.append(self._latest)
                hooks.after_update(learner)
        self.recent.last, self.recent.learning, self.recent.minibatch = self.recent.learning, None, None
        each = torch.cat(statistics)
        self.updates += len(each)
        means = each.mean(0)
        self._sound = means.isfinite().all(-1)
        if not self._sound.any():
            raise Diverged(f"on {self.key} the loss is not finite")
        self._numbers = dict(zip(STATISTICS, means.unbind(-1), strict=True))
        if n > 1:  # one row has no variance
            explained = 1 - (batch.returns - batch.values).var(-1) / (batch.returns.var(-1) + 1e-8)
            self._numbers["value/explained_variance"] = explained
        return True

    def _values(self) -> Tensor:
        """Return the values of all observations that the rollout needs, (*stack, rows), on the CPU."""
        observations = self.rollout.all_observations(self.current).to(self.device)
        if not (self.stack and is_random(self.network)):
            return self._values_of(observations).cpu()
        # An activation may draw for each row, so that a member must have as many rows as alone: one pass for all
        # members with equally many truncations.
        counts = self.rollout.truncations()
        values = torch.zeros(observations.shape[:-1])
        for count in sorted(set(counts)):
            rows = observations[:, : observations.shape[1] - max(counts) + count]
            own = [member for member, each in enumerate(counts) if each == count]
            with keep_states(draws for draws, each in zip(self.activations, counts, strict=True) if each != count):
                values[own, : rows.shape[1]] = self._values_of(rows)[own].cpu()
        return values

    def _values_of(self, observations: Tensor) -> Tensor:
        """Return the values of observations, (*stack, n); of images part by part, since their features are large."""
        many = observations.shape[-2] if self.spaces[self.key].picture is None else IMAGES
        return torch.cat([self.network.values(part, self.key) for part in observations.split(many, -2)], -1)

    def _log_probs(self) -> Tensor:
        """Return the log-probabilities of the rollout's actions, (*stack, n), on the CPU."""
        drawn = (self.rollout.outputs, self.rollout.actions, self._noise)
        outputs, actions, noise = (torch.from_numpy(self.rollout.flatten(array)) for array in drawn)
        policy = self.spaces[self.key].policy
        return policy.log_prob_from_noise(outputs, actions, noise, self._log_std)

    def sound(self) -> Tensor:
        """Return whether the losses of the last update were finite, () or (members,)."""
        return self._sound

    def freeze(self, members: Sequence[int]) -> None:
        """Let the data of these members of a stack, which have diverged, be 0: finite ones may have infinite losses."""
        for tensor in self.recent.last[1] if self.recent.last else ():
            tensor[list(members)] = 0

    def numbers(self) -> Numbers:
        """Return the mean statistics of the last update, by member for a stack."""
        return {name: value.tolist() for name, value in self._numbers.items()}

    def _trained_parameters(self, hooks: HookDriver) -> list[Tensor]:
        """Return the parameters that get a gradient from the current environment's loss or from a penalty."""
        named, reached = dict(self.network.named_parameters()), self.network.names_of(self.key)
        if hooks.penalizes and (penalty := hooks.penalty(self.learners["agent"])).requires_grad:
            gradients = torch.autograd.grad(penalty, list(named.values()), allow_unused=True)
            reached |= {n for n, gradient in zip(named, gradients, strict=True) if gradient is not None}
        return [p for n, p in named.items() if n in reached]

    def _loss(self, hooks: HookDriver) -> Loss:
        network, key, settings = self.network, self.key, self.settings
        if not hooks.penalizes:
            return lambda *batch: ppo_loss(network, key, batch, settings)
        learner = self.learners["agent"]

        def penalized_loss(*batch: Tensor) -> tuple[Tensor, Tensor]:
            loss, statistics = ppo_loss(network, key, batch, settings)
            # the penalty is one number for all members of a stack
            return (loss.sum() if self.stack else loss) + hooks.drawn_penalty(learner), statistics

        return penalized_loss

    # -- checkpoints ---------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state, without a rollout: checkpoints are written between rollouts."""
        return {
            "learner": learner_state(self.learners["agent"]),
            **self.normalizers.state_dict(),
            "generators": {name: states_of(draws) for name, draws in self._generators().items()},
            "last": (last := self.recent.last) and {"env": last[0], "batch": list(last[1])},
            "key": self.key,
            "updates": self.updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load_learner_state(self.learners["agent"], state["learner"])
        self.normalizers.load_state_dict(state)
        for name, draws in self._generators().items():
            set_states(draws, state["generators"][name])
        last = state["last"]
        self.recent.last = last and (last["env"], RolloutBatch(*last["batch"]).to(self.device))
        self.key = state["key"]
        self.updates = state.get("updates", 0)  # older checkpoints do not count

    def _generators(self) -> dict[str, Draws]:
        return {"noise": self.noise, "shuffle": self.shuffle, **super()._generators()}
