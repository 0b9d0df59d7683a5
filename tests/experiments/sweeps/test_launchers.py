"""QueueWorker that Slurm or Ray starts: what they are stopped at goes on elsewhere, to the same bytes."""

import logging
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.launchers import QueueWorker, explain_stop, on_ray, on_slurm, watch_over
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep
from supple.registry.errors import RunError, UsageError
from supple.scripts.main import dispatch
from tests.processes import wait_until
from tests.records import results

pytestmark = pytest.mark.slow

SETTINGS = {"tasks": "semantic,reversal", "updates_per_task": 400, "checkpoint_every": 50, "measure_every": 200}
STUDY = Study("lin", "linear", settings=SETTINGS, arms=("none", "snp@task"), seeds=(0,), fork_at=0.0)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("undisturbed") / "out"
    queue = Sweep([STUDY]).begin(path)
    queue.work_off(lambda run, held: run.train(held, lambda step, end: None, lambda line: None))
    return results(path)


def wait_for_a_checkpoint(path: Path, started: list[Any]) -> None:
    """Wait until a run is under way, and not yet at its end."""

    def under_way() -> bool:
        assert explain_stop(started) is None
        return any(name.isdecimal() for _, names, _ in os.walk(path) for name in names)

    wait_until(under_way)


def watched(jobs: list[QueuedRun], started: list[Any]) -> list[str]:
    """Wait for the jobs; returns what was said, but for the jobs that ended."""
    said: list[str] = []
    seen: list[QueuedRun] = []
    watch_over(jobs, started, lambda job, step, end: seen.append(job), said.append)
    assert sorted(job.label for job in seen) == sorted(job.label for job in jobs if not job.open)
    return said


def test_a_worker_that_slurm_preempts_is_queued_again_and_goes_on(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    """On submitit's own processes, which get the signal that Slurm sends."""
    pytest.importorskip("submitit")
    path = tmp_path / "out"
    jobs = Sweep([STUDY]).begin(path)
    (started,) = on_slurm(QueueWorker(str(path)), 1, {"timeout_min": 60}, cluster="local")
    wait_for_a_checkpoint(path, [started])
    (task,) = psutil.Process(int(started.job_id)).children()  # the job is a process that starts the work in another
    task.send_signal(signal.SIGUSR2)
    assert watched(jobs, [started]) == []
    assert "preempted" in started.stderr()
    assert results(path) == undisturbed
    assert not any(lock.read_text() for lock in path.rglob(".lock"))


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A real Ray of two nodes, on this machine. It finds out within a second that a node is lost. Its workers get their
    share of a busy machine, on which those of its default niceness of 15 hardly move."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    quickly = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 200, "health_check_failure_threshold": 3}
    head = {"num_cpus": 0, "include_dashboard": False, "_system_config": {**quickly, "worker_niceness": 0}}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_what_was_trained_on_a_node_that_is_lost_goes_on_on_another(
    cluster: Any, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    path = tmp_path / "out"
    jobs = Sweep([STUDY]).begin(path)
    lost = cluster.add_node(num_cpus=1)
    started = on_ray(QueueWorker(str(path)), 1, {"num_cpus": 1})
    wait_for_a_checkpoint(path, started)
    cluster.remove_node(lost, allow_graceful=False)
    cluster.add_node(num_cpus=1)
    assert watched(jobs, started) == []
    assert results(path) == undisturbed


def test_workers_that_die_are_told_and_what_they_left_is_counted(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    path = tmp_path / "out"
    jobs = Sweep([STUDY]).begin(path)
    started = on_slurm(QueueWorker(str(tmp_path / "nowhere")), 1, {}, cluster="local")
    (said,) = watched(jobs, started)
    assert "is not a comparison" in said
    assert "2 of 2 runs" in said


@pytest.mark.parametrize(
    ("start", "options", "says"),
    [
        (
            on_slurm,
            {"timeout": 3},
            "--with: Unknown executor 'timeout'|--with: Parameter 'timeout' need to be prefixed",
        ),
        (on_slurm, {"timeout_min": "long"}, '--with: Parameter "timeout_min" expected type'),
        (on_ray, {"gpus": 1}, "--with gpus: no such option"),
    ],
)
def test_options_that_a_starter_does_not_know_are_refused(
    tmp_path: Path, start: Callable[..., Any], options: dict[str, Any], says: str
) -> None:
    pytest.importorskip("submitit")
    pytest.importorskip("ray")
    more = {"cluster": "local"} if start is on_slurm else {}
    with pytest.raises(UsageError, match=says):
        start(QueueWorker(str(tmp_path)), 1, options, **more)


@pytest.mark.parametrize(
    ("words", "error", "says"),
    [
        ("--on slurm", RunError, "--on slurm: "),  # there is no sbatch here
        ("--on slurm --with fast", UsageError, "--with fast: expected NAME=VALUE, such as timeout_min=240"),
        ("--workers 3", UsageError, "--workers is for --on slurm and --on ray; for this machine use --jobs"),
        ("--per-gpu 2", UsageError, "--per-gpu: PyTorch finds no CUDA GPU here"),
    ],
)
def test_a_command_that_starts_no_worker_says_why(
    tmp_path: Path, words: str, error: type[Exception], says: str
) -> None:
    pytest.importorskip("submitit")
    (tmp_path / "s.toml").write_text('[lin]\nkind = "linear"\n')
    with pytest.raises(error, match=re.escape(says)):
        dispatch(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), *words.split()])
    assert error is RunError or not (tmp_path / "out").exists()
