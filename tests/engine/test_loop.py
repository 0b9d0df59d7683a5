"""One loop trains: steps, tasks and checkpoints of a run of PPO, and what it says when it ends."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from supple.agents.ppo import PPOSettings
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.experiments.history.logs import read_log
from supple.registry.errors import RunError
from supple.tracks.linear.settings import LinearSettings
from tests.processes import stop_at


def run(path: Path, warn: Callable[[str], None] = lambda line: None, **changes: Any) -> list[int]:
    """Train; returns the steps that were reported as progress."""
    values = {
        "env": "inverted_pendulum", "num_envs": 2, "rollout_steps": 64, "minibatch_size": 32, "hidden": (16, 16),
        "adapter": 0, "epochs": 2, "eval_episodes": 0, "compile": "off", **changes,
    }  # fmt: skip
    prepare(RunSpec("ppo", PPOSettings(**values)), path).close()
    steps: list[int] = []
    open_run(path, warn).train(steps.append)
    return steps


@pytest.mark.slow
def test_steps_are_those_of_all_environments_together(tmp_path: Path) -> None:
    steps = run(tmp_path / "run", steps=700, measure_every=256, checkpoint_every=10_000)
    assert steps == [0, 128, 256, 384, 512, 640, 700]  # the last rollout is cut short
    assert [line["step"] for line in read_log(tmp_path / "run", "metrics")] == [256, 512, 700]
    episodes = read_log(tmp_path / "run", "episodes")
    # InvertedPendulum gives 1 a step, so returns count steps; two episodes at most are still running.
    assert 700 - 2 * max(e["length"] for e in episodes) < sum(e["length"] for e in episodes) <= 700


@pytest.mark.slow
def test_a_condition_that_is_never_met_is_reported_when_training_ends(tmp_path: Path) -> None:
    hooks = ("snp@when:weight_norm>0", "fire@when:dormant_fraction>2")
    told: list[str] = []
    run(tmp_path / "run", steps=256, measure_every=128, hook=hooks, warn=told.append)
    assert told == [
        f"{tmp_path / 'run'}: fire@when:dormant_fraction>2.0 never fired, because its condition was never met"
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "killed"), [(None, 99), (40, 99), (None, 40)])
def test_logs_without_their_checkpoints_are_refused_and_left_as_they_are(
    tmp_path: Path, stop: int | None, killed: int
) -> None:
    """A run that has ended, one that stops early and one that was killed. Otherwise they would begin again."""
    settings = LinearSettings(tasks="random", updates_per_task=80, measure_every=10, checkpoint_every=20)

    with nullcontext() if killed > 80 else pytest.raises(KeyboardInterrupt):
        prepare(RunSpec("linear", settings, stop=stop), tmp_path / "run").train(stop_at(killed))
    (tmp_path / "run/checkpoints").rename(tmp_path / "elsewhere")
    logs = {file: file.read_bytes() for file in tmp_path.glob("run/*.jsonl")}
    with pytest.raises(RunError, match=r"metrics.jsonl has lines, but .*checkpoints is missing"):
        open_run(tmp_path / "run").train()
    assert {file: file.read_bytes() for file in tmp_path.glob("run/*.jsonl")} == logs
    assert any(logs.values())


@pytest.mark.slow
def test_a_checkpoint_ends_every_episode_and_steps_count_on(tmp_path: Path) -> None:
    run(tmp_path / "run", steps=512, checkpoint_every=128, keep_checkpoints=2)
    kept = sorted(int(p.name) for p in (tmp_path / "run" / "checkpoints").iterdir())
    assert kept == [384, 512]
    for episode in read_log(tmp_path / "run", "episodes"):
        begun = episode["step"] - 2 * episode["length"]
        assert begun // 128 == (episode["step"] - 1) // 128  # no episode spans a checkpoint


@pytest.mark.slow
def test_each_task_of_a_stream_takes_its_share_of_the_steps(tmp_path: Path) -> None:
    run(
        tmp_path / "run", env=None, sequence="inverted_pendulum,inverted_double_pendulum", steps_per_task=300, cycles=2,
        adapter=8,
    )  # fmt: skip
    tasks = [e for e in read_log(tmp_path / "run", "events") if e["event"] == "task"]
    assert [(e["step"], e["cycle"]) for e in tasks] == [(0, 0), (300, 0), (600, 1), (900, 1)]
    for episode in read_log(tmp_path / "run", "episodes"):
        assert 300 * episode["task"] < episode["step"] <= 300 * (episode["task"] + 1)
