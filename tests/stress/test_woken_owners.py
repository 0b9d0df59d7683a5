"""Suspended processes that lost their run to another one and are woken write nothing more. Ten minutes.

The other process believes to be on another machine, and the heartbeat is made old, as if the first one had slept.
"""

import contextlib
import io
import json
import os
import platform
import random
import runpy
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supple.engine.storage import checkpoint
from supple.engine.storage.claim import FILE, LOST
from supple.scripts.main import dispatch

SMALL = runpy.run_path(str(Path(__file__).parents[2] / "tests" / "stress" / "small_runs.py"))
RUNS, train, logs = (SMALL[name] for name in ("RUNS", "command", "logs"))
KEPT = {"linear": "--keep-at 40 --keep-best True", "ppo": "--keep-at 512", "vision": "--keep-at 20"}
ATTEMPTS = 5  # of every kind
LIMIT = 180.0  # seconds after which a process is taken to hang
counts = {"attempts": 0, "held": 0, "refused": 0}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the files that the runs learn from."""
    made: dict[str, str] = SMALL["places"](tmp_path_factory.mktemp("data"))
    return made


@pytest.fixture(scope="module", autouse=True)
def sums() -> Iterator[None]:
    yield
    print(f"\nwoken owners: {counts['attempts']} attempts, {counts['held']} held, {counts['refused']} not taken over")


def quietly(words: list[str]) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        dispatch(words)


def ended(child: int) -> int | None:
    """Wait for a process, and return its exit code, or None if it hangs."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return None


def stopped(child: int) -> bool:
    """Stop a process, and return whether it has not ended before."""
    os.kill(child, signal.SIGSTOP)
    return os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])


def held(out: Path) -> bytes:
    """Return the claim on a run, or None."""
    try:
        return (out / FILE).read_bytes()
    except FileNotFoundError:
        return b""


def picture(folder: Path) -> dict[str, Any]:
    """Return all that must be the same in the end: names, logs without clocks, and the states in all checkpoints."""
    names = (str(file.relative_to(folder)) for file in folder.rglob("*"))
    found: dict[str, Any] = {"names": sorted(name for name in names if not name.startswith("tensorboard/"))}
    found |= logs(folder)
    found |= {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*.safetensors")}
    for file in folder.rglob("state.json"):
        tree = json.loads(file.read_text().splitlines()[1])["tree"]
        found[str(file.relative_to(folder))] = {k: v for k, v in tree.items() if k not in ("seconds", "logs")}
    return found


def another_machine(process: Any, words: list[str], errors: Path) -> int:
    """Begin a process that believes to be on another machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(platform, "node", lambda: "another-machine")
        child: int = process(words, errors)
    return child


@pytest.mark.parametrize("kind", RUNS)
def test_a_suspended_process_that_lost_its_run_writes_nothing_more(
    kind: str, places: dict[str, str], process: Any, tmp_path: Path
) -> None:
    whole, draw = tmp_path / "whole", random.Random(kind)
    more = KEPT.get(kind, "").split()
    quietly([*train(kind, places, whole), *more])  # in this process: its children find imported what they need
    wanted, begun = picture(whole), time.monotonic()
    assert ended(process([*train(kind, places, tmp_path / "timed"), *more], tmp_path / "errors")) == 0
    seconds = time.monotonic() - begun
    wrong: list[str] = []
    done = 0
    for number in range(10 * ATTEMPTS):
        if done == ATTEMPTS:
            break
        out, first, second = (tmp_path / f"{name}-{number}" for name in ("out", "first", "second"))
        owner = process([*train(kind, places, out), *more], first)
        time.sleep(draw.uniform(0.1, 1) * seconds)
        if not stopped(owner):
            continue
        if not (out / FILE).exists() or not (out / "config.json").exists():  # it has not begun, or has ended
            os.kill(owner, signal.SIGKILL)
            ended(owner)
            continue
        done += 1
        counts["attempts"] += 1
        at = checkpoint.newest_step(out / "checkpoints")
        os.utime(out / FILE, (time.time() - 2 * LOST,) * 2)
        claim = (out / FILE).read_bytes()
        successor = another_machine(process, ["resume", str(out)], second)
        partly = draw.random() < 0.5
        if partly:
            while os.waitid(os.P_PID, successor, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and held(out) == claim:
                time.sleep(0.005)
            time.sleep(draw.uniform(0, 0.6) * seconds)
        code = None if partly else ended(successor)
        os.kill(owner, signal.SIGCONT)
        was, code = ended(owner), ended(successor) if partly else code
        said = [first.read_text().splitlines(), second.read_text().splitlines()]
        if code == 1 and was == 0 and len(said[1]) == 1 and "is training this run" in said[1][0]:
            counts["refused"] += 1  # it was stopped while it held the lock on its claim
        elif code != 0 or was != 1 or len(said[0]) != 1 or said[1]:
            wrong.append(f"{number}: stopped at {at}, codes {was} and {code}, said {said}")
            continue
        if (found := picture(out)) != wanted:
            other = [name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)]
            names = set(found["names"]) ^ set(wanted["names"])
            wrong.append(f"{number}: stopped at {at}, other {sorted(other)} {names}, said {said}")
            continue
        quietly(["resume", str(out)])  # finds the lengths that were recorded
        counts["held"] += 1
    assert not wrong, "\n".join(wrong)
    assert done == ATTEMPTS
