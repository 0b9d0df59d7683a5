"""The runs of a comparison as a queue: any number of workers, nothing twice, nothing lost, failures set aside."""

import errno
import json
import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supple.engine.machine import resources
from supple.engine.spec import read_spec
from supple.engine.storage.lock import FILE, Lock, Lost
from supple.engine.storage.versions import describe_mixed
from supple.engine.user_code import plugins
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create
from supple.experiments.comparisons.grid import make_points
from supple.experiments.queue import workers
from supple.experiments.queue.queue import FINISHED, OUTCOME, Queue, QueuedRun
from supple.experiments.queue.workers import train_queue
from supple.experiments.sweeps.sweep import open_queue, retry_failed
from supple.registry.errors import DiskError, RunError, UsageError
from supple.tracks.linear.settings import LinearSettings
from tests.experiments.conftest import Worked
from tests.processes import stop_at


def plan(path: Path, **changes: Any) -> Queue:
    """The runs of a comparison of linear networks, which takes no time."""
    own = {"arms": ("none", "snp"), "seeds": (0, 1), "fork_step": 40, **changes}
    settings = LinearSettings(
        tasks="random", updates_per_task=80, measure_every=40, checkpoint_every=20, keep_checkpoints=2
    )
    points = make_points(own.pop("arms"))
    comparison = Comparison("linear", settings, points, **own)
    return create(path, comparison, 1).queue(path)


@pytest.mark.slow
def test_trunks_come_before_their_arms_and_what_is_finished_is_left(tmp_path: Path, worked: Worked) -> None:
    runs = plan(tmp_path / "out")
    assert worked(runs[:1]) == ["seed 0 · trunk"]
    assert worked(runs) == ["seed 1 · trunk", "seed 0 · none", "seed 0 · snp", "seed 1 · none", "seed 1 · snp"]
    assert worked(runs) == []
    assert all(run.outcome == {"outcome": FINISHED} for run in runs)


@pytest.mark.slow
def test_failed_runs_are_set_aside_with_their_reason_and_tried_again_with_a_mended_plug_in_which_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worked: Worked
) -> None:
    """Until then, as while a run that has not failed is unfinished, another version of the plug-in is refused."""

    def load(version: str) -> None:
        monkeypatch.setattr(plugins, "_loaded", {"my.py": plugins.Plugin("my.py", "my.py", version * 64, {})})

    load("1")
    runs = plan(out := tmp_path / "out", seeds=(0,), fork_step=0, arms=("none", "snp@40"))
    with monkeypatch.context() as broken:
        broken.setattr("supple.interventions.shrink_perturb.ShrinkPerturb.apply", lambda *_: 1 / 0)
        assert worked(runs[1:]) == ["seed 0 · snp@40"]
    outcome = json.loads((runs[1].folder / OUTCOME).read_text())
    assert outcome["outcome"] == "failed"
    assert "after step 40: ZeroDivisionError: division by zero; its traceback is in " in outcome["reason"]
    assert "Traceback" in (runs[1].folder / "traceback.txt").read_text()
    with runs[0].lock() or pytest.fail("it is locked") as held, pytest.raises(KeyboardInterrupt):
        runs[0].train(held, lambda step, end: stop_at(0)(step), pytest.fail)
    load("2")
    for refused in (open_queue, retry_failed):
        with pytest.raises(UsageError, match=r"restore that version.*--retry-failed"):
            refused(out)
    assert runs[1].failed
    load("1")
    assert worked(runs) == ["seed 0 · none"]
    load("2")
    retry_failed(out)
    specs = {run.folder: read_spec(run.folder) for run in runs}  # as if killed before it trains again
    assert [spec.resolved.plugins["my.py"][0] for spec in specs.values()] == ["1", "2"]
    assert worked(open_queue(out)) == ["seed 0 · snp@40"]
    mixed = f"my.py {'1' * 12} (seed-0/none and 1 more), {'2' * 12} (seed-0/snp_40-957322)"
    known = {str(folder.relative_to(out)): spec.resolved.versions for folder, spec in specs.items()}
    assert describe_mixed(known)[-1].endswith(f"differ: {mixed}")


def test_arms_of_a_trunk_that_failed_are_not_begun(tmp_path: Path, worked: Worked) -> None:
    runs = plan(tmp_path / "out", seeds=(0,))
    runs[0].folder.mkdir(parents=True)
    runs[0].record("failed", reason="diverged")
    assert worked(runs) == []
    assert not (tmp_path / "out/seed-0/none").exists()


