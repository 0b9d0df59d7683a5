"""Runs and comparisons that are killed, run out of disk or are resumed by two at once: all end with the same bytes.

    unshare --user --map-root-user --mount python tests/stress/kills.py --out docs/results/reliability/kills.jsonl

Every kind of run, and comparisons with a fork, are trained once undisturbed. Then every trial does the same again and
disturbs it. It holds if the end has the bytes of the undisturbed run (logs without their clocks, tensors, the names of
all files), and nothing on the way was a traceback, more than one line, or a process that did not end. A trial is one
line of the file `out`; those that it has already are left out, so an interrupted loop goes on. Full disks are small
file systems in memory, which need root or a name space of their own, as above.
"""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import tyro
from forked import LIMIT, Disturbed, Forked, describe_folder, find_workers, has_failed, import_everything, start
from small_runs import RUNS, STACKS, command, compared, places

COMPARED = {
    "ppo": "--fork-at 0.5 --arm none --arm fire --seeds 0-1",
    "vision": "--fork-at-task 1 --arm none --arm snp",
    "linear": "--fork-at 0.5 --arm none --arm rebalance(lam=5) --seeds 0-1",
}
LONGER = {"ppo": "--steps 16384", "sac": "--steps 1600", "linear": "--updates-per-task 2000"}  # than people wait
SAID = {signal.SIGINT: "supple: interrupted", signal.SIGTERM: "supple: terminated"}
DISK = 64 << 20  # bytes


@dataclass(frozen=True)
class Args:
    out: Path  # a file of JSON lines
    rounds: int = 12  # trials of every kind of run
    comparisons: int = 6  # trials of every comparison
    disks: int = 4  # trials with a full disk of every kind of run and comparison
    twice: int = 8  # trials of three kinds of run, begun or resumed by two at once, and of one comparison
    only: tuple[str, ...] = ()  # these sorts of trials, such as "runs killed"; nothing: all
    seed: int = 0


@dataclass
class Subject:
    """A command that makes a run or a comparison, and what it makes if nothing disturbs it."""

    kind: str
    begin: Callable[[Path], list[str]]
    plan: str  # the file that is there once it has begun
    seconds: float = 0.0
    whole: dict[str, Any] = field(default_factory=dict)

    @property
    def is_comparison(self) -> bool:
        return self.plan == "comparison.json"

    def words(self, out: Path) -> list[str]:
        """Return the command that goes on with it in a folder, or begins it."""
        if not (out / self.plan).is_file():
            return self.begin(out)
        return ["resume", str(out), *["--retry-failed"] * has_failed(out)]

    def train(self, folder: Path) -> None:
        """Train it undisturbed."""
        started, process = time.monotonic(), start(self.begin(folder), folder.with_name("errors"))
        assert process.wait() == 0, process.read_errors()
        self.seconds, self.whole = time.monotonic() - started, describe_folder(folder)


class Trial(Disturbed):
    """A run or comparison that is disturbed."""

    def __init__(self, subject: Subject, title: str, place: Path) -> None:
        super().__init__(title, place)
        self.subject = subject
        self.notes: list[str] = []

    def start(self, die_at: int = 0, name: str = "errors") -> Forked:
        return start(self.subject.words(self.out), self.place / name, die_at, self.out)

    def finish(self) -> None:
        """Let it finish undisturbed, and compare the result."""
        if self.expect_end(self.start(), 0) == 0:
            self.compare()

    def compare(self) -> None:
        self.expect_same(describe_folder(self.out), self.subject.whole)


# -- trials -----------------------------------------------------------------------------------------------------------


def kill_at_random(trial: Trial) -> None:
    """Kill it a few times at random moments, then let it finish."""
    for _ in range(trial.draw.randint(2, 5)):
        kill = kill_before_a_change if trial.draw.random() < 0.4 else kill_after_a_time
        code = kill(trial)
        _, left = psutil.wait_procs(find_workers(), timeout=3)
        if left:
            trial.wrong.append(f"{len(left)} workers outlived their parent")
        if code == 0 or trial.wrong:
            break
    trial.finish()


def kill_before_a_change(trial: Trial) -> int | None:
    """Let the process kill itself right before it changes a file."""
    code = trial.expect_end(trial.start(die_at=(change := trial.draw.randint(1, 60))), 0, -signal.SIGKILL)
    if code:
        trial.kills.append(f"before change {change}")
    return code


def kill_after_a_time(trial: Trial) -> int | None:
    """Send it a signal, or kill one of its workers: then the command goes on with other runs to its end."""
    draw, process = trial.draw, trial.start()
    time.sleep(draw.uniform(0, 0.7 * trial.subject.seconds))
    if (busy := find_workers()) and draw.random() < 0.4:
        with contextlib.suppress(psutil.Error):
            draw.choice(busy).kill()
            trial.kills.append("a worker")
            return trial.expect_end(process, 0, 1)  # 0: it was at no run
    number = draw.choices((signal.SIGKILL, signal.SIGTERM, signal.SIGINT), (8, 1, 1))[0]
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)
    code = trial.expect_end(process, 0, -signal.SIGKILL, 128 + signal.SIGTERM, 128 + signal.SIGINT)
    if code:
        trial.kills.append(number.name)
        begun = (trial.out / trial.subject.plan).exists()
        if begun and number in SAID and not "".join(process.read_errors()[-1:]).startswith(SAID[number]):
            trial.wrong.append(f"{number.name}: {process.read_errors()}")
    return code


