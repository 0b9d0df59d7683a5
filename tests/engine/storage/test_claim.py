"""Only one process at a time trains a run, and a claim is replaced only if its owner has ended."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from supple.engine.storage import files
from supple.engine.storage.claim import FILE, LOST, Claimed, Lost, _describe_this_process, claim

HOLD = """
import sys
from pathlib import Path
from supple.engine.storage.claim import claim
with claim(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
RACE = """
import sys
from pathlib import Path
from supple.engine.storage.claim import Claimed, claim
folder = Path(sys.argv[1])
print("here", flush=True)
sys.stdin.readline()
try:
    held = claim(folder)
    print("mine", flush=True)
    sys.stdin.readline()
except Claimed:
    print("theirs", flush=True)
"""


def write(folder: Path, **changes: object) -> Path:
    """Write a claim of this process with some entries changed."""
    (folder / FILE).write_text(json.dumps(_describe_this_process("x") | changes))
    return folder / FILE


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_claim_is_released_at_the_end_and_can_be_made_again(tmp_path: Path) -> None:
    for _ in range(2):
        with claim(tmp_path) as held:
            held.check()
            assert (tmp_path / FILE).exists()
        assert list(tmp_path.iterdir()) == []


def test_a_second_claim_is_refused_and_names_the_owner(tmp_path: Path, owner: subprocess.Popen[str]) -> None:
    with pytest.raises(Claimed, match=f"process {owner.pid} on {os.uname().nodename} is training this run"):
        claim(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE]


def test_the_claim_of_a_killed_process_is_replaced_at_once(tmp_path: Path, owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGKILL)  # and nobody has waited for it: it is a zombie
    with claim(tmp_path, patience=2):
        assert json.loads((tmp_path / FILE).read_text())["pid"] == os.getpid()


def test_a_process_that_reuses_the_id_of_the_owner_is_not_the_owner(tmp_path: Path) -> None:
    write(tmp_path, started=-5.0)
    with claim(tmp_path):
        pass


@pytest.mark.parametrize(("silent", "taken"), [(500, False), (700, True), (-500, False), (-700, True)])
def test_a_claim_from_another_machine_is_judged_by_its_heartbeat(tmp_path: Path, silent: float, taken: bool) -> None:
    file = write(tmp_path, host="elsewhere")
    os.utime(file, (time.time() - silent,) * 2)
    if taken:
        with claim(tmp_path):
            pass
    else:
        with pytest.raises(Claimed, match="on elsewhere"):
            claim(tmp_path)


def test_a_claim_from_before_a_reboot_is_replaced(
    tmp_path: Path,
) -> None:
    write(tmp_path, boot="another")
    with claim(tmp_path):
        pass


def test_a_claim_is_kept_if_the_clock_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    began = psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: began + 3600)
    monkeypatch.setattr("psutil.boot_time", lambda: began + 3600)
    with pytest.raises(Claimed, match=f"process {os.getpid()} "):
        claim(tmp_path)


@pytest.mark.parametrize("seconds", [-11, 3600])  # the clock may have been set back
@pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}", '{"pid": "1"}'])
def test_a_claim_without_an_owner_is_respected_for_some_seconds(tmp_path: Path, text: str, seconds: int) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(Claimed, match="does not say which process"):
        claim(tmp_path)
    os.utime(tmp_path / FILE, (time.time() + seconds,) * 2)
    with claim(tmp_path):
        pass


