"""Hooks and metrics for Stable-Baselines3, as a callback.

    model = SAC("MlpPolicy", "HalfCheetah-v5")
    model.learn(1_000_000, callback=SuppleCallback(hooks=["fire@0.5", "redo(tau=0.1)@every:1000"]))

SB3's training loop does not change. Hooks fire between two updates, when SB3 begins to collect data or ends training.
Hooks that act at every update, such as penalties, use the hooks of PyTorch's optimizers.
"""

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypedDict
from weakref import WeakSet

try:
    from stable_baselines3.common.callbacks import BaseCallback, CallbackList
except ImportError as error:
    raise ImportError("SuppleCallback needs Stable-Baselines3: pip install 'supple[sb3]'") from error
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch.utils.hooks import RemovableHandle

from supple.engine.hooks.driver import HookDriver
from supple.integrations.shared import (
    Events,
    LearnerState,
    add_penalty,
    check_hooks,
    learner_state,
    parse_hooks,
    require_no_finish,
    restore_learner,
    warn_unfired,
)
from supple.interventions import EntropyTemperature, Learner
from supple.interventions.schedule import AtUpdate
from supple.metrics import measure
from supple.networks.optimizers import trainer_of
from supple.networks.state_dicts import list_names
from supple.registry import schema

from .learners import learners_of

_acting: "WeakSet[SuppleCallback]" = WeakSet()  # those with hooks on optimizers; more than one model may learn


