"""What comparisons of any track share: where arms part, what folders are called, what is refused."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from supple.experiments.compare import Comparison, Track, create, folder_of, fork_step_of, slug
from supple.experiments.errors import UsageError


@dataclass(frozen=True)
class Span:
    index: int
    start: int
    end: int


@dataclass(frozen=True)
class Settings:
    ends: tuple[int, ...] = (100, 300, 1000)
    stride: int = 8
    hook: tuple[str, ...] = ()


def plan(settings: Settings) -> list[Span]:
    return [Span(i, s, e) for i, (s, e) in enumerate(zip((0, *settings.ends), settings.ends, strict=False))]


def unused(*_: Any) -> Any:
    raise AssertionError("checked too early")


TRACK = Track(
    plan=plan, stride=lambda settings: settings.stride, check=unused, room=unused, runs=unused, configuration=unused,
    settings_of=unused, train=unused,
)  # fmt: skip


@pytest.mark.parametrize(("share", "step"), [(0.5, 496), (0.25, 248), (0.01, 8), (0.99, 992)])
def test_a_share_forks_at_the_nearest_step_at_which_runs_can_part(share: float, step: int) -> None:
    assert fork_step_of(TRACK, Settings(), share, None) == step


def test_a_task_forks_where_it_begins() -> None:
    assert [fork_step_of(TRACK, Settings(), None, task) for task in (1, 2)] == [100, 300]


@pytest.mark.parametrize(
    ("share", "task", "ends", "words"),
    [
        (0.0, None, (100,), "--fork-at must lie between 0 and 1"),
        (1.0, None, (100,), "--fork-at must lie between 0 and 1"),
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
        fork_step_of(TRACK, Settings(ends), share, task)


def test_folders_are_named_after_seeds_and_hooks() -> None:
    assert folder_of((3,)) == "seed-3"
    assert folder_of((0, 1, 5)) == "seeds-0-1-5"
    assert slug("fire@task + snp(lam=0.5)") == "fire_task_snp_lam=0.5"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": (0, 0)}, "--seeds must be different numbers"),
        ({"seeds": (0, -1)}, "--seeds must be different numbers"),
        ({"settings": Settings(hook=("fire@0.5",))}, "every --arm names its hooks"),
        ({"arms": ("none + fire",)}, "none goes with no other hook"),
        ({"arms": ("fire", "fire ")}, "two arms would share a folder"),
    ],
)
def test_what_is_wrong_in_any_track_is_refused_before_a_track_is_asked(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    comparison = replace(Comparison("any", Settings(), ("none", "fire"), (0, 1), 100, "test"), **changes)
    with pytest.raises(UsageError, match=words):
        create(tmp_path / "out", TRACK, comparison, 1)
    assert not (tmp_path / "out").exists()
