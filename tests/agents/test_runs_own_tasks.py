"""Environments that say themselves when their task changes: hooks, logs, forks, and resumed runs."""

import shutil
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.engine.runs import open_run
from supple.experiments import compare
from supple.registry.errors import UsageError
from tests.agents.small import KINDS, lines, settings, train

LASTS = 25  # steps of each copy in a task
RUN: dict[str, Any] = {
    "env": "Turning-v0", "own_tasks": True, "cycles": 1, "steps_per_task": 240, "keep_checkpoints": 9,
}  # fmt: skip


class Turning(gym.Env):
    """An environment of episodes of seven steps, which rewards another action in every task."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, acted: str = "discrete") -> None:
        self.action_space = spaces.Discrete(2) if acted == "discrete" else spaces.Box(-1, 1, (1,), np.float32)
        self.steps = 0

    @property
    def task(self) -> str:
        return "ab"[self.steps // LASTS % 2]

    def progress(self, steps: int) -> None:
        self.steps = steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.left = 7
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.left -= 1
        self.steps += 1
        reward = float(np.sum(action)) * (1 if self.task == "a" else -1)
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), reward, not self.left, False, {}


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(gym.registry, "Turning-v0", gym.envs.registration.EnvSpec("Turning-v0", Turning))


def own(kind: str, **more: Any) -> dict[str, Any]:
    box = {"env_kwargs": '{"acted": "box"}', "max_episode_steps": None, "action_repeat": 1}
    return {**RUN, **(box if kind == "sac" else {}), **more}


def steps_of(run: Path, event: str) -> list[int]:
    return [row["step"] for row in lines(run, "events") if row["event"] == event]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hooks_fire_where_the_environment_changes_its_task_also_in_a_resumed_run(
    kind: str, same: Any, tmp_path: Path
) -> None:
    hooks = ("snp(lam=0.9)@task", "reset(what=head)@task:2", "ewc(strength=1,samples=8)")
    run = train(kind, tmp_path / "run", **own(kind, hook=hooks))
    switches = [row for row in lines(run, "events") if row["event"] == "task" and "env" not in row]
    assert [(row["task"], row["name"]) for row in switches] == [(0, "a"), (1, "b"), (2, "a"), (3, "b"), (4, "a")]
    every = [80, 120, 160, 200] if kind == "ppo" else [50, 100, 150, 200]  # PPO's are at the ends of rollouts
    assert [row["step"] for row in switches[1:]] == every
    fired = [row for row in lines(run, "events") if row["event"] == "intervention"]
    assert sorted({row["step"] for row in fired if row["hook"].endswith("@task")}) == every
    assert {row["step"] for row in fired if row["hook"].endswith("task:2")} == {every[1]}
    checkpoints = sorted((run / "checkpoints").iterdir())
    for kept in (1, 2):
        again = shutil.copytree(run, tmp_path / f"again-{kept}")
        for folder in checkpoints[kept:]:
            shutil.rmtree(again / "checkpoints" / folder.name)
        open_run(again, print).train()
        same.assert_runs(again, run)


@pytest.mark.slow
def test_an_arm_goes_on_with_the_task_of_its_trunk(same: Any, tmp_path: Path) -> None:
    made = settings("dqn", **own("dqn"))
    compare("dqn", made, ["none", "fire@task"], seeds=[0], fork_at=0.5, out=tmp_path / "c")
    plain = train("dqn", tmp_path / "plain", **own("dqn"))
    folders = [*(tmp_path / "c/seed-0").iterdir()]
    assert [150, 200] in [sorted({*steps_of(folder, "intervention")}) for folder in folders]
    assert same.last_state(tmp_path / "c/seed-0/none") == same.last_state(plain)


@pytest.mark.slow
def test_worker_processes_change_nothing(same: Any, tmp_path: Path) -> None:
    for workers in (0, 2):
        train("ppo", tmp_path / str(workers), **own("ppo", hook=("fire@task",), env_workers=workers))
    same.assert_runs(tmp_path / "2", tmp_path / "0")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"cycles": 2}, "--own-tasks cannot be combined with --cycles"),
        ({"shift": "offset"}, "--own-tasks cannot be combined with --cycles, --sequence, --shift"),
        ({"env": "CartPole-v1"}, "--own-tasks: CartPole-v1 has no 'task'"),
        ({"own_tasks": False, "hook": ("fire@task",)}, "never fires"),
    ],
)
def test_what_has_no_meaning_is_refused_before_the_run(changed: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=complaint):
        train("ppo", tmp_path / "run", **own("ppo", **changed))
    assert not (tmp_path / "run").exists()
