"""What comparisons of any kind share: what folders are called, what is refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.agents.ppo import PPOSettings
from supple.engine.kinds import presets_of
from supple.engine.settings import RunSettings
from supple.engine.storage.names import slug
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create
from supple.experiments.comparisons.grid import FIXED, Point, make_points, name_seeds
from supple.experiments.sweeps.study import Study
from supple.registry.errors import UsageError
from supple.tracks.linear.settings import LinearSettings

ACROBOT = PPOSettings(env="Acrobot-v1", steps=4096)


def test_folders_are_named_after_seeds_and_hooks() -> None:
    assert name_seeds((3,)) == "seed-3"
    assert name_seeds((0, 1, 5)) == "seeds-0-1-5"
    assert Point("fire@task", {"start": "best"}).folder == f"start=best/{slug('fire@task')}"
    assert Point("fire@task", {"start": "best"}).key == "start=best/fire_task"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seeds": (0, 0)}, "--seeds must be different numbers"),
        ({"settings": RunSettings(hook=("fire@0.5",))}, "--hook is for single runs"),
        ({"points": (Point("none + fire", {}),)}, "none cannot be combined"),
        (
            {"points": (Point("epochs=1", {}), Point("none", {"epochs": 1})), "settings": ACROBOT, "fork_step": 0},
            "of epochs=1 · none would lie inside the one of epochs=1",
        ),
        *(
            ({"points": make_points(("none",), {name: (1, 2)})}, f": {name} cannot differ between the runs")
            for name in FIXED
        ),
        (
            {"points": make_points(("none + learning_rte=1",))},
            "no setting 'learning_rte': did you mean 'learning_rate",
        ),
        ({"points": make_points(("none + learning_rate=fast",))}, "learning_rate should be a finite number"),
        (
            {"points": make_points(("none + learning_rate=0.1",))},
            "settings of one arm need a comparison",
        ),
    ],
)
def test_what_is_wrong_for_any_kind_is_refused_before_anything_is_built(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    comparison = replace(
        Comparison("ppo", RunSettings(), make_points(("none", "fire")), (0, 1), fork_step=100), **changes
    )
    with pytest.raises(UsageError, match=words):
        create(tmp_path / "out", comparison, 1)
    assert not (tmp_path / "out").exists()


def test_arms_in_other_environments_fork_from_trunks_of_their_own(tmp_path: Path) -> None:
    points = make_points(("none", "fire"), {"env": ("Acrobot-v1", "CartPole-v1")})
    settings = replace(ACROBOT, hidden=(8,), compile="off")
    found = create(tmp_path / "out", Comparison("ppo", settings, points, (0,), fork_at=0.5), 1)
    trunks = [vars(run.spec.settings)["env"] for run in found.queue(tmp_path) if not run.trunk]
    assert trunks == ["Acrobot-v1", "CartPole-v1"]
    with pytest.raises(UsageError, match="--vary steps=2048 changes the tasks"):
        create(tmp_path / "b", replace(found, points=make_points(("none", "fire"), {"steps": (4096, 2048)})), 1)


def test_stacks_are_those_that_all_points_allow() -> None:
    """Runs of a comparison have the same seeds at every point, so one that cannot be stacked decides for all."""
    for points in (
        make_points(("none",), {"keep_best": (False, True)}),
        make_points(("none", "none + keep_best=true")),
    ):
        assert Comparison("ppo", ACROBOT, points, (0, 1)).groups == ((0,), (1,))
        with pytest.raises(UsageError, match="--stack 2: --keep-best"):
            Comparison("ppo", replace(ACROBOT, stack=2), points, (0, 1)).groups  # noqa: B018
    assert Comparison("ppo", ACROBOT, make_points(("none",)), (0, 1)).groups == ((0, 1),)


@pytest.mark.parametrize("seeds", [(0, 1), (0,)])
def test_an_arm_that_cannot_be_in_the_stacks_that_were_started_is_refused(seeds: tuple[int, ...]) -> None:
    """It may come later if each seed is trained alone, and decides how seeds are trained that come with it."""
    begun = Comparison("ppo", ACROBOT, make_points(("none",)), seeds, fork_at=0.0).resolve()
    wanted = Comparison("ppo", ACROBOT, make_points(("none", "none + keep_best=true")), (0, 1, 2), fork_at=0.0)
    if begun.groups == ((0, 1),):
        with pytest.raises(UsageError, match="--keep-best"):
            begun.extend(wanted, 1, print)
    else:
        assert begun.extend(wanted, 1, print).groups == ((0,), (1,), (2,))


def test_seeds_that_are_asked_for_are_not_those_of_the_preset() -> None:
    preset = presets_of("ppo")["gym-control-small"]
    for asked, chosen in (((), preset.seeds), ((0,), (0,)), ((3,), (3,)), ((0, 1), (0, 1))):
        assert Study("", "ppo", preset.name, {"seeds": asked}).comparison("").seeds == chosen


def test_an_arm_has_settings_of_its_own(tmp_path: Path) -> None:
    """They stand beside its hooks, and in its folder's name; its seeds share tasks with the others'."""
    points = make_points(("none", "snp@task + learning_rate=0.5", "n-hidden=4"))
    comparison = Comparison("linear", LinearSettings(), points, (0,), fork_step=0)
    base = LinearSettings(hook=("none",))
    assert [comparison.settings_at(point) for point in comparison.points] == [
        base,
        replace(base, hook=("snp@task",), learning_rate=0.5),
        replace(base, n_hidden=4),
    ]
