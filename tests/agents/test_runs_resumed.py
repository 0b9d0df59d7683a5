"""`kill -9` at any moment, then `supple resume`: the same bytes as a run that was never killed.

The processes and the kills are real; see the nursery in tests/agents/conftest.py.
"""

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.processes import die_after, die_when

pytestmark = pytest.mark.slow

STREAM = shlex.split(
    "--sequence hopper,walker2d --cycles 2 --steps-per-task 256 --num-envs 4 --rollout-steps 32 --minibatch-size 64 "
    "--epochs 2 --hidden 16 16 --adapter 16 --share-value True --checkpoint-every 200 --measure-every 256 "
    "--eval-episodes 1"
)
HOOKS = [
    word for hook in ("fire@task", "snp@0.6", "reset(what=head)@when:weight_norm<8.6") for word in ("--hook", hook)
]
RUN = ["train", "ppo", *STREAM, *HOOKS, "--activation", "rand_smooth_leaky"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def reference(nursery: Any, folder: Path) -> Path:
    """Return a run that is never killed."""
    assert nursery.run(*RUN, "--out", folder / "reference") == 0, nursery.stderr()
    return folder / "reference"


def test_the_reference_run_has_everything_that_can_vary(reference: Path) -> None:
    """Every hook fired, episodes ended, copies were stepped together, checkpoints lie within tasks, and there are fewer
    of them than were made."""
    assert json.loads((reference / "config.json").read_text())["settings"]["physics"] == "batched"
    events = [json.loads(line) for line in (reference / "events.jsonl").read_text().splitlines()]
    fired = {event["hook"].split("@")[1].split(":")[0] for event in events if event["event"] == "intervention"}
    assert fired == {"task", "0.6", "when"}
    assert len((reference / "episodes.jsonl").read_text().splitlines()) > 50
    assert len(list((reference / "checkpoints").iterdir())) == 2


def test_another_seed_gives_another_run(nursery: Any, same: Any, reference: Path, folder: Path) -> None:
    assert nursery.run(*RUN, "--seed", 1, "--cycles", 1, "--out", folder / "other") == 0
    begun = [same.log(run, "episodes").splitlines()[:4] for run in (folder / "other", reference)]
    assert begun[0] != begun[1]


def test_a_run_killed_before_changes_of_files_resumes_to_the_same_bytes(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    run = folder / "file-by-file"
    assert nursery.killed(RUN, run, 5) > 10
    same.assert_runs(run, reference)


def test_a_run_killed_at_random_moments_resumes_to_the_same_bytes(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    moments, run, kills = random.Random(0), folder / "random", 0
    assert nursery.run(*RUN, "--out", run, first=partial(die_when, (run / "config.json").exists)) == -signal.SIGKILL
    while code := nursery.run("resume", run, first=partial(die_after, 2**kills * moments.uniform(0.1, 0.2))):
        assert code == -signal.SIGVTALRM, nursery.stderr()
        kills += 1
    assert kills
    same.assert_runs(run, reference)


def newest_file(run: Path, name: str) -> Path:
    return max((run / "checkpoints").iterdir()) / name


def test_damaged_checkpoint_is_named_and_the_one_before_it_leads_to_the_same_end(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    run = shutil.copytree(reference, folder / "damaged")
    damaged = newest_file(run, "state.safetensors")
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    assert nursery.run("resume", run) == 0
    assert len(nursery.stderr()) == 1
    assert str(damaged) in nursery.stderr()[0]
    same.assert_runs(run, reference)
    finished = {path: path.stat().st_mtime_ns for path in run.rglob("[!.]*")}  # not its .lock
    assert nursery.run("resume", run) == 0
    assert finished == {path: path.stat().st_mtime_ns for path in run.rglob("[!.]*")}
    for checkpoint in (run / "checkpoints").iterdir():
        os.truncate(checkpoint / "state.json", 1000)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert nursery.run("resume", run) == 1
    assert len(nursery.stderr()) == 1
    assert str(newest_file(run, "state.json")) in nursery.stderr()[0]
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_full_disk_is_one_line_and_training_goes_on_when_there_is_room(
    nursery: Any, same: Any, reference: Path, folder: Path
) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", str(disk)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("a small file system can only be mounted by root")
    try:
        run, ballast, refused = disk / "run", disk / "ballast", 0
        for pages in (0, 1, 8, 24, 1000):
            leave_pages(disk, ballast, pages)
            code = nursery.run(*(["resume", run] if run.exists() else [*RUN, "--out", run]))
            if code == 0:
                break
            refused += 1
            assert code == 1
            assert len(nursery.stderr()) == 1
            assert "No space left on device" in nursery.stderr()[0]
            assert not [path for path in disk.rglob("*") if "tmp" in path.name]
            assert run.exists() == (pages > 0)
        assert refused > 3
        same.assert_runs(run, reference)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def leave_pages(disk: Path, ballast: Path, pages: int) -> None:
    """Fill the disk except for this number of pages of 4096 bytes."""
    ballast.unlink(missing_ok=True)
    state = os.statvfs(disk)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, state.f_bavail * state.f_frsize - pages * 4096)
