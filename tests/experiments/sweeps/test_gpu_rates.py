"""Hours on a GPU are those of rates that were measured there, and of no other runs."""

from typing import Any

import pytest

from supple.engine.kinds import find_kind, presets_of
from supple.engine.spec import RunSpec
from supple.experiments.sweeps.gpu_rates import gpu_seconds


def spec(kind: str, preset: str, **changes: Any) -> RunSpec:
    return RunSpec(kind, find_kind(kind).settings_class()(**{**presets_of(kind)[preset].settings, **changes}))


@pytest.mark.parametrize(
    ("kind", "preset", "steps", "hours"),
    [  # steps of the suites: 15 and 9 runs of a trunk and its arms
        ("dqn", "fire-atari", 15 * 6 * 1_250_000, 30.4),
        ("sac", "fire-humanoid", 9 * 5 * 1_000_000, 27.6),
        ("pretrain", "warm-start-gpt", 3 * (60_000 + 12 * 18_600), 311.2),
    ],
)
def test_the_hours_of_the_suites_follow_from_the_measured_rates(
    kind: str, preset: str, steps: int, hours: float
) -> None:
    found = gpu_seconds(spec(kind, preset), steps)
    assert found is not None
    assert found[0] / 3600 == pytest.approx(hours, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "preset", "changes"),
    [
        ("dqn", "fire-atari", {"hidden": 1_024}),
        ("dqn", "fire-atari", {"env": "CartPole-v1"}),
        ("dqn", "fire-atari", {"replay_ratio": 0.25}),
        ("sac", "fire-humanoid", {"critic_width": 256}),
        ("sac", "fire-humanoid", {"seeds": (0, 1)}),
        ("pretrain", "warm-start-gpt-small", {}),
        ("ppo", "cycling-mujoco", {}),
    ],
)
def test_of_runs_that_were_not_measured_nothing_is_said(kind: str, preset: str, changes: dict[str, Any]) -> None:
    assert gpu_seconds(spec(kind, preset, **changes), 1_000) is None
