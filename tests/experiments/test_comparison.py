"""What comparisons of any kind share: where arms part, what folders are called, what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.experiments.comparison import Comparison, create, folder_of, fork_step_of, slug
from supple.experiments.errors import UsageError
from supple.experiments.settings import RunSettings
from supple.experiments.work import Task


def tasks(ends: tuple[int, ...] = (100, 300, 1000)) -> tuple[Task, ...]:
    return tuple(Task(i, s, e, str(i)) for i, (s, e) in enumerate(zip((0, *ends), ends, strict=False)))


@pytest.mark.parametrize(("share", "step"), [(0.5, 496), (0.25, 248), (0.01, 8), (0.99, 992)])
def test_a_share_forks_at_the_nearest_step_at_which_runs_can_part(share: float, step: int) -> None:
    assert fork_step_of(tasks(), 8, share) == step


def test_arms_that_part_at_the_beginning_have_no_trunk() -> None:
    assert fork_step_of(tasks(), 8, 0.0) == 0


def test_a_task_forks_where_it_begins() -> None:
    assert [fork_step_of(tasks(), 8, fork_at_task=task) for task in (1, 2)] == [100, 300]


@pytest.mark.parametrize(
    ("share", "task", "ends", "words"),
    [
        (-0.1, None, (100,), r"--fork-at must lie in \[0, 1\), a fraction of the run, got -0.1"),
        (1.0, None, (100,), r"--fork-at must lie in \[0, 1\), a fraction of the run, got 1.0"),
        (0.001, None, (100,), "--fork-at 0.001 would fork at step 0 of 100"),
        (0.5, 1, (100, 200), "--fork-at and --fork-at-task both say"),
        (None, 0, (100, 200, 300), "--fork-at-task must be one of the later tasks, 1 to 2, got 0"),
        (None, 3, (100, 200, 300), "--fork-at-task must be one of the later tasks, 1 to 2, got 3"),
        (None, 1, (100,), "one task only, and no switch to fork at"),
    ],
)
def test_a_fork_that_there_cannot_be_is_refused(
    share: float | None, task: int | None, ends: tuple[int, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        fork_step_of(tasks(ends), 8, share, task)


def test_folders_are_named_after_seeds_and_hooks() -> None:
    assert folder_of((3,)) == "seed-3"
    assert folder_of((0, 1, 5)) == "seeds-0-1-5"
    assert slug("fire@task + snp(lam=0.5)") == "fire_task_snp_lam=0.5"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": (0, 0)}, "--seeds must be different numbers"),
        ({"seeds": (0, -1)}, "--seeds must be different numbers"),
        ({"settings": RunSettings(hook=("fire@0.5",))}, "every --arm names its hooks"),
        ({"arms": ("none + fire",)}, "none goes with no other hook"),
        ({"arms": ("fire", "fire ")}, "two arms would share a folder"),
    ],
)
def test_what_is_wrong_for_any_kind_is_refused_before_anything_is_built(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    comparison = replace(Comparison("ppo", RunSettings(), ("none", "fire"), (0, 1), 100, "test"), **changes)
    with pytest.raises(UsageError, match=words):
        create(tmp_path / "out", comparison, 1)
    assert not (tmp_path / "out").exists()
