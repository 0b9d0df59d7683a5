"""Hooks and metrics for Stable-Baselines3, as a callback.

    model = SAC("MlpPolicy", "HalfCheetah-v5")
    model.learn(1_000_000, callback=SuppleCallback(hooks=["fire@0.5", "redo(tau=0.1)@every:1000"]))

SB3's training loop does not change. Hooks fire between two updates, when SB3 begins to collect data or ends training.
Hooks that act at every update, such as penalties, use the hooks of PyTorch's optimizers.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

try:
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError as error:
    raise ImportError("SuppleCallback needs Stable-Baselines3: pip install 'supple[sb3]'") from error
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch.utils.hooks import RemovableHandle

from ...experiments.hooks import HookDriver
from ...interventions import Learner
from ...metrics import measure
from ..shared import Events, add_penalty, check, read, warn_unfired
from .learners import learners_of


class SuppleCallback(BaseCallback):
    """A callback that intervenes in a PPO, A2C, DQN, SAC, TD3 or DDPG model while it learns, and measures its networks.

    Attributes:
        learners: The learners that hooks and metrics receive, by name, from the first `learn()` on. Their parameters
            "at step 0" are those that the model had then.
        events: The events in order, with the contents of a run's `events.jsonl`.
    """

    def __init__(
        self,
        hooks: Sequence[str] = (),
        measure_every: int = 10_000,
        events: str | Path | None = None,
        verbose: int = 0,
    ) -> None:
        """Create the callback.

        Args:
            hooks: Texts such as "fire@0.5" or "critic/redo@every:1000". Fractions are of all steps that SB3 plans.
            measure_every: Steps between measurements, which are written to SB3's logger. 0: no measurements.
            events: A file to which each event is appended as a line of JSON.
            verbose: 1 prints a line for each event.

        Raises:
            ValueError: The text of a hook is invalid. Hooks that do not work with the model raise when training starts.
        """
        super().__init__(verbose)
        if measure_every < 0:
            raise ValueError(f"measure_every must be 0 or more steps, got {measure_every}")
        self.hooks = read(hooks)
        self.measure_every = measure_every
        self.events = Events(events, verbose > 0)
        self.learners: dict[str, Learner] = {}
        self._known: Any = None  # the model that `learners` belong to
        self._owners: dict[str, Any] = {}  # the part of the model that has each learner's optimizer
        self._start = 0  # step at which the first of consecutive calls of `learn()` began
        self._step = 0  # the last step between two updates at which hooks could fire
        self._seen = 0  # the last environment step; after an interruption more than `_step`
        self._switches, self._switching = 0, False
        self._handles: list[RemovableHandle] = []

    def new_task(self) -> None:
        """Announce a task switch, for instance after `model.set_env` and before the next `learn()`.

        Hooks with @task fire before the next update. Before the first `learn()`, this does nothing."""
        if self._known is not None and not self._switching:
            self._driver.finished()
            self._switching = True

    def detach(self) -> None:
        """Remove all hooks from the model's optimizers.

        `learn()` does this when it ends. Call it only if `learn()` was interrupted and the model will continue to learn
        without this callback."""
        while self._handles:
            self._handles.pop().remove()

    # -- called by SB3 -------------------------------------------------------------------------------------

    def _on_training_start(self) -> None:
        self.detach()
        if self.parent is not None:  # an EventCallback, which forwards neither rollouts nor the end of training
            parent = type(self.parent).__name__
            raise ValueError(f"SuppleCallback does not work inside {parent}: pass it to learn(callback=[…]) directly")
        model, start = self.model, self.model.num_timesteps
        goes_on = model is self._known and start == self._seen > 0  # learn(reset_num_timesteps=False)
        if model is not self._known:
            self.learners, self._known = learners_of(model), model
            holders = [part for part in model.policy.modules() if hasattr(part, "optimizer")]
            self._owners = {
                name: next(part for part in holders if part.optimizer is learner.optimizer)
                for name, learner in self.learners.items()
            }
            self._switches, self._switching = 0, False
            for hook in self.hooks:
                hook.memory.clear()
        self.events.begin()
        total = model._total_timesteps
        if not goes_on:
            self._start = self._step = self._seen = start
        self._driver = HookDriver(self.hooks, self.learners, self.events.log, total, self._start)
        check(self.hooks, total, start, self.measure_every > 0, begins=not goes_on)
        self._hang_on()
        if not goes_on:
            self._driver.passed(start - 1, start)
        self._between_updates()

    def _on_rollout_start(self) -> None:
        self._between_updates()

    def _on_step(self) -> bool:
        self._seen = self.num_timesteps
        return True

    def _on_rollout_end(self) -> None:
        if isinstance(self.model, OnPolicyAlgorithm):
            for learner in self.learners.values():
                learner.probe()  # stores the rollout, which SB3 discards before the next one

    def _on_training_end(self) -> None:
        self._between_updates(last=True)
        self.detach()
        warn_unfired(self.hooks, self.model._total_timesteps)

    def _between_updates(self, last: bool = False) -> None:
        previous, self._step = self._step, self.model.num_timesteps
        if self._switching:
            self._switches, self._switching = self._switches + 1, False
            self._driver.switched(self._step, self._switches)
        self._driver.passed(previous, self._step)
        every = self.measure_every
        if every and (last or self._step // every > previous // every):
            numbers = self._measure()
            if last:  # SB3 does not write its logger after the last update
                self.logger.dump(self._step)
            self._driver.measured(self._step, numbers)
        self._hand_over()

    # -- interventions and measurements --------------------------------------------------------------------

    def _hang_on(self) -> None:
        """Register the hooks that act at every update with the learners' optimizers."""
        for learner in self.learners.values():
            assert learner.optimizer is not None
            if self._driver.penalizes:
                add = partial(self._add_penalty, learner)
                self._handles.append(learner.optimizer.register_step_pre_hook(add))
            if self._driver.precedes_updates:
                precede = partial(self._before_update, learner)
                self._handles.append(learner.optimizer.register_step_pre_hook(precede))
            if self._driver.follows_updates:
                follow = partial(self._after_update, learner)
                self._handles.append(learner.optimizer.register_step_post_hook(follow))

    def _hand_over(self) -> None:
        """Give the model the optimizers of its learners, if an intervention has replaced one."""
        changed = [
            (owner, learner.optimizer)
            for learner in self.learners.values()
            if (owner := self._owners[learner.name]).optimizer is not learner.optimizer
        ]
        for owner, optimizer in changed:
            owner.optimizer = optimizer
        if changed:
            self.detach()
            self._hang_on()

    def _add_penalty(self, learner: Learner, *_: Any) -> None:
        add_penalty(self._driver, learner)

    def _before_update(self, learner: Learner, *_: Any) -> None:
        self._driver.before_update(learner)

    def _after_update(self, learner: Learner, *_: Any) -> None:
        self._driver.after_update(learner)

    def _measure(self) -> dict[str, float]:
        numbers: dict[str, float] = {}
        for learner in self.learners.values():
            for name, value in measure(learner, per_layer=True).items():
                numbers[f"{learner.name}/{name}"] = value
                # SB3's tables truncate long names, and raise an error if two of them become equal
                long = ("stdout", "log") if "/" in name else None
                self.logger.record(f"supple/{learner.name}/{name}", value, exclude=long)
            learner.mark()
        return numbers