class CallbackState(TypedDict):
    """The state of a callback."""

    start: int  # as the callback's private attributes of these names
    step: int
    seen: int
    switches: int
    switching: bool
    hooks: dict[str, Any]
    learners: dict[str, LearnerState]
    changes: dict[str, list[str]]


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
        self.hooks = parse_hooks(hooks)
        for hook in self.hooks:
            if isinstance(hook.schedule, AtUpdate):
                raise ValueError(f"{hook.text}: steps of Stable-Baselines3 are environment steps: use @every:N or @N")
        self.measure_every = measure_every
        self.events = Events(events, verbose > 0)
        self.learners: dict[str, Learner] = {}
        self._known: Any = None  # the model that `learners` belong to
        self._owners: dict[str, Any] = {}  # the part of the model that has each learner's optimizer
        self._start = 0  # step at which the first of consecutive calls of `learn()` began
        self._step = 0  # the last step between two updates at which hooks could fire
        self._seen = 0  # the last environment step; after an interruption more than `_step`
        self._switches, self._switching = 0, False
        self._announced = False  # whether the user announces task switches, so that one may follow
        self._handles: list[RemovableHandle] = []
        self._saved: CallbackState | None = None

    def new_task(self) -> None:
        """Announce a task switch, for instance after `model.set_env` and before the next `learn()`.

        Hooks with @task fire before the next update. Before the first `learn()`, none fires. Raises ValueError
        after `load_state_dict` if a hook needs the data of the task that ends: announce it before `state_dict`."""
        self._announced = True
        if self._saved is not None:
            require_no_finish(self.hooks)
            self._saved["switching"] = True
        elif self._known is not None and not self._switching:
            self._driver.finish_task()
            self._switching = True

    def detach(self) -> None:
        """Remove all hooks from the model's optimizers.

        `learn()` does this when it ends, and another callback with which the model continues. Call it only if `learn()`
        was interrupted and the model will continue to learn without any."""
        while self._handles:
            self._handles.pop().remove()
        _acting.discard(self)

    # -- saving and loading ---------------------------------------------------------------------------------

    def state_dict(self) -> CallbackState:
        """Return the state of hooks and metrics, to be stored beside `model.save`.

        It contains tensors, numbers, texts, and lists and dictionaries of these. `torch.save` stores it, and
        `torch.load(…, weights_only=True)` reads it. Raises RuntimeError before the first `learn()`.
        """
        if self._known is None:
            raise RuntimeError("SuppleCallback has no state before the first learn()")
        return CallbackState(
            start=self._start, step=self._step, seen=self._known.num_timesteps, switches=self._switches,
            switching=self._switching, hooks=copy.deepcopy(self._driver.state_dict()),
            learners={learner.name: learner_state(learner) for learner in self._all_learners()},
            changes={name: list(learner.changes) for name, learner in self.learners.items()},
        )  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state that `state_dict` returned, at the next `learn(…, reset_num_timesteps=False)`.

        Its model must be the one that was saved with the state. Then hooks and metrics act as if the model had not been
        saved and loaded. Raises ValueError if this is no such state; `learn()` raises it if the model does not fit.
        """
        self._saved = schema.convert(state, CallbackState, "state")

    def _restore(self, state: CallbackState) -> None:
        learners = self._all_learners()
        if differing := {learner.name for learner in learners} ^ state["learners"].keys():
            raise ValueError(
                f"the state of SuppleCallback is one of another algorithm: {list_names(sorted(differing))}"
            )
        for name, learner in self.learners.items():
            if learner.changes != state["changes"][name]:
                raise ValueError(
                    f"'{name}' was changed by {', '.join(state['changes'][name])}: a new callback cannot know its parts"
                )
        for learner in learners:
            restore_learner(learner, state["learners"][learner.name])
        self._start, self._step, self._seen = state["start"], state["step"], state["seen"]
        self._switches, self._switching = state["switches"], state["switching"]

    def _all_learners(self) -> list[Learner]:
        """Return the learners, and that of SAC's temperature if there is one."""
        learners = list(self.learners.values())
        offered = (learner.offers(EntropyTemperature) for learner in learners)
        temperatures = {id(offer.learner): offer.learner for offer in offered if offer}
        return [*learners, *temperatures.values()]

    # -- called by SB3 -------------------------------------------------------------------------------------

    def _init_callback(self) -> None:
        if self.parent is not None:  # an EventCallback, which forwards neither rollouts nor the end of training
            parent = type(self.parent).__name__
            raise ValueError(f"SuppleCallback does not work inside {parent}: pass it to learn(callback=[…]) directly")

    def _on_training_start(self) -> None:
        self.detach()
        self._check_others([callback for callback in _callbacks(self.locals.get("callback")) if callback is not self])
        self._look_for_replacements()
        model, start = self.model, self.model.num_timesteps
        saved = self._saved
        if saved is not None and saved["seen"] != start:
            raise ValueError(
                f"the state of SuppleCallback is of step {saved['seen']}, but learning begins at step {start}: load "
                f"the model that was saved with it, and call learn(…, reset_num_timesteps=False)"
            )
        goes_on = saved is not None or (model is self._known and start == self._seen > 0)
        if model is not self._known or saved is not None:
            self._attach(model)
        self.events.begin()
        total = model._total_timesteps
        if saved is not None:
            self._restore(saved)
        elif not goes_on:
            self._start = self._step = self._seen = start
        self._driver = HookDriver(self.hooks, self.learners, self.events.log, total, self._start)
        check_hooks(
            # a later call of `learn()` may reach the steps beyond this one
            [hook for hook in self.hooks if not (hook.schedule and hook.schedule.problem(total))],
            total, start, self.measure_every > 0, begins=not goes_on,
        )  # fmt: skip
        if saved is not None:
            self._driver.load_state_dict(saved["hooks"])
            self._saved = None
        self._register_hooks()
        if not goes_on:
            self._driver.after_steps(start - 1, start)
        self._between_updates()

    def _check_others(self, beside: list["SuppleCallback"]) -> None:
        """Refuse other callbacks of this `learn()` that do not fit, and detach those of an interrupted one.

        beside: the other callbacks of this `learn()`."""
        hooks = [hook for callback in (self, *beside) for hook in callback.hooks]
        for hook in hooks:
            if beside and hook.intervention.has("restructure"):
                raise ValueError(
                    f"{hook.text} changes the network or its optimizer, which another SuppleCallback would not notice: "
                    f"give all hooks to one"
                )
        for other in [callback for callback in _acting if callback._known is self.model and callback not in beside]:
            other.detach()
            warnings.warn(
                "the SuppleCallback of an interrupted learn() no longer acts: pass it again to continue with it",
                stacklevel=2,
            )

    def _look_for_replacements(self) -> None:
        """Take over new optimizers of the known model, or forget it if the user has replaced its networks."""
        if self.model is not self._known:
            return
        known = {*self._owners.values(), *(learner.module for learner in self.learners.values())}
        if not known <= set(self.model.policy.modules()):
            self._known = None
            return
        for name, owner in self._owners.items():
            learner = self.learners[name]
            learner.optimizer = trainer_of(learner.module, owner.optimizer, name)

    def _attach(self, model: BaseAlgorithm) -> None:
        """Attach to a model, without any memory of an earlier one."""
        self.learners, self._known = learners_of(model), model
        holders = [part for part in model.policy.modules() if hasattr(part, "optimizer")]
        self._owners = {
            name: next(part for part in holders if part.optimizer is learner.optimizer)
            for name, learner in self.learners.items()
        }
        self._switches, self._switching = 0, False
        self.hooks = parse_hooks([hook.text for hook in self.hooks])

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
        warn_unfired(self.hooks, self._step, None if self._announced else self._switches)

    def _between_updates(self, last: bool = False) -> None:
        previous, self._step = self._step, self.model.num_timesteps
        if self._switching:
            self._switches, self._switching = self._switches + 1, False
            self._driver.after_switch(self._step, self._switches)
        self._driver.after_steps(previous, self._step)
        interval = self.measure_every
        if interval and (last or self._step // interval > previous // interval):
            numbers = self._measure()
            if last:  # SB3 does not write its logger after the last update
                self.logger.dump(self._step)
            self._driver.after_measurement(self._step, numbers)
        self._hand_over_optimizers()

    # -- interventions and measurements --------------------------------------------------------------------

    def _register_hooks(self) -> None:
        """Register the hooks that act at every update with the learners' optimizers."""
        _acting.add(self)
        driver = self._driver
        for learner in self.learners.values():
            assert learner.optimizer is not None
            before, after = learner.optimizer.register_step_pre_hook, learner.optimizer.register_step_post_hook
            for needed, register, act in (
                (driver.penalizes, before, partial(add_penalty, driver)),
                (driver.precedes_updates, before, driver.before_update),
                (driver.follows_updates, after, driver.after_update),
            ):
                if needed:
                    self._handles.append(register(lambda *_, act=act, learner=learner: act(learner)))

    def _hand_over_optimizers(self) -> None:
        """Give the model the optimizers of its learners, if an intervention has replaced one."""
        changed = [
            learner for name, learner in self.learners.items() if self._owners[name].optimizer is not learner.optimizer
        ]
        for learner in changed:
            self._owners[learner.name].optimizer = learner.optimizer
        if changed:
            self.detach()
            self._register_hooks()

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


def _callbacks(callback: Any) -> Iterator[SuppleCallback]:
    """Yield the SuppleCallbacks of a `learn()`."""
    if isinstance(callback, SuppleCallback):
        yield callback
    elif isinstance(callback, CallbackList):
        for part in callback.callbacks:
            yield from _callbacks(part)