@pytest.mark.parametrize("pid", [-1, 0, 10**30])
def test_a_claim_with_an_impossible_process_id_is_replaced(tmp_path: Path, pid: int) -> None:
    write(tmp_path, pid=pid)
    with claim(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", None])  # a claim that is still being written, and a complete one
def test_a_process_that_is_late_to_replace_a_claim_leaves_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    """Another process takes over between the look at the dead claim and the lock on it."""
    file, dead = write(tmp_path, started=-5.0), tmp_path / "dead"

    def another_is_faster(*_: object) -> bool:
        file.rename(dead)
        write(tmp_path) if text is None else file.write_text(text)
        return True

    monkeypatch.setattr(files, "lock", another_is_faster)
    with pytest.raises(Claimed):
        claim(tmp_path)
    assert file.exists()


def test_a_process_that_lost_its_claim_gets_an_exception_and_leaves_the_new_one(tmp_path: Path) -> None:
    with claim(tmp_path) as held:
        file = write(tmp_path, token="another")
        with pytest.raises(Claimed, match="has taken over this run"):
            held.check()
    assert json.loads(file.read_text())["token"] == "another"


def asleep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a claim has been silent for long, and this process is on another machine from now on."""
    os.utime(folder / FILE, (time.time() - 2 * LOST,) * 2)
    monkeypatch.setattr("platform.node", lambda: "elsewhere")


def test_an_owner_that_slept_too_long_writes_nothing_and_leaves_the_new_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with claim(tmp_path) as held:
        asleep(tmp_path, monkeypatch)
        with claim(tmp_path):
            os.utime(tmp_path / FILE, (1e9, 1e9))
            for refused in (held.check, held.writing().__enter__):
                with pytest.raises(Claimed, match=f"process {os.getpid()} on elsewhere has taken over this run"):
                    refused()
            beats = iter([False, True])
            monkeypatch.setattr(held._end, "wait", lambda _: next(beats))
            held._beat()
            held.release()
            assert (tmp_path / FILE).stat().st_mtime == 1e9
        with pytest.raises(
            Claimed, match=r"claim\.json is gone: another process has taken over this run and has ended"
        ):
            held.check()


def test_a_process_that_was_stopped_while_it_writes_keeps_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with claim(tmp_path) as held:
        asleep(tmp_path, monkeypatch)
        with held.writing(), held.writing(), pytest.raises(Claimed, match="is training this run"):
            claim(tmp_path)
        with claim(tmp_path), pytest.raises(Claimed), held.writing():
            pytest.fail("it wrote")


def test_an_exception_after_the_loss_of_the_claim_becomes_one_line_about_the_loss(tmp_path: Path) -> None:
    with claim(tmp_path) as held:
        with pytest.raises(ZeroDivisionError), held.explaining():
            _ = 1 / 0
        write(tmp_path, token="another")
        with pytest.raises(Claimed, match="has taken over this run"), held.explaining():
            _ = 1 / 0


def test_a_folder_that_was_renamed_is_named_and_not_made_again(tmp_path: Path) -> None:
    (run := tmp_path / "sweep/seed-0/none").mkdir(parents=True)
    with claim(run) as held:
        (tmp_path / "sweep").rename(tmp_path / "other")
        with pytest.raises(Lost, match=r"sweep: this folder was removed or renamed during the training in it"):
            held.check()
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize(("silent", "taken"), [(500, False), (700, True)])
def test_a_claim_from_another_container_with_this_host_name_is_judged_by_its_heartbeat(
    tmp_path: Path, silent: float, taken: bool
) -> None:
    """Its process ids are not those of this one: the owner seems to be dead, or to be any other process."""
    for other in ({"started": -5.0}, {}):
        file = write(tmp_path, namespace="1", **other)
        os.utime(file, (time.time() - silent,) * 2)
        if taken:
            with claim(tmp_path):
                pass
        else:
            with pytest.raises(Claimed, match="is training this run"):
                claim(tmp_path)


@pytest.mark.slow
def test_of_eight_processes_that_replace_a_claim_at_once_one_succeeds(tmp_path: Path) -> None:
    write(tmp_path, started=-5.0)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path)], **pipes) for _ in range(8)]  # type: ignore[call-overload]
    assert [racer.stdout.readline() for racer in racers] == ["here\n"] * 8
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.stdout.readline().strip() for racer in racers]
    assert sorted(said) == ["mine"] + ["theirs"] * 7
    for racer in racers:
        racer.communicate()
    assert [path.name for path in tmp_path.iterdir()] == [FILE]
