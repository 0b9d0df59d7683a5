"""The interval of checkpoints fits the length of a run, unless it is given."""

import json
from pathlib import Path
from typing import Any

import pytest

from supple.agents.dqn.settings import DQNSettings
from supple.agents.ppo.settings import PPOSettings
from supple.agents.sac.settings import SACSettings
from supple.engine.kinds import all_kinds, find_kind, presets_of, settings_with
from supple.engine.runs import prepare
from supple.engine.settings import RunSettings
from supple.engine.spec import RunSpec, read_spec

AGENTS = ("ppo", "dqn", "sac")
LONGEST = {"ppo": 250_000, "dqn": 250_000, "sac": 250_000, "vision": 50_000, "clip": 500}  # of others 2,000
PPO: dict[str, Any] = {
    "env": "CartPole-v1", "max_episode_steps": 5, "num_envs": 2, "steps": 800, "rollout_steps": 20,
    "minibatch_size": 40, "epochs": 1, "hidden": (4,), "eval_episodes": 0, "measure_every": 400, "compile": "off",
}  # fmt: skip


@pytest.mark.parametrize("kind", all_kinds())
def test_every_run_has_four_checkpoints_and_none_is_rarer_than_before(kind: str) -> None:
    """Agents are tested below, as their episodes must end in between."""
    made = find_kind(kind).settings_class()
    assert interval(made(checkpoint_every=70), 999) == 70
    assert made().checkpoint_every == "auto"
    for steps in (1, 3, 40, 999, 7_000, 10**9) if kind not in AGENTS else ():
        assert 1 <= (every := interval(made(), steps)) <= LONGEST.get(kind, 2_000)
        assert steps // every >= min(4, steps)


def interval(settings: RunSettings, steps: int) -> Any:
    settings.fit(steps)
    return settings.checkpoint_every


@pytest.mark.parametrize(
    ("settings", "steps", "expected"),
    [
        (PPOSettings(env="CartPole-v1", steps=100_000), 100_000, 40_000),  # 10 × 500 steps × 8 copies
        (PPOSettings(env="CartPole-v1", steps=4_000_000), 4_000_000, 250_000),
        (PPOSettings(env="CartPole-v1", steps=2_000, num_envs=1), 2_000, 5_000),
        (PPOSettings(env="CartPole-v1", steps=100_000, max_episode_steps=50), 100_000, 25_000),
        (PPOSettings(env="CliffWalking-v1", steps=100_000, num_envs=4), 100_000, 40_000),  # without a limit: 1,000
        (PPOSettings(sequence="cartpole,ninerooms", steps_per_task=10_000, num_envs=2), 20_000, 10_000),
        (SACSettings(env="Pendulum-v1", steps=6_000, num_envs=2), 6_000, 4_000),
        (DQNSettings(env="ALE/Asterix-v5", steps=100_000), 100_000, 250_000),  # 10 × 27,000 × 4
        (DQNSettings(env="ALE/Asterix-v5", steps=100_000, max_frames=4_000), 100_000, 40_000),
    ],
)
def test_an_agents_interval_is_a_quarter_of_the_run_but_ten_of_the_longest_episodes(
    settings: RunSettings, steps: int, expected: int
) -> None:
    if "ALE" in str(vars(settings)["env"]):
        pytest.importorskip("ale_py")
    assert interval(settings, steps) == expected


@pytest.mark.parametrize("name", [name for kind in AGENTS for name in presets_of(kind) if name != "sac-mlp"])
def test_presets_with_published_results_save_where_they_did(name: str) -> None:
    preset = presets_of()[name]
    own = {"fire-atari-small": 20_000, "fire-humanoid-small": 15_000}
    own |= {"minatar-small": 50_000, "continual-minatar-small": 50_000}
    settings = settings_with(find_kind(preset.kind), preset, {})
    _, steps = settings.stream()  # type: ignore[attr-defined]
    assert interval(settings, steps * settings.cycles) == own.get(name, 250_000)  # type: ignore[attr-defined]


def test_the_interval_is_in_config_json_and_an_extended_run_keeps_it(tmp_path: Path) -> None:
    settings = PPOSettings(**PPO)
    prepare(RunSpec("ppo", settings), tmp_path / "a").close()
    written = json.loads((tmp_path / "a/config.json").read_text())["settings"]
    assert written["checkpoint_every"] == 200
    extended = read_spec(tmp_path / "a").settings.lengthen(8_000)
    assert extended.checkpoint_every == 200
