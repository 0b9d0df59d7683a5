"""What is trained, one stretch at a time by its own `Work.advance` and with no loop around it; and an agent's parts."""

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, cast

import torch

from supple.agents.settings import AgentSettings
from supple.agents.work import AgentWork
from supple.engine.hooks.driver import HookDriver
from supple.engine.kinds import find_kind
from supple.engine.runs import build
from supple.engine.storage.run_directory import RunDirectory
from supple.engine.work import Work

NO_HOOKS = HookDriver([], {}, lambda **_: None, 1)
ENDLESS = 10**15  # steps


class NoRun:
    """Stands where a run's logs are, and keeps nothing."""

    def episode(self, **_: Any) -> None: ...

    def event(self, **_: Any) -> None: ...


NO_RUN = cast(RunDirectory, NoRun())


class Stepped:
    """A work in its first task, which goes on for as long as it is asked to. Logs, checkpoints, measurements and
    evaluations are not in it; neither are hooks, except that their driver is asked whether there are any."""

    def __init__(self, work: Work, hooks: HookDriver = NO_HOOKS) -> None:
        self.work, self.hooks, self.step = work, hooks, 0
        self.task = work.tasks[0]
        work.enter(self.task)
        work.look_at(self.task, 0)
        work.begin_segment(0, 0)
        for learner in work.learners.values():
            learner.module.train()

    def advance(self) -> None:
        """Learn one stretch, as the training loop does."""
        previous = self.step
        self.step += self.work.advance(self.task, previous, ENDLESS, self.hooks, NO_RUN)
        self.hooks.after_steps(previous, self.step)


class SteppedAgent(Stepped):
    """An agent and its environments; times its parts.

    parts: seconds in each, in the steps last lived through; "updating" is what is left of it without "sampling".
    """

    def __init__(self, kind: str, settings: AgentSettings, *, wait: bool = False) -> None:
        """Make the agent. wait: for the GPU after every update, as part of "updating"."""
        work = build(find_kind(kind), settings)
        assert isinstance(work, AgentWork)
        super().__init__(work)
        self.agent: Any = work.agent
        self.parts: dict[str, float] = defaultdict(float)
        if wait:
            self._wait_after("update")
        self._time(work._envs, "step", "environment")
        for method, part in (("act", "acting"), ("remember", "storing"), ("update", "updating")):
            self._time(self.agent, method, part)
        if experience := getattr(self.agent, "experience", None):
            self._time(experience, "feed", "sampling")

    def _time(self, owner: Any, method: str, part: str) -> None:
        """Put a clock around one method of an object."""
        inner: Callable[..., Any] = getattr(owner, method)
        clock, parts = time.perf_counter, self.parts

        def timed(*args: Any, **options: Any) -> Any:
            begin = clock()
            result = inner(*args, **options)
            parts[part] += clock() - begin
            return result

        setattr(owner, method, timed)

    def _wait_after(self, method: str) -> None:
        inner: Callable[..., Any] = getattr(self.agent, method)

        def waited(*args: Any, **options: Any) -> Any:
            result = inner(*args, **options)
            torch.cuda.synchronize()
            return result

        setattr(self.agent, method, waited)

    def live(self, steps: int) -> dict[str, float]:
        """Go on by so many steps of the environments; return the seconds of each part."""
        self.parts.clear()
        end = self.step + steps
        while self.step < end:
            self.advance()
        self.parts["updating"] -= self.parts["sampling"]  # which is within it
        return self.parts
