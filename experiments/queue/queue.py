"""Runs as a queue of folders. A worker takes the first run that can start.

The folder of a run says how the run ended (outcome.json) and which process is training it (its lock). Any number of
workers can therefore share a queue without knowing of each other.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple.engine.divergence import in_words
from supple.engine.loop import Warn
from supple.engine.runs import Run, open_run, prepare
from supple.engine.spec import FILE, TRACEBACK, RunSpec, note_versions, read_spec
from supple.engine.storage import versions
from supple.engine.storage.lock import Held, Lock, removal_error
from supple.engine.storage.names import TRUNK
from supple.engine.storage.signed_json import read_json, write_json
from supple.engine.user_code import plugins
from supple.registry.errors import CheckpointError, DiskError, describe_error

OUTCOME = "outcome.json"
FINISHED, FAILED = "finished", "failed"
DIVERGED = "diverged"  # in the outcome of a stack: seed → the step by which it had diverged, and the reason
POLL = 0.1  # seconds between checks of a queue while other workers have all runs that can start


@dataclass(frozen=True)
class QueuedRun:
    """A run of a queue: its specification, its folder, and how it ended.

    Attributes:
        path: The folder of its comparison.
        name: Its own folder inside that one, such as `seed-0/fire`.
        spec: Its specification.
    """

    path: Path
    name: str
    spec: RunSpec

    @property
    def folder(self) -> Path:
        return self.path / self.name

    @property
    def trunk(self) -> Path | None:
        """The folder of the run from whose end this one continues; None if it begins at step 0."""
        return self.path / self.spec.start.trunk if self.spec.start.trunk else None

    @property
    def begun(self) -> bool:
        """Whether the run has a folder with its specification."""
        return (self.folder / FILE).exists()

    @property
    def shape(self) -> tuple[object, ...]:
        """The study, the variant and the number of seeds: runs that agree in them have tensors of the same shapes."""
        labels = self.spec.labels
        return labels.study, repr(labels.variant), len(self.spec.seeds)

    @property
    def label(self) -> str:
        """A text for the user, such as `rates · seed 0 · learning_rate 0.1 · fire`."""
        labels = self.spec.labels
        variant = ", ".join(f"{name} {value}" for name, value in labels.variant.items())
        seeds = Path(self.name).parts[0].replace("-", " ", 1)
        return " · ".join(filter(None, [labels.study, seeds, variant, labels.arm or TRUNK]))

    # -- its outcome --------------------------------------------------------------------------------------------

    @property
    def outcome(self) -> dict[str, Any]:
        """The outcome: {"outcome": "finished"}, or "failed" with a reason. {} if the run has not ended.

        That of a stack some of whose seeds have diverged is "finished", and says by seed when and why.
        """
        return read_outcome(self.folder)

    @property
    def diverged(self) -> dict[str, str]:
        """The seeds of a stack that diverged → when and why, in words."""
        return in_words(self.outcome.get(DIVERGED, {}))

    @property
    def failed(self) -> bool:
        return self.outcome.get("outcome") == FAILED

    @property
    def open(self) -> bool:
        """Whether the run still has to be trained: it has no outcome, and its trunk has not failed."""
        if self.outcome:
            return False
        return not self.trunk or read_outcome(self.trunk).get("outcome") != FAILED

    @property
    def ready(self) -> bool:
        """Whether the run can start: it has no trunk, or its trunk has ended."""
        return self.trunk is None or bool(read_outcome(self.trunk))

    def record(self, outcome: str, **more: Any) -> None:
        """Record the outcome of the run."""
        write_json(self.folder / OUTCOME, {"outcome": outcome, **more})

    def record_death(self, reason: str) -> None:
        """Record that the run failed because its process died, unless another process has taken it over."""
        if held := self.lock():
            with held:
                if not self.outcome:
                    self.record(FAILED, reason=reason)

    def retry(self) -> None:
        """Remove the outcome of a failed run and record the plug-ins with which it will be trained again.

        Does nothing if another process has begun to train it again.
        """
        if self.failed and (held := self.lock()):
            with held:
                if self.failed:
                    if self.begun:
                        note_versions(self.folder, read_spec(self.folder))
                    (self.folder / OUTCOME).unlink()

    def lock(self) -> Lock | None:
        """Return the lock on the folder of the run, or None if another process has it.

        Raises Lost if the folder of the comparison was removed. It is not made anew.
        """
        if not self.path.is_dir():
            raise removal_error(self.path)
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            return Lock(self.folder)
        except Held:
            return None

    # -- its training --------------------------------------------------------------------------------------------

    def train(self, held: Lock, progress: Callable[[int, int], None], warn: Warn) -> None:
        """Train the run to its end and record its outcome.

        If another process has taken the run over in the meantime, that process records the outcome.

        Args:
            held: This process's lock on the folder.
            progress: Called with the current and the last step.
            warn: Called with lines for the user.

        Raises:
            DiskError: The disk failed, so that other runs would fail too.
        """
        with suppress(Held):
            try:
                if run := self._open(held, warn):
                    end = run.spec.end
                    run.train(lambda step: progress(step, end), held)
                    ends = {str(seed): how for seed, how in run.divergences.items()}
                    self._record_end(held, FINISHED, **({DIVERGED: ends} if ends else {}))
            except (Held, DiskError):
                raise
            except Exception as error:
                reason, file = describe_error(error), self.folder / TRACEBACK
                more = f"; its traceback is in {file}" if file.exists() else ""
                self._record_end(held, FAILED, reason=reason + more)

    def _open(self, held: Lock, warn: Warn) -> Run | None:
        """Return the run in its folder, which is made if there is none.

        None is returned if the trunk turns out to be damaged. The trunk is then trained again from an earlier
        checkpoint.
        """
        if self.begun:
            return open_run(self.folder, warn)
        try:
            run = prepare(self.spec, self.folder, lambda line: None, held, self.trunk)  # the plan told the user already
        except CheckpointError:
            if self.trunk is None:
                raise
            (self.trunk / OUTCOME).unlink(missing_ok=True)  # so that it is trained again
            return None
        run.warn = warn
        return run

    def _record_end(self, held: Lock, outcome: str, **more: Any) -> None:
        """Record the outcome. Raises DiskError if it cannot be written."""
        try:
            held.check()
            self.record(outcome, **more)
        except OSError as error:
            where = error.filename or self.folder
            again = f"`{plugins.command('resume', self.path)}` continues"
            raise DiskError(f"{where}: {error.strerror}; {again}") from error


def read_outcome(folder: Path) -> dict[str, Any]:
    """Return the outcome of the run in a folder, or {} if it has not ended."""
    file = folder / OUTCOME
    return read_json(file, str(file)) if file.exists() else {}


class Queue(tuple[QueuedRun, ...]):
    """The runs of a comparison or a sweep, each after the trunk from which it continues."""

    __slots__ = ()

    @property
    def left(self) -> list[QueuedRun]:
        """The runs that still have to be trained."""
        return [run for run in self if run.open]

    @property
    def failed(self) -> list[QueuedRun]:
        """The runs that have failed."""
        return [run for run in self if run.failed]

    @property
    def ended(self) -> int:
        """The number of runs with an outcome."""
        return sum(bool(run.outcome) for run in self)

    def other_versions(self, path: Path) -> str:
        """Return a line if runs remain, and some in `path` were trained under other versions; otherwise ""."""
        if not self.left:
            return ""
        known = {run.name: read_spec(run.folder).resolved.versions for run in self if run.begun}
        return versions.remark(path, known, plugins.sums())

    def work_off(self, train: Callable[[QueuedRun, Lock], None]) -> None:
        """Train one run after another, each with the lock on its folder, until all have an outcome.

        Waits while other processes train the remaining runs or depend on such runs. Arms whose trunk failed
        are skipped. Runs of the same shapes as the last one come first, because they use what it has compiled.

        Args:
            train: Called with a run and the lock on its folder.
        """
        last: object = None
        while left := self.left:  # of all runs: a trunk that turns out to be damaged is open again
            for run in sorted(left, key=lambda run: run.shape != last):
                if run.ready and (held := run.lock()):
                    last = run.shape
                    with held:
                        if run.open:  # no other process was faster
                            train(run, held)
                    break
            else:
                time.sleep(POLL)