@pytest.mark.slow
def test_a_trunk_that_turns_out_to_be_damaged_comes_to_its_end_again(tmp_path: Path, worked: Worked) -> None:
    runs = plan(tmp_path / "out", seeds=(0,))
    assert worked(runs[:1]) == ["seed 0 · trunk"]
    weights = tmp_path / f"out/seed-0/trunk/checkpoints/{40:012}/state.safetensors"
    sound = weights.read_bytes()
    weights.write_bytes(b"")
    assert worked(runs) == ["seed 0 · none", "seed 0 · trunk", "seed 0 · none", "seed 0 · snp"]
    assert weights.read_bytes() == sound


@pytest.fixture
def run(tmp_path: Path) -> QueuedRun:
    """A comparison's only run, which has a folder."""
    [run] = plan(tmp_path / "out", seeds=(0,), arms=("none",), fork_step=0)
    run.folder.mkdir(parents=True)
    return run


def test_a_run_in_other_hands_is_waited_for_and_its_end_left_to_them(run: QueuedRun, worked: Worked) -> None:
    with Lock(run.folder):
        assert run.lock() is None
        run.record_death("killed")
    assert run.outcome == {}
    held = run.lock()
    assert held
    (run.folder / FILE).write_text("process 7 on elsewhere")  # has taken it over
    run.train(held, lambda step, end: None, pytest.fail)
    assert run.outcome == {}
    (run.folder / FILE).write_text("")
    held.release()
    assert worked([run]) == ["seed 0 · none"]


def test_a_failed_run_is_tried_again_unless_another_process_does_so(run: QueuedRun) -> None:
    run.record_death("killed")
    assert run.outcome == {"outcome": "failed", "reason": "killed"}
    with Lock(run.folder):
        run.retry()
        assert run.failed
    run.retry()
    assert run.outcome == {}
    run.record(FINISHED)
    run.retry()
    assert run.outcome == {"outcome": FINISHED}


def test_a_comparison_that_was_removed_is_not_begun_anew(tmp_path: Path, worked: Worked) -> None:
    runs = plan(tmp_path / "out", seeds=(0,))
    (tmp_path / "out").rename(tmp_path / "other")
    with pytest.raises(Lost, match="out: this folder was removed or renamed"):
        worked(runs)
    with pytest.raises(Lost):
        runs[0].record_death("killed")
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_an_outcome_that_cannot_be_written_is_one_line_and_no_failed_run(
    run: QueuedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(file: Path, value: dict[str, Any]) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr("supple.experiments.queue.queue.write_json", refused)
    with pytest.raises(DiskError, match=rf"outcome.json: Permission denied; `supple resume {run.path}` continues"):
        Queue([run]).work_off(lambda run, held: run.train(held, lambda step, end: None, pytest.fail))


@pytest.mark.slow
def test_eight_workers_on_one_queue_share_no_run(tmp_path: Path, worked: Worked) -> None:
    """Each is a process of its own, forked from this one, and says which runs it took."""
    runs = plan(tmp_path / "out", seeds=tuple(range(12)))
    crowd = []
    for number in range(8):
        if not (child := os.fork()):
            try:
                (tmp_path / str(number)).write_text("\n".join(worked(runs)))
            finally:
                os._exit(0)
        crowd.append(child)
    for child in crowd:
        os.waitpid(child, 0)
    taken = [line for number in range(8) for line in (tmp_path / str(number)).read_text().splitlines()]
    assert sorted(taken) == sorted(run.label for run in runs)
    assert all(run.outcome == {"outcome": FINISHED} for run in runs)


def test_processes_are_spread_over_the_gpus_and_each_sees_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def process(**_: Any) -> Any:
        """A process that dies at once."""
        return SimpleNamespace(start=lambda: seen.append(os.environ[resources.VISIBLE]), join=list, exitcode=1)

    context = SimpleNamespace(Pipe=multiprocessing.Pipe, Process=process)
    monkeypatch.setattr(workers, "multiprocessing", SimpleNamespace(get_context=lambda method: context))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv(resources.VISIBLE, "4,GPU-7a")
    with pytest.raises(RunError, match="died before it started a run"):
        train_queue(plan(tmp_path / "out"), 3, lambda *_: None, pytest.fail)
    assert seen == ["4", "GPU-7a", "4"]
    assert os.environ[resources.VISIBLE] == "4,GPU-7a"


@pytest.mark.usefixtures("forked_workers")
def test_a_full_disk_stops_everything_since_no_run_could_go_on(tmp_path: Path) -> None:
    runs = plan(tmp_path / "out", seeds=(0,), fork_step=0, arms=("none",))
    (tmp_path / "out/seed-0").write_text("no folder can be made here")
    with pytest.raises(RunError, match="seed-0"):
        train_queue(runs, 1, lambda *_: None, pytest.fail)
