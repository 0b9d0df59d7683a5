"""The training loop of these tracks: batch → update → hooks → measure → evaluate → log → checkpoint, by tasks."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite

import torch
from torch import Tensor

from ..experiments import checkpoint
from ..experiments.errors import RunError
from ..experiments.hooks import HookDriver
from ..experiments.rundir import OF_CLASSIFIERS, RunDirectory
from ..experiments.seeding import derive
from ..metrics import View, measure
from . import distributed
from .work import Task, Work

Progress = Callable[[int], None]
EVERY = 20  # updates between two signs of progress, at which a diverged loss is noticed
BEST, KEPT = "best", "kept"  # folders of checkpoints that later ones do not push out


@dataclass
class Loop:
    """One run between its start and its end, at an update (`step`) that only grows."""

    run: RunDirectory
    work: Work
    hooks: HookDriver
    start: int
    end: int
    warn: Callable[[str], None]
    step: int = 0
    best: float = inf  # the smallest number that `Work.improved` gave

    def __post_init__(self) -> None:
        self.settings, self.learner = self.work.settings, self.work.learner
        device = next(self.learner.module.parameters()).device
        self.sum = torch.zeros((), dtype=torch.float64, device=device)  # of the losses since the last line
        self.count = 0

    def train(self, progress: Progress) -> None:
        """Go on from the newest intact checkpoint, or from the beginning, to the end."""
        self._restore()
        progress(self.step)
        for task in self.work.tasks:
            if task.start <= self.step < min(task.end, self.end):
                self._learn(task, progress)

    def _learn(self, task: Task, progress: Progress) -> None:
        self.learner.module.train()
        if self.step == task.start:
            self._begin(task)
        s, until = self.settings, min(task.end, self.end)
        while self.step < until:
            self.sum += self._update(task, self.step - task.start)
            self.count += 1
            self.step += 1
            self.hooks.passed(self.step - 1, self.step)
            if self.step % EVERY == 0 or self.step == until:
                self._check()
                progress(self.step)
            if self.step % s.measure_every == 0 or self.step == until:
                self._measure(task)
            if self.step == task.end:
                self._finish(task)
            elif self.step == until or (s.eval_every and self.step % s.eval_every == 0):
                self._evaluate(task)
            if self.step in self.work.kept:
                self._save(KEPT)
            if self.step == self.end or self.step % s.checkpoint_every == 0:
                self._check()
                self._save()

    def _update(self, task: Task, update: int) -> Tensor:
        """One optimizer step; returns its loss, penalties left out."""
        work, optimizer = self.work, self.learner.optimizer
        assert optimizer is not None
        work.place = task, update
        optimizer.zero_grad(set_to_none=True)
        total = torch.zeros_like(self.sum)
        for part in range(work.parts):
            with work.accumulating(part):
                loss = work.loss(task, update, part) / work.parts
                loss.backward()
            total += loss.detach()
        if self.hooks.penalizes and (penalty := self.hooks.penalty(self.learner)).requires_grad:
            penalty.backward()
        if self.settings.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.learner.module.parameters(), self.settings.clip)
        for group in optimizer.param_groups:
            group["lr"] = work.rate(task, update) * group["initial_lr"]
        if self.hooks.precedes_updates:
            self.hooks.before_update(self.learner)
        optimizer.step()
        if self.hooks.follows_updates:
            self.hooks.after_update(self.learner)
        return distributed.mean(total)

    def _begin(self, task: Task) -> None:
        work = self.work
        if self.step == self.start and task.index:  # a fork: the trunk's hooks saw the last task end, not ours
            earlier = work.tasks[task.index - 1]
            work.place = earlier, earlier.updates - 1
            self.hooks.finished()
        work.enter(task)
        work.place = task, 0
        if self.step == self.start:
            self.hooks.passed(self.start - 1, self.start)
        self.run.event(event="task", step=self.step, task=task.index, name=task.name)
        if task.index:
            self.hooks.switched(self.step, task.index)
        self._evaluate(task)

    def _finish(self, task: Task) -> None:
        """The end of a task: how well it was learned."""
        numbers = self._evaluate(task)
        place = {"step": self.step, "task": task.index, "name": task.name, "seed": self.settings.seed}
        self.run.task(**place, updates=task.updates, **numbers, **self.work.finish(task))
        self.run.flush()
        self.hooks.finished()

    def _evaluate(self, task: Task) -> dict[str, float]:
        self.learner.module.eval()
        numbers = self.work.evaluate(task)
        self.learner.module.train()
        line: dict[str, float] = {"task": task.index, **numbers}
        if self.count:
            line["train_loss"] = float(self.sum) / self.count
            self.sum.zero_()
            self.count = 0
        self.run.metrics(self.step, line)
        self.run.flush()
        # where nothing was learned yet, nothing is best: nobody could start there
        if self.step and (number := self.work.improved(task, numbers, self.best)) is not None:
            self.best = number
            self._save(BEST)
        return numbers

    def _measure(self, task: Task) -> None:
        found = measure(View(self.learner), True, costly=self.settings.curvature)
        numbers: dict[str, float] = {f"{self.learner.name}/{name}": value for name, value in found.items()}
        numbers |= {name: float(value) for name, value in self.hooks.numbers().items()}
        self.run.metrics(self.step, {"task": task.index, **numbers})
        self.run.flush()
        self.hooks.measured(self.step, numbers)

    def _check(self) -> None:
        """Raise RunError if the loss was not finite. What was saved stays."""
        sound = [torch.isfinite(p.detach()).all() for p in self.learner.module.parameters() if p.requires_grad]
        if not isfinite(float(self.sum)) or (sound and not bool(torch.stack(sound).all())):
            raise RunError(
                f"training diverged by update {self.step}, its loss is not finite: a smaller --learning-rate may help; "
                f"the last checkpoint is kept"
            )

    # -- checkpoints --------------------------------------------------------------------------------------------

    def _save(self, folder: str = "") -> None:
        """Save the state; in a folder of its own where later checkpoints are not to push it out."""
        if not distributed.first():
            return
        tree = {
            "step": self.step,
            "best": None if self.best == inf else self.best,
            "sum": self.sum,
            "count": self.count,
            "work": self.work.state(),
            "torch": torch.get_rng_state(),
            "cuda": torch.cuda.get_rng_state(self.sum.device) if self.sum.is_cuda else None,
            "hooks": self.hooks.state_dict(),
            "logs": self.run.log_lengths(),
            "seconds": self.run.seconds(),
        }
        where = self.run.path / folder if folder else self.run.checkpoints
        checkpoint.save(where, self.step, tree, self.run.identity)
        if not folder:  # only now is a best state from before of no more use: the run could have had to go back to it
            checkpoint.prune(where, self.settings.keep_checkpoints, self.step)
            checkpoint.prune(self.run.path / BEST, 1, self.step)

    def _restore(self) -> None:
        torch.manual_seed(derive(self.settings.seed, "torch"))
        tree = checkpoint.newest(self.run.checkpoints, self.run.identity, self.warn)
        distributed.together()  # nobody prunes before everybody has read
        self._forget_later(0 if tree is None else tree["step"])
        if tree is None:
            if self.start:
                raise RunError(f"{self.run.checkpoints}: a fork without its checkpoint cannot begin")
            self.run.start_logs({}, 0.0, OF_CLASSIFIERS)
            return
        self.step, self.count = tree["step"], tree["count"]
        self.sum.copy_(tree["sum"])
        self.best = inf if tree["best"] is None else tree["best"]
        for task in self.work.tasks:
            if task.start < self.step:
                self.work.enter(task)
                self.work.place = task, min(self.step, task.end) - task.start - 1
        self.work.load_state(tree["work"])
        torch.set_rng_state(tree["torch"])
        if self.sum.is_cuda and tree.get("cuda") is not None:
            torch.cuda.set_rng_state(tree["cuda"], self.sum.device)
        self.hooks.load_state_dict(tree["hooks"])
        if self.step == self.start:  # a fork begins its own account
            self.best, self.count = inf, 0
            self.sum.zero_()
        if self.step < self.end:  # a finished run is left untouched
            self.run.start_logs(tree["logs"], tree["seconds"], OF_CLASSIFIERS)

    def _forget_later(self, step: int) -> None:
        """Drop the states that were kept after the checkpoint from which the run goes on: it comes there again, and on
        a GPU not bit for bit."""
        if distributed.first():
            for folder in (each for kind in (BEST, KEPT) for each in (self.run.path / kind).glob("*")):
                if folder.name.isdigit() and int(folder.name) > step:
                    shutil.rmtree(folder)
