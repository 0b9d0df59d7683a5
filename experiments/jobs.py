"""The runs of a comparison as a queue of folders: whoever comes takes the first that can begin.

What became of a run stands in its folder, in outcome.json, and who is at work on it in its claim. So any number of
workers can take run after run, and none needs to know of another.
"""

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .claim import Claim, Claimed, claim
from .comparison import Comparison, folder_of, folder_of_arm
from .errors import CheckpointError, DiskError, RunError, UsageError, in_words
from .fork import Variant, fork
from .loop import Warn
from .rundir import RunDirectory
from .runs import build, configuration, train
from .sealed import read_json, write_json
from .settings import RunSettings, Seeds

OUTCOME = "outcome.json"
FINISHED, FAILED = "finished", "failed"
POLL = 0.1  # seconds between two looks at a queue in which all is in other hands


@dataclass(frozen=True)
class Job:
    """One run of a comparison that lies in `path`: the trunk of a seed or of a stack of them (`arm` None), or an arm,
    in one variant of the settings. study: the comparison's name in a sweep."""

    path: Path
    comparison: Comparison
    seeds: Seeds
    arm: str | None
    variant: Variant
    study: str = ""

    @property
    def trunk(self) -> "Job | None":
        """The run from whose end this one goes on; None where it begins at step 0."""
        if self.arm is None or not self.comparison.fork_step:
            return None
        variant = self.variant if self.variant in self.comparison.trunks else {}
        return replace(self, arm=None, variant=variant)

    @property
    def folder(self) -> Path:
        own = folder_of_arm("trunk" if self.arm is None else self.arm, self.variant)
        return self.path / folder_of(self.seeds) / own

    @property
    def label(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.variant.items())
        seeds = folder_of(self.seeds).replace("-", " ", 1)
        return " · ".join(filter(None, [self.study, seeds, words, self.arm or "trunk"]))

    @property
    def settings(self) -> RunSettings:
        c = self.comparison
        return replace(c.settings.of_seeds(c.seeds)[self.seeds], **self.variant)

    # -- what became of it --------------------------------------------------------------------------------------

    @property
    def outcome(self) -> dict[str, Any] | None:
        """The outcome: {"outcome": "finished"}, or "failed" with a reason. None while it is not at its end."""
        file = self.folder / OUTCOME
        return read_json(file, str(file)) if file.exists() else None

    def ended(self, outcome: str, **more: Any) -> None:
        """Write down what became of it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(self.folder / OUTCOME, {"outcome": outcome, **more})

    def forget(self) -> None:
        """Let it be tried again."""
        (self.folder / OUTCOME).unlink(missing_ok=True)

    @property
    def failed(self) -> bool:
        return (self.outcome or {}).get("outcome") == FAILED

    @property
    def open(self) -> bool:
        """Whether it may still come to its end."""
        return self.outcome is None and not (self.trunk and self.trunk.failed)

    @property
    def ready(self) -> bool:
        """Whether it can begin: where it has a trunk, that is at its end."""
        return self.trunk is None or self.trunk.outcome is not None

    def claim(self) -> Claim | None:
        """Return a claim on its folder; None if another process has one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return claim(self.folder)
        except Claimed:
            return None

    def left(self, reason: str) -> None:
        """Write down that it failed, for its process died at it, unless another process goes on with it already."""
        if held := self.claim():
            with held:
                if self.outcome is None:
                    self.ended(FAILED, reason=reason)

    # -- how it is trained ---------------------------------------------------------------------------------------

    def attempt(self, held: Claim, progress: Callable[[int, int], None], warn: Warn) -> None:
        """Bring it to its end, and write down its outcome, whatever becomes of it.

        held: this process's claim on its folder. progress: takes the step and the last one.
        Another process may have taken it over meanwhile, and then writes down what becomes of it.
        Raises DiskError, which every other run would meet as well."""
        try:
            if self._begin():
                end = RunDirectory.open(self.folder).end
                train(self.folder, lambda step: progress(step, end), warn, held)
                self.ended(FINISHED)
        except DiskError:
            raise
        except Claimed:
            return
        except (Exception, SystemExit) as error:  # an environment may raise anything
            known = isinstance(error, (RunError, UsageError))
            self.ended(FAILED, reason=in_words(error), **({} if known else {"traceback": traceback.format_exc()}))

    def _begin(self) -> bool:
        """Make its folder where there is none yet. Returns whether there is one: where its trunk turns out to be
        damaged, that has to come to its end again, from an earlier checkpoint."""
        if (self.folder / "config.json").exists():
            return True
        c, settings = self.comparison, self.settings
        if self.arm is None:
            RunDirectory.create(self.folder, {**self._configuration(settings), "stop_step": c.fork_step})
            return True
        own = c.own(self.arm)
        if (trunk := self.trunk) is None:
            config = {**self._configuration(replace(settings, **own)), "arm": self.arm}
            RunDirectory.create(self.folder, config | {"stop_step": c.stop_step or None})
            return True
        with RunDirectory.open(trunk.folder) as run:
            settings, step, source = c.kind.forks().beginning(settings, run, c.fork_step)
            config = dict(run.config)
            if self.variant not in c.trunks:
                config |= self._configuration(settings)
            config |= {
                "settings": {**config["settings"], **own},
                "hooks": [*config["hooks"], *own["hook"]],
                "arm": self.arm,
                "start_step": step,
                "stop_step": None,
            }
            try:
                fork(run, source, self.folder, config)
            except CheckpointError:
                trunk.forget()
                return False
        return True

    def _configuration(self, settings: RunSettings) -> dict[str, Any]:
        """Return the contents of config.json of a run that is no part of a comparison."""
        kind = self.comparison.kind
        work = build(kind, settings, lambda line: None)  # what there was to say was said when all was checked
        try:
            config = configuration(kind, settings, work, self.comparison.command)
        finally:
            work.close()
        return {**config, "variant": dict(self.variant)} if self.variant else config


def jobs_of(path: Path, comparison: Comparison, study: str = "") -> list[Job]:
    """Return every run of a comparison that lies in `path`, trunks first. study: its name in a sweep."""
    seeds = list(comparison.settings.of_seeds(comparison.seeds))
    trunks = [(None, variant) for variant in comparison.trunks] if comparison.fork_step else []
    return [
        Job(path, comparison, s, arm, variant, study)
        for runs in (trunks, comparison.points)
        for s in seeds
        for arm, variant in runs
    ]


def work_off(jobs: list[Job], attempt: Callable[[Job, Claim], None]) -> None:
    """Attempt one job after another, each with a claim on its folder, until all have an outcome.

    Waits where all that is left is in other hands, or goes on from what is. An arm whose trunk failed is left."""
    while left := [job for job in jobs if job.open]:  # of all: a trunk that turns out to be damaged is open again
        for job in left:
            if job.ready and (held := job.claim()):
                with held:
                    if job.open:  # nobody was faster
                        attempt(job, held)
                break
        else:
            time.sleep(POLL)
