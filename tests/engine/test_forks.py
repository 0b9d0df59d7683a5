"""Forks take over the whole state of a trunk, and appear at once or not at all."""

from pathlib import Path

import pytest
import torch

from supple.agents.ppo.settings import PPOSettings
from supple.engine.forks import fork_step_of, stop_step_of
from supple.engine.runs import fork
from supple.engine.spec import Resolved, RunSpec, Start, read_spec
from supple.engine.storage import checkpoint
from supple.engine.work import Task
from supple.registry.errors import UsageError

pytestmark = pytest.mark.slow

TRUNK = RunSpec("ppo", PPOSettings(), stop=64, resolved=Resolved(identity="trunk"))
ARM = RunSpec("ppo", PPOSettings(hook=("fire",)), start=Start(64), resolved=Resolved(identity="arm"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """The last checkpoint of a trunk."""
    tree = {"step": 64, "agent": {"w": torch.randn(3)}, "logs": {"metrics": 12, "episodes": 9}, "seconds": 2.0}
    return checkpoint.save(tmp_path / "trunk/checkpoints", 64, tree, "trunk")


def test_an_arm_begins_with_the_state_of_the_trunk_and_empty_logs(tmp_path: Path, source: Path) -> None:
    fork(TRUNK, source, tmp_path / "arm", ARM)
    assert read_spec(tmp_path / "arm") == ARM
    ours, theirs = (checkpoint.load_newest(tmp_path / n / "checkpoints", n, pytest.fail) for n in ("arm", "trunk"))
    assert ours is not None
    assert theirs is not None
    assert torch.equal(ours["agent"]["w"], theirs["agent"]["w"])
    assert {**ours, "agent": None, "logs": None} == {**theirs, "agent": None, "logs": None}
    assert ours["logs"] == {}


def test_what_a_killed_fork_left_is_cleared_away(tmp_path: Path, source: Path) -> None:
    (tmp_path / "arm/checkpoints/000000000001").mkdir(parents=True)
    (tmp_path / "arm/checkpoints/tmp-000000000064-1").mkdir()
    (tmp_path / "arm/config.json.tmp").write_text("{")
    fork(TRUNK, source, tmp_path / "arm", ARM)
    assert sorted(path.name for path in (tmp_path / "arm").iterdir()) == ["checkpoints", "config.json"]
    assert [path.name for path in (tmp_path / "arm/checkpoints").iterdir()] == ["000000000064"]


def tasks(ends: tuple[int, ...] = (100, 300, 1000)) -> tuple[Task, ...]:
    return tuple(Task(i, s, e, str(i)) for i, (s, e) in enumerate(zip((0, *ends), ends, strict=False)))


def test_a_share_forks_at_the_nearest_step_at_which_runs_can_part_and_a_task_where_it_begins() -> None:
    shares = {0.0: 0, 0.5: 496, 0.25: 248, 0.01: 8, 0.99: 992}
    assert {share: fork_step_of(tasks(), 8, share) for share in shares} == shares
    assert [fork_step_of(tasks(), 8, fork_at_task=task) for task in (1, 2)] == [100, 300]


@pytest.mark.parametrize(
    ("share", "task", "ends", "words"),
    [
        (1.0, None, (100,), r"--fork-at must lie in \[0, 1\), a fraction of the run, got 1.0"),
        (0.001, None, (100,), "--fork-at 0.001 would fork at step 0 of 100"),
        (0.5, 1, (100, 200), "--fork-at and --fork-at-task both say"),
        (None, 0, (100, 200, 300), "got 0"),
        (None, 3, (100, 200, 300), "--fork-at-task must be one of the later tasks, 1 to 2, got 3"),
        (None, 1, (100,), "only one task"),
    ],
)
def test_a_fork_that_there_cannot_be_is_refused(
    share: float | None, task: int | None, ends: tuple[int, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        fork_step_of(tasks(ends), 8, share, task)


def test_runs_that_stop_early_meet_a_switch_or_are_refused() -> None:
    assert stop_step_of(tasks(), 8, 0.2) == 200
    assert stop_step_of(tasks((100,)), 8, 0.3) == 32  # where there is no switch at all
    with pytest.raises(UsageError, match=r"ends at step 96, within the first task.* more than 0\.1$"):
        stop_step_of(tasks(), 8, 0.1)
    with pytest.raises(UsageError, match="it must be above 0"):
        stop_step_of(tasks(), 8, 0.0)
