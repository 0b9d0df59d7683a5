"""Where arms are forked if nobody says where: before the first of their hooks acts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supple.engine.kinds import all_kinds, find_kind
from supple.engine.work import Task
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.default_fork import find_default_fork
from supple.experiments.comparisons.folder import open_comparison
from supple.experiments.sweeps.space import Space
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep
from supple.registry.errors import UsageError

PPO: dict[str, Any] = {
    "env": "CartPole-v1", "max_episode_steps": 10, "num_envs": 4, "cycles": 3, "steps_per_task": 400,
    "rollout_steps": 20, "minibatch_size": 40, "epochs": 1, "hidden": (4,), "eval_episodes": 0, "compile": "off",
}  # fmt: skip
LINEAR: dict[str, Any] = {"tasks": "semantic,reversal,scaled", "updates_per_task": 20, "eval_every": 0}
THREE = tuple(Task(i, 400 * i, 400 * (i + 1), f"task {i}") for i in range(3))


@pytest.mark.parametrize(("kind", "step"), [("linear", 500), ("ppo", 0)])
def test_where_steps_are_not_updates_a_hook_that_counts_these_has_no_trunk(kind: str, step: int) -> None:
    assert find_default_fork(find_kind(kind), ["snp@update:500"], THREE, 4, own_settings=False).step == step


def test_hooks_that_never_act_are_only_told_where_they_are_refused() -> None:
    for hooks in (["none"], ["fire@task"], ["none", "fire@task", "snp@task:2"]):
        assert find_default_fork(find_kind("ppo"), hooks, THREE[:1], 4, own_settings=False).line == ""


@pytest.mark.parametrize("kind", ["ppo", "linear"])
@pytest.mark.parametrize(
    ("hooks", "step", "because"),
    [
        ("fire@task", 400, "at step 400, where fire@task can act first"),
        ("snp@task:2 redo@task", 400, "redo@task can act first"),
        ("snp@task:2 fire@0.9", 800, "at step 800, where snp@task:2"),
        ("fire@603", 600, "fire@603"),  # the last step before it at which four copies can stop
        ("fire@3", 0, "no trunk, because fire@3 "),
        ("redo@every:0.25 fire@task", 300, "redo@every:0.25"),
        ("snp(lam=.5)@when:srank<20", 0, "because snp(lam=.5)@when:srank<20 can act"),  # as it was typed
        ("l2_init fire@task", 0, "no trunk, because l2_init"),
        ("hare_tortoise@every:500", 0, "no trunk, because hare_tortoise@every:500"),  # averages in every update
        ("fresh", 400, "a fresh agent"),
        ("none fier@task fire@task:7 fire@0.75", 900, "fire@0.75"),  # wrong hooks are reported elsewhere
    ],
)
def test_the_fork_is_where_the_hook_that_acts_earliest_can_act_first(
    kind: str, hooks: str, step: int, because: str
) -> None:
    for order in (1, -1):
        place = find_default_fork(find_kind(kind), hooks.split()[::order], THREE, 4, own_settings=False)
        assert place.step == step
        assert because in place.line


@pytest.mark.parametrize(
    ("hooks", "ppo", "vision", "linear"),
    [
        ("none", 600, 400, 0),  # nothing acts
        ("fire snp@task", 400, 400, 0),
        ("fire snp@0.2", 240, 240, 0),
        ("fire l2_init", 600, 400, 0),  # as in FIRE's code, what acts all the time begins at the fork
        ("fire fresh", 400, 400, 0),
    ],
)
def test_hooks_without_a_schedule_are_applied_where_the_kind_forks(
    hooks: str, ppo: int, vision: int, linear: int
) -> None:
    found = {
        name: find_default_fork(find_kind(name), hooks.split(), THREE, 4, False) for name in ("ppo", "vision", "linear")
    }
    assert {name: place.step for name, place in found.items()} == {"ppo": ppo, "vision": vision, "linear": linear}
    assert bool(found["ppo"].line) == (ppo != 600)


def planned(kind: str, settings: dict[str, Any], arms: Sequence[str], lines: list[str], **more: Any) -> Comparison:
    space = Space(more.pop("vary", {}))
    more = {"preset": None, "reference": "none", **more}
    study = Study("", kind, settings=settings, arms=tuple(arms), seeds=(0,), space=space, **more)
    comparison = study.comparison("").resolve(1, lines.append)
    lines += [comparison.note] if comparison.note else []
    return comparison


def test_what_is_given_and_presets_decide_and_say_nothing_else_one_line_says_where_and_why() -> None:
    lines: list[str] = []
    arms = ("none", "fire@task")
    assert planned("ppo", PPO, arms, lines, fork_at=0.5).fork_step == 600
    assert planned("ppo", PPO, arms, lines, fork_at_task=2).fork_step == 800
    small = {"steps_per_task": 1_600, "rollout_steps": 80, "compile": "off"}
    assert planned("ppo", small, arms, lines, preset="gym-control-small").fork_step == 1_600
    assert lines == []
    assert planned("ppo", PPO, arms, lines).fork_step == 400
    assert [line.endswith("(--fork-at changes this)") for line in lines] == [True]


def test_variants_with_other_tasks_share_no_step() -> None:
    lines: list[str] = []
    vary = {"updates_per_task": (20, 30)}
    comparison = planned("linear", LINEAR, ("none", "snp@task"), lines, vary=vary)
    assert comparison.fork_step == 0
    assert "variants have tasks of other lengths" in lines[-1]
    assert planned("linear", LINEAR, ("none", "snp@task"), lines, vary={"lam": (1.0, 2.0)}).fork_step == 20
    steps = {name: value for name, value in PPO.items() if name not in ("cycles", "steps_per_task")}
    for lengths in ((8_000, 800), (800, 8_000)):
        comparison = planned("ppo", steps, ("none", "l2_init"), lines, vary={"steps": lengths})
        assert (comparison.fork_step, comparison.settings.checkpoint_every) == (0, "auto")
    assert planned("ppo", steps | {"steps": 8_000}, ("none",), lines).settings.checkpoint_every == 2_000
    vary = {"env": ("CartPole-v1", "Acrobot-v1")}  # as long: each has a trunk of its own
    assert planned("ppo", steps | {"steps": 8_000}, ("none", "fire"), lines, vary=vary).fork_step == 4_000


def test_arms_with_settings_of_their_own_need_no_option() -> None:
    lines: list[str] = []
    assert planned("ppo", PPO, ("none", "fire@task + learning_rate=0.001"), lines).fork_step == 0


def test_second_phases_begin_where_their_start_says() -> None:
    """No hook may move it, nor the trunk that the first phase is."""
    kind = find_kind("pretrain")
    settings = kind.settings_class()(first=("a",), second=("b",))  # type: ignore[call-arg]
    assert not kind.forks().by_hooks(settings, [{}])
    assert kind.forks().by_hooks(replace(settings, second=()), [{}])  # type: ignore[call-arg]
    assert all(other.forks().by_hooks(None, [{}]) for name, other in all_kinds().items() if name != "pretrain")


def study(*arms: str, **changes: Any) -> Study:
    return Study("s", "linear", settings=LINEAR, arms=arms, seeds=(0,), **changes)


def test_an_extended_study_keeps_its_fork(tmp_path: Path) -> None:
    lines: list[str] = []
    Sweep([study("none", "snp@task:2")]).begin(tmp_path, warn=lines.append)
    assert open_comparison(tmp_path / "s").fork_step == 40
    Sweep([study("none", "snp@task:2", "snp@0.9", "snp@task")]).begin(tmp_path, warn=lines.append)
    found = open_comparison(tmp_path / "s")
    assert found.arms == ("none", "snp@task:2", "snp@0.9", "snp@task")
    assert found.fork_step == 40
    assert len(lines) == 1
    with pytest.raises(UsageError, match=r"snp@0\.1 never fires: the run starts at step 40"):
        Sweep([study("none", "snp@0.1")]).begin(tmp_path, warn=lines.append)
    with pytest.raises(UsageError, match=r"fork_at is 0\.5, but the runs in .* were started with None"):
        Sweep([study("none", "snp@task:2", fork_at=0.5)]).begin(tmp_path, warn=lines.append)


def test_an_arm_alone_has_no_trunk_where_its_kind_has_none(tmp_path: Path) -> None:
    """There is no other to share it with, as in sweeps whose points have one arm each."""
    space = Space({"lam": [0.3, 0.6]})
    assert [job.spec.labels.arm for job in Sweep([study("snp@task", space=space)]).preview(tmp_path)] == [
        "snp@task"
    ] * 2
