"""The runs of a comparison as a queue of folders. A worker takes the first run that can start.

The folder of a run says how the run ended (outcome.json) and which process is training it (its claim). Any number of
workers can therefore share a queue without knowing of each other.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...engine.forks import Variant, fork
from ...engine.loop import Warn
from ...engine.runs import build, configuration, staying, train
from ...engine.settings import RunSettings, Seeds
from ...engine.storage import files, versions
from ...engine.storage.claim import Claim, Claimed, claim, removal_error
from ...engine.storage.names import TRUNK
from ...engine.storage.run_directory import RunDirectory
from ...engine.storage.signed_json import read_json, write_json
from ...engine.user_code.blame import blaming
from ...registry import is_interruption
from ...registry.errors import CheckpointError, DiskError, PluginFailed, RunError, UsageError, in_words
from ..comparisons.comparison import Comparison, folder_of, folder_of_arm

OUTCOME = "outcome.json"
FINISHED, FAILED = "finished", "failed"
POLL = 0.1  # seconds between checks of a queue while other workers have all runs that can start


@dataclass(frozen=True)
class Job:
    """One run of the comparison in `path`: an arm, or a trunk if `arm` is None, in one variant of the settings.

    It has one seed, or several if they are trained as a stack. `study` is the comparison's name in a sweep.
    """

    path: Path
    comparison: Comparison
    seeds: Seeds
    arm: str | None
    variant: Variant
    study: str = ""

    @property
    def trunk(self) -> "Job | None":
        """The run from whose end this one continues; None if it begins at step 0."""
        if self.arm is None or not self.comparison.fork_step:
            return None
        variant = self.variant if self.variant in self.comparison.trunks else {}
        return replace(self, arm=None, variant=variant)

    @property
    def folder(self) -> Path:
        own = folder_of_arm(TRUNK if self.arm is None else self.arm, self.variant)
        return self.path / folder_of(self.seeds) / own

    @property
    def root(self) -> Path:
        """The folder that the user named: that of the comparison or, in a sweep, that of the sweep."""
        return self.path.parents[len(Path(self.study).parts) - 1] if self.study else self.path

    @property
    def label(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.variant.items())
        seeds = folder_of(self.seeds).replace("-", " ", 1)
        return " · ".join(filter(None, [self.study, seeds, words, self.arm or TRUNK]))

    @property
    def settings(self) -> RunSettings:
        c = self.comparison
        return replace(c.settings.of_seeds(c.seeds)[self.seeds], **self.variant)

    # -- its outcome --------------------------------------------------------------------------------------------

    @property
    def outcome(self) -> dict[str, Any] | None:
        """The outcome: {"outcome": "finished"}, or "failed" with a reason. None if the run has not ended."""
        file = self.folder / OUTCOME
        return read_json(file, str(file)) if file.exists() else None

    def ended(self, outcome: str, **more: Any) -> None:
        """Record the outcome of the run. Raises NotPlain if there is a link on the way to its folder."""
        files.require_own(self.folder, self.root)
        files.make_folder(self.folder)
        write_json(self.folder / OUTCOME, {"outcome": outcome, **more})

    def forget(self) -> None:
        """Remove the outcome, so that the run is tried again."""
        files.require_own(self.folder, self.root)
        (self.folder / OUTCOME).unlink(missing_ok=True)

    def retry(self) -> None:
        """Remove the outcome of a failed run, unless another process has begun to train it again."""
        if self.failed and (held := self.claim()):
            with held, held.writing():
                if self.failed:
                    self.forget()

    @property
    def failed(self) -> bool:
        return (self.outcome or {}).get("outcome") == FAILED

    @property
    def open(self) -> bool:
        """Whether the run still has to be trained: it has no outcome, and its trunk has not failed."""
        return self.outcome is None and not (self.trunk and self.trunk.failed)

    @property
    def ready(self) -> bool:
        """Whether the run can start: it has no trunk, or its trunk has ended."""
        return self.trunk is None or self.trunk.outcome is not None

    def claim(self) -> Claim | None:
        """Return a claim on the folder of the run, or None if another process has one.

        Raises:
            Lost: The folder of the comparison was removed. It is not made anew.
            NotPlain: There is a link on the way to the folder.
        """
        if not self.path.is_dir():
            raise removal_error(self.path)
        files.require_own(self.folder, self.root)
        files.make_folder(self.folder)
        try:
            return claim(self.folder)
        except Claimed:
            return None

    def left(self, reason: str) -> None:
        """Record that the run failed because its process died, unless another process has taken it over."""
        if held := self.claim():
            with held:
                if self.outcome is None:
                    with held.writing():
                        self.ended(FAILED, reason=reason)

    # -- its training --------------------------------------------------------------------------------------------

    def attempt(self, held: Claim, progress: Callable[[int, int], None], warn: Warn) -> None:
        """Train the run to its end and record its outcome. `progress` takes the current and the last step.

        If another process has taken the run over in the meantime, that process records the outcome.

        Raises:
            DiskError: The disk failed, so that other runs would fail too.
        """
        with suppress(Claimed):
            try:
                with blaming():
                    if self._begin(held):
                        end = RunDirectory.open(self.folder).end
                        train(self.folder, lambda step: progress(step, end), warn, held)
                        self._end(held, FINISHED)
            except (Claimed, DiskError):
                raise
            except BaseException as error:  # other people's code may raise anything
                if is_interruption(error):
                    raise
                known = isinstance(error, (RunError, UsageError)) and not isinstance(error, PluginFailed)
                more = {} if known else {"traceback": traceback.format_exc()}
                self._end(held, FAILED, reason=in_words(error), **more)

    def _end(self, held: Claim, outcome: str, **more: Any) -> None:
        """Record the outcome. Raises DiskError if it cannot be written."""
        try:
            with held.writing():
                self.ended(outcome, **more)
        except files.NotPlain:
            raise
        except OSError as error:
            where = error.filename or self.folder
            raise DiskError(f"{where}: {error.strerror}; `supple resume {self.path}` continues") from error

    def _begin(self, held: Claim) -> bool:
        """Make the folder of the run if there is none, and return whether there is one now.

        There is none if the trunk turns out to be damaged. The trunk is then trained again from an earlier checkpoint.
        """
        if (self.folder / "config.json").exists():
            return True
        c, settings = self.comparison, self.settings
        if self.arm is None:
            config = {**self._configuration(settings), "stop_step": c.fork_step}
            with held.writing():
                RunDirectory.create(self.folder, config)
            return True
        own = c.own(self.arm)
        if (trunk := self.trunk) is None:
            config = {**self._configuration(replace(settings, **own)), "arm": self.arm}
            with held.writing():
                RunDirectory.create(self.folder, config | {"stop_step": c.stop_step or None})
            return True
        with RunDirectory.open(trunk.folder) as run:
            settings, step, source = c.kind.forks().beginning(settings, run, c.fork_step)
            config = {name: value for name, value in run.config.items() if name != versions.LATER}
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
                with held.writing():
                    fork(run, source, self.folder, config)
            except CheckpointError:
                trunk.forget()
                return False
        return True

    @staying()
    def _configuration(self, settings: RunSettings) -> dict[str, Any]:
        """Return the contents of config.json for a run that is not part of a comparison."""
        kind = self.comparison.kind
        work = build(kind, settings, lambda line: None)  # the user saw any warnings when the comparison was checked
        try:
            config = configuration(kind, settings, work, self.comparison.command)
        finally:
            work.close()
        return {**config, "variant": dict(self.variant)} if self.variant else config


def jobs_of(path: Path, comparison: Comparison, study: str = "") -> list[Job]:
    """Return all runs of the comparison in `path`, trunks first. `study` is the comparison's name in a sweep."""
    seeds = list(comparison.settings.of_seeds(comparison.seeds))
    trunks = [(None, variant) for variant in comparison.trunks] if comparison.fork_step else []
    return [
        Job(path, comparison, s, arm, variant, study)
        for runs in (trunks, comparison.points)
        for s in seeds
        for arm, variant in runs
    ]


def other_versions(path: Path, jobs: Sequence[Job]) -> str:
    """Return a line if jobs remain, and some of those in `path` were trained under other versions, or ""."""
    return versions.remark(path, (job.folder for job in jobs)) if any(job.open for job in jobs) else ""


def work_off(jobs: list[Job], attempt: Callable[[Job, Claim], None]) -> None:
    """Attempt one job after another, each with a claim on its folder, until all have an outcome.

    Waits while the remaining jobs are claimed by other processes or depend on such jobs. Arms whose trunk failed are
    skipped.
    """
    while left := [job for job in jobs if job.open]:  # of all jobs: a trunk that turns out to be damaged is open again
        for job in left:
            if job.ready and (held := job.claim()):
                with held:
                    if job.open:  # no other process was faster
                        attempt(job, held)
                break
        else:
            time.sleep(POLL)
