"""The one training loop: advance → hooks → measure → evaluate → log → checkpoint, task after task."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import torch

from supple.interventions import Hook
from supple.networks import evaluating
from supple.registry.errors import Diverged, RunError

from .divergence import Divergence
from .hooks.driver import HookDriver
from .machine import distributed
from .seeding import derive
from .storage import checkpoint
from .storage.restoring import restoring
from .storage.run_directory import RunDirectory, require_ended
from .work import Numbers, Task, Work, crossed

Progress = Callable[[int], None]
Warn = Callable[[str], None]  # takes one line for the user
BEST, KEPT = "best", "kept"  # folders of checkpoints that are not removed when later ones are written


@dataclass
class Loop:
    """The training loop of one run. What the run learns is its `Work`.

    Every saved state ends a segment, whether or not the run is interrupted there. At the beginning of a segment,
    everything that the work does not save is reset from seeds derived from the number of states saved so far. A resumed
    run is therefore equal, bit for bit, to one that was never interrupted.
    """

    run: RunDirectory
    work: Work[Task]
    hooks: HookDriver
    start: int
    end: int
    warn: Warn
    started: Callable[[int], None] = lambda step: None  # takes the step at which training starts
    step: int = 0
    number: int = 0  # states saved so far
    best: float = -inf  # the largest value that `Work.merit` has returned
    diverged: dict[int, Divergence] = field(default_factory=dict)  # seed of a stack → how it ended
    own_task: str = ""  # that in which the world says it is, if its task changes by itself
    switches: int = 0  # of this task, so far
    saved: Path | None = None  # the last checkpoint; the next one links its rows instead of writing them again

    def train(self, progress: Progress) -> None:
        """Train to the end, from the newest intact checkpoint or from the beginning."""
        self._restore()
        progress(self.step)
        if self.step >= self.end:
            return
        self.hooks.begin(self.run.event, self._check_members)
        for task in self.work.tasks:
            if task.start <= self.step < min(task.end, self.end):
                try:
                    self._learn(task, progress)
                except (ValueError, torch.linalg.LinAlgError):  # metrics and hooks raise these for NaN and infinity
                    self.work.check(closely=True)
                    raise
        for hook in self.hooks.hooks:
            if self.end == self.work.tasks[-1].end:  # not at the end of a trunk, whose arms go on
                self._warn_unfired(hook)

    def _learn(self, task: Task, progress: Progress) -> None:
        work, s, until = self.work, self.work.settings, min(task.end, self.end)
        self._set_training()
        if self.step == task.start:
            self._begin(task)
        elif self.step == self.start:
            self._after_start()
        if any(learner.marked is None for learner in work.learners.values()):
            self._mark()
        number = -1
        while self.step < until:
            if self.number > number:  # at first, and after each saved state
                work.begin_segment(number := self.number, self.step)
                self._follow()
            previous, before = self.step, self._updates()
            self.step += work.advance(task, previous, until, self.hooks, self.run)
            self.hooks.after_steps(previous, self.step, (before, self._updates()))
            if self.step < until:
                self._follow()
            if self.run.lock:
                self.run.lock.touch()
            if crossed(previous, self.step, work.check_every) or self.step >= until:
                self._check()
                if self.step >= until:
                    self.run.flush()  # progress reads the logs
                progress(self.step)
            regular = crossed(previous, self.step, s.measure_every) or self.step >= task.end
            if regular or self.step >= until:
                self._measure(task)
            if regular:  # not at the end of a trunk: an unforked run measures nothing there, so arms keep the last mark
                self._mark()
            if crossed(previous, self.step, s.trainability_every) or (s.trainability_every and self.step >= task.end):
                self._measure_trainability(task)
            due = work.evaluation_due(task, previous, self.step)
            numbers = self._evaluate(task) if due else {}
            if self.step >= task.end:
                self._finish(task, numbers)
            if any(previous < step <= self.step for step in work.kept):
                self._save(KEPT)
            if (
                crossed(previous, self.step, s.saved_every)
                or self.step >= self.end
                or (self.step >= task.end and work.saves_where_tasks_end)
            ):
                self._check(closely=True)
                self._save()

    def _follow(self) -> None:
        """Tell the log and the hooks if the world is in another task than before, to which it changed by itself."""
        if (told := self.work.own_task()) == self.own_task:
            return
        if begun := bool(self.own_task):
            self.hooks.finish_task()
            self.switches += 1
        self.own_task = told
        self.run.event(event="task", step=self.step, task=self.switches, name=told)
        if begun:
            self.hooks.after_switch(self.step, self.switches)

    def _check(self, closely: bool = False) -> None:
        """Freeze the members of a stack that have diverged. Raise Diverged if the run is no stack, or none is left."""
        work = self.work
        try:
            work.check(closely)
        except Diverged as error:
            left = len(work.seeds) - len(work.frozen.union(error.members))
            if not error.members or not left:
                raise
            for seed in (work.seeds[member] for member in error.members):
                self.diverged[seed] = {"step": self.step, "reason": str(error)}
                self.run.event(event="diverged", step=self.step, seed=seed, reason=str(error))
                others = f"the other {f'{left} seeds go' if left > 1 else 'seed goes'} on"
                self.warn(f"{self.run.path}: seed {seed} diverged by step {self.step:,}: {error}; {others}")
            self._freeze(error.members)
        else:
            if work.frozen:
                work.reset_frozen()

    def _freeze(self, members: Iterable[int]) -> None:
        self.work.freeze(members)
        self.hooks.frozen.update(self.work.frozen)

    def _check_members(self) -> None:
        """Check closely if this is a stack: a member that is measured together with others must be sound."""
        if len(self.work.seeds) > 1:
            self._check(closely=True)

    def _updates(self) -> int:
        return self.work.updates(self.step) if self.hooks.counts_updates else 0

    def _after_start(self) -> None:
        self.hooks.after_steps(self.start - 1, self.start, ((updates := self._updates()) - 1, updates))

    def _set_training(self) -> None:
        for learner in self.work.learners.values():  # its name in `_learn` would keep an old agent alive
            learner.module.train()

    def _mark(self) -> None:
        for learner in self.work.learners.values():
            learner.mark()

    def _begin(self, task: Task) -> None:
        if self.step == self.start and task.index:  # a fork: the arm's own hooks did not see the last task end
            self.work.look_at(self.work.tasks[task.index - 1], self.step)
            self.hooks.finish_task(fresh=True)
        self.work.enter(task)
        self.work.look_at(task, self.step)
        if self.step == self.start:
            self._after_start()
        self.run.event(event="task", step=self.step, task=task.index, **task.fields)
        if task.index:
            self.hooks.after_switch(self.step, task.index)
        if self.work.settings.trainability_every:
            self._measure_trainability(task)
        if self.work.evaluation_due(task, self.step, self.step):
            self._evaluate(task)

    def _finish(self, task: Task, numbers: Numbers) -> None:
        """Log how well a task was learned, while the learners' data still belong to this task."""
        self._check_members()
        for evaluated, value in self.work.performance(numbers).items():
            place = {"event": "evaluation", "step": self.step, "task": task.index, "evaluated": evaluated}
            for labels, own in self._lines(self._by_seed({"return": value})):
                self.run.event(**place, **labels, **own)
        if "tasks" in self.work.logs:
            fields = self.work.finish(task, numbers)
            place = {"step": self.step, "task": task.index, "name": task.name}
            for labels, own in self._lines(self._by_seed(fields)):
                self.run.task(**{**place, "seed": self.work.settings.members[0], **labels}, updates=task.steps, **own)
            self.run.flush()
        self.hooks.finish_task()

    def _evaluate(self, task: Task) -> Numbers:
        self._check_members()
        with ExitStack() as modes:
            for learner in self.work.learners.values():
                modes.enter_context(evaluating(learner.module))
            numbers = self.work.evaluate(task)
        self._log(task, self._by_seed(numbers))
        # the state at step 0 is never the best one: no run could start from there
        merit = self.work.merit(task, numbers) if self.step and self.work.settings.keep_best else None
        if merit is not None and merit > self.best:
            self.best = merit
            self._save(BEST)
        return numbers

    def _measure(self, task: Task) -> None:
        self._check_members()
        learned = self._by_seed(self.work.numbers())
        found = self.work.measure(self.work.settings.curvature)
        counted = self.hooks.numbers()
        self._log(task, [{**of, **own, **more} for of, own, more in zip(learned, found, counted, strict=True)])
        self.hooks.after_measurement(self.step, *({**of, **own} for of, own in zip(learned, found, strict=True)))

    def _measure_trainability(self, task: Task) -> None:
        self._check_members()
        found = self.work.trainability()
        if not any(found):  # the learners have seen no data yet
            return
        self._log(task, found)
        self.hooks.after_measurement(self.step, *found)

    def _log(self, task: Task, by_seed: Sequence[Numbers]) -> None:
        for labels, own in self._lines(by_seed):
            self.run.metrics(self.step, {**task.labels, **own}, **labels)
        self.run.flush()

    def _warn_unfired(self, hook: Hook) -> None:
        """Warn about a condition that has not become true; in a stack of seeds, for which seeds it has not."""
        stack = {number: s for number, s in enumerate(self.hooks.seeds) if number not in self.hooks.frozen}
        waiting = {number: seed for number, seed in stack.items() if hook.waits(number)}
        if hook.waits():
            self.warn(f"{self.run.path}: {hook.text} never fired, because {hook.obstacle(min(stack, default=None))}")
        elif waiting:
            seeds = f"seed{'s' * (len(waiting) > 1)} {', '.join(map(str, waiting.values()))}"
            self.warn(f"{self.run.path}: {hook.text} never fired for {seeds}, because {hook.obstacle(min(waiting))}")

    def _by_seed(self, numbers: Numbers) -> list[Numbers]:
        """Return the numbers of each seed of a stack, or those of the run if it has one seed."""
        if not self.work.seeds:
            return [numbers]
        return [{name: v[member] for name, v in numbers.items()} for member in range(len(self.work.seeds))]

    def _lines(self, by_seed: Sequence[Numbers]) -> Iterator[tuple[dict[str, int], Numbers]]:
        """Yield the labels of a line of a log and its numbers: for each seed of a stack that has not diverged."""
        labels = [{"seed": seed} for seed in self.work.seeds] or [{}]
        for member, (label, own) in enumerate(zip(labels, by_seed, strict=True)):
            if member not in self.work.frozen:
                yield label, own

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _save(self, folder: str = "") -> None:
        """Save the state as a checkpoint, or in `folder` if later checkpoints must not remove it."""
        self.number += 1
        if not distributed.is_first():
            return
        if self.work.frozen:
            self.work.reset_frozen()
        if self.run.lock:
            self.run.lock.check()
        tree = {
            "step": self.step,
            "number": self.number,
            "best": None if self.best == -inf else self.best,
            "work": self.work.state(),
            "hooks": self.hooks.state_dict(),
            # PyTorch's global generators (CPU, and GPU if in use): random activations draw from them
            "torch": [torch.get_rng_state(), *([torch.cuda.get_rng_state()] if torch.cuda.is_initialized() else [])],
            "logs": self.run.log_lengths(self.step),
            "seconds": self.run.seconds(),
            **({"own task": [self.own_task, self.switches]} if self.own_task else {}),
            **({"diverged": {str(seed): how for seed, how in self.diverged.items()}} if self.diverged else {}),
        }
        where = self.run.path / folder if folder else self.run.checkpoints
        written = checkpoint.save(where, self.step, tree, self.run.identity, self.saved)
        if not folder:  # older best states can be removed only now: the run might have had to go back to one of them
            self.saved = written
            checkpoint.prune(where, self.work.settings.keep_checkpoints, self.step)
            checkpoint.prune(self.run.path / BEST, 1, self.step)

    def _restore(self) -> None:
        torch.manual_seed(derive(self.work.settings.members[0], "torch"))
        tree = checkpoint.load_newest(self.run.checkpoints, self.run.identity, self.warn)
        distributed.wait_for_all()  # no process prunes before all have read
        if tree is None:
            if self.start:
                raise RunError(f"{self.run.checkpoints}: this arm cannot start without the checkpoint of its fork")
            self._start_logs({}, 0.0)
            self._forget_later(0)
            return
        with restoring(self.run.checkpoints):
            self.restore(tree)
        self.saved = checkpoint.folder_of(self.run.checkpoints, self.step)
        self._forget_later(self.step)
        if distributed.is_first():
            checkpoint.prune(self.run.checkpoints, self.work.settings.keep_checkpoints, self.step)
        if self.step < self.end:
            self._start_logs(tree["logs"], tree["seconds"])
        else:  # a finished run is left untouched
            require_ended(self.run.path, tree["logs"])

    def _start_logs(self, lengths: dict[str, int], seconds: float) -> None:
        self.run.start_logs(lengths, seconds, self.work.logs)
        if distributed.is_first():
            self.started(self.step)

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the work, the hooks and the generators from a state that `_save` wrote."""
        self.step, self.number = state["step"], state["number"]
        self.own_task, self.switches = state.get("own task", ("", 0))
        behind = [task for task in self.work.tasks if task.start < self.step]
        for task in behind:
            self.work.enter(task)
        self.work.look_at(behind[-1], self.step)
        self.work.load_state(state["work"])
        self.hooks.load_state_dict(state["hooks"])
        self.diverged.update({int(seed): how for seed, how in state.get("diverged", {}).items()})
        if self.diverged:
            self._freeze(self.work.seeds.index(seed) for seed in self.diverged)
        torch.set_rng_state(state["torch"][0])
        for gpu in state["torch"][1:] if torch.cuda.is_available() else ():  # else it is only looked at, on a CPU
            torch.cuda.set_rng_state(gpu)
        if state["best"] is not None and self.step > self.start:  # an arm does not inherit the best value of its trunk
            self.best = state["best"]

    def _forget_later(self, step: int) -> None:
        """Remove kept states from after the step at which the run resumes, and the remains of interrupted writes.

        The run reaches those steps again, and on a GPU not necessarily with the same bits.
        """
        if distributed.is_first():
            for kept in (self.run.path / kind for kind in (BEST, KEPT)):
                later = (folder for folder in checkpoint.folders_of(kept) if int(folder.name) > step)
                for folder in (*later, *checkpoint.leftovers(kept)):
                    shutil.rmtree(folder)