def fill_the_disk(trial: Trial) -> None:
    """Start and resume it with little room on the disk, then with enough."""
    with small_disk(trial.place / "disk") as disk:
        trial.out, ballast = disk / "out", disk / "ballast"
        for _ in range(trial.draw.randint(2, 4)):
            leave_room(ballast, room := int(math.exp(trial.draw.uniform(math.log(2048), math.log(DISK / 16)))))
            process = trial.start()
            code = trial.expect_end(process, 0, 1)
            trial.notes.append(f"{room} bytes: {'room enough' if code == 0 else 'full'}")
            if code == 1 and "No space left on device" not in process.read_errors()[-1]:
                trial.wrong.append(f"full disk: {process.read_errors()}")
            if code == 1 and len(process.read_errors()) > 1:
                trial.wrong.append(f"several lines: {process.read_errors()}")
            if code == 0:
                break
        ballast.unlink()
        trial.finish()


def resume_twice(trial: Trial) -> None:
    """Resume it by two processes at once."""
    process, until = trial.start(), time.monotonic() + LIMIT
    while not (trial.subject.is_comparison or list(trial.out.glob("checkpoints/0*"))) and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(trial.draw.uniform(0, 0.3 * trial.subject.seconds))
    os.kill(process.pid, signal.SIGKILL)
    if trial.expect_end(process, 0, -signal.SIGKILL):
        trial.kills.append("SIGKILL")
    start_two(trial)


def begin_twice(trial: Trial) -> None:
    """Start it by two processes in one folder at once."""
    start_two(trial)


def start_two(trial: Trial) -> None:
    """Start it twice: one ends well; the other is refused in one line, or ends well too, where it waited for it or
    took other runs of the comparison."""
    pair = []
    for name in ("first", "second"):
        time.sleep(trial.draw.uniform(0, 0.05))
        pair.append(trial.start(name=name))
    codes = [trial.expect_end(process, 0, 1, 2) for process in pair]
    if 0 not in codes:
        trial.wrong.append(f"both were refused: {[process.read_errors() for process in pair]}")
        return
    for code, process, other in zip(codes, pair, reversed(pair), strict=True):
        if code:
            said = process.read_errors()
            trial.notes.append("refused")
            named = f"process {other.pid} on" in said[-1] if code == 1 else "already holds" in said[-1]
            if len(said) > 1 or not named:
                trial.wrong.append(f"refused in other words: {said}")
    trial.compare()


@contextlib.contextmanager
def small_disk(place: Path) -> Iterator[Path]:
    """Mount a small file system within this block."""
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def leave_room(ballast: Path, room: int) -> None:
    """Fill a disk but for so many bytes, in whole pages."""
    ballast.unlink(missing_ok=True)
    state = os.statvfs(ballast.parent)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(state.f_bavail * state.f_frsize - room, 1))


# -- all of them ------------------------------------------------------------------------------------------------------


def make_subjects(data: dict[str, str]) -> dict[str, dict[str, Subject]]:
    """Return runs, longer runs and comparisons, by kind."""

    def make_run(kind: str, more: str = "") -> Subject:
        return Subject(kind, lambda out: [*command(kind, data, out), *more.split()], "config.json")

    def make_comparison(kind: str, arms: str) -> Subject:
        return Subject(kind, lambda out: compared(kind, data, out, f"{arms} --jobs 2"), "comparison.json")

    return {
        "runs": {kind: make_run(kind) for kind in RUNS | STACKS},
        "longer runs": {kind: make_run(kind, more) for kind, more in LONGER.items()},
        "comparisons": {kind: make_comparison(kind, arms) for kind, arms in COMPARED.items()},
    }


def plan_trials(args: Args) -> list[tuple[str, str, str, Callable[[Trial], None]]]:
    """Return every trial: its sort, the sort and the kind of its subject, and the function that disturbs it."""
    both = {"runs": RUNS, "comparisons": COMPARED}
    trials = [("runs killed", "runs", kind, kill_at_random) for _ in range(args.rounds) for kind in RUNS]
    trials += [("stacks killed", "runs", kind, kill_at_random) for _ in range(args.rounds) for kind in STACKS]
    trials += [
        ("comparisons killed", "comparisons", k, kill_at_random) for _ in range(args.comparisons) for k in COMPARED
    ]
    trials += [("full disks", s, kind, fill_the_disk) for _ in range(args.disks) for s in both for kind in both[s]]
    trials += [("resumed by two", "longer runs", k, resume_twice) for _ in range(args.twice) for k in LONGER]
    trials += [("begun by two", "runs", k, begin_twice) for _ in range(args.twice) for k in LONGER]
    trials += [("resumed by two", "comparisons", "linear", resume_twice) for _ in range(args.twice)]
    return [trial for trial in trials if not args.only or trial[0] in args.only]


def main(args: Args) -> None:
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.touch()
    done = {json.loads(line)["trial"] for line in args.out.read_text().splitlines()}
    import_everything()
    with tempfile.TemporaryDirectory() as name:
        (folder := Path(name) / "data").mkdir()
        known = make_subjects(places(folder))
        numbers: Counter[tuple[str, ...]] = Counter()
        for sort, subjects_sort, kind, act in plan_trials(args):
            numbers[sort, subjects_sort, kind] += 1
            title = f"{sort}: {subjects_sort[:-1]}, {kind}, {numbers[sort, subjects_sort, kind]}"
            if title in done:
                continue
            subject = known[subjects_sort][kind]
            (place := Path(name) / "trial").mkdir()
            if not subject.whole:
                subject.train(place / "whole")
            trial = Trial(subject, f"{args.seed} {title}", place)
            act(trial)
            line = {"trial": title, "kills": trial.kills, "notes": trial.notes, "wrong": trial.wrong}
            with args.out.open("a") as file:
                file.write(json.dumps(line).replace(str(place), "") + "\n")
            if trial.wrong:
                print(json.dumps(line), flush=True)
            shutil.rmtree(place)


if __name__ == "__main__":
    main(tyro.cli(Args))
