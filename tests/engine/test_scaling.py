"""`--scale`: small versions of a run with the same schedule."""

import pytest

from supple.agents.dqn.settings import DQNSettings
from supple.agents.ppo.settings import PPOSettings
from supple.engine.kinds import find_kind, presets_of
from supple.engine.scaling import describe_changes, scale_hooks, scale_settings
from supple.registry.errors import UsageError
from supple.tracks.language.pretrain.settings import PretrainSettings


@pytest.mark.parametrize("factor", [0.3, 0.01, 1e-4, 1e-9])
@pytest.mark.parametrize("name", presets_of())
def test_every_preset_can_be_scaled_within_its_limits(name: str, factor: float) -> None:
    preset = presets_of()[name]
    settings = find_kind(preset.kind).settings_class()(**preset.settings)
    missing = set(settings.problems())  # what the preset leaves to be named
    made, _ = scale_settings(settings, factor)
    assert set(made.problems()) <= missing


def test_lengths_in_steps_are_scaled_and_sizes_are_not() -> None:
    before = DQNSettings(
        env="CartPole-v1", steps=2_500_000, hook=("fire@250000", "redo@every:1e4", "snp@0.5", "l2_init"),
        checkpoint_every=250_000, learning_starts=20_000, exploration_steps=250_000,
        shift="friction(over=200_000) + offset(scale=1e+1)",
    )  # fmt: skip
    after, factor = scale_settings(before, 0.01)
    changed = {name: value for name, value in vars(after).items() if value != getattr(before, name)}
    assert factor == 0.01
    assert changed == {
        "steps": 25_000, "checkpoint_every": 2_500, "measure_every": 200, "eval_every": 2_500, "replay_size": 10_000,
        "learning_starts": 200, "target_period": 20, "exploration_steps": 2_500,
        "hook": ("fire@2500", "redo@every:100", "snp@0.5", "l2_init"),
        "shift": "friction(over=2000) + offset(scale=1e+1)",
    }  # fmt: skip


def test_the_factor_grows_if_the_run_cannot_be_that_short() -> None:
    """A task of PPO has at least one rollout, which is a fiftieth of this run."""
    before = PPOSettings(env="CartPole-v1", steps=102_400, checkpoint_every=51_200, hook=("fire@51200",))
    after, factor = scale_settings(before, 0.001)
    assert factor == 0.02
    assert (after.steps, after.checkpoint_every, after.hook) == (2_048, 1_024, ("fire@1024",))


def test_never_stays_never_and_a_step_stays_at_least_one() -> None:
    before = PretrainSettings(pretrain_steps=1000, start="500", keep_at=(200, 400), eval_every=0)
    after, _ = scale_settings(before, 0.1)
    assert (after.pretrain_steps, after.start, after.keep_at, after.eval_every) == (100, "50", (20, 40), 0)
    assert scale_settings(PretrainSettings(start="best"), 0.1)[0].start == "best"


def test_arms_of_several_hooks_are_scaled() -> None:
    assert scale_hooks(("none", "fire@5_000 + critic/redo@every:1000", "no hook @"), 0.1) == (
        "none",
        "fire@500 + critic/redo@every:100",
        "no hook @",
    )


def test_one_line_lists_the_changed_settings() -> None:
    assert describe_changes(
        {"steps": 1000, "keep_at": (5000, 10), "seed": 0}, {"steps": 10, "keep_at": (50, 1), "seed": 0}
    ) == ("steps 1,000 → 10, keep_at 5,000 10 → 50 1")


@pytest.mark.parametrize("factor", [0, -1, 1.5, float("nan"), float("inf")])
def test_a_factor_outside_0_to_1_is_refused(factor: float) -> None:
    with pytest.raises(UsageError, match=r"^--scale must be above 0 and at most 1"):
        scale_settings(PPOSettings(), factor)
