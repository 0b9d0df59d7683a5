"""A member of a stack of agents that diverges ends alone, with its environments."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from supple.agents.work import AgentWork
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.envs import StepResult
from supple.envs.vector import Vector
from tests.agents.small import KINDS, lines, settings

pytestmark = pytest.mark.slow

SEEDS, BAD, AT = (3, 5, 7), 5, 110  # the seed that diverges, and the step from which on it does
COMMON: dict[str, Any] = {
    "steps_per_task": 96, "measure_every": 32, "checkpoint_every": 48, "eval_episodes": 1, "eval_tasks": "past",

}  # fmt: skip
ENVS = 2  # of each member
kinds = pytest.mark.parametrize("kind", KINDS)


def train(kind: str, folder: Path, **own: Any) -> list[str]:
    """Train the three seeds, and return what the run said."""
    told: list[str] = []
    prepare(RunSpec(kind, settings(kind, **COMMON | own).of(SEEDS)), folder, told.append).train()
    return told


def log(path: Path, name: str) -> list[dict[str, Any]]:
    return [{key: row[key] for key in row.keys() - {"time", "seconds"}} for row in lines(path, name)]


@kinds
def test_the_other_members_go_on_as_if_nothing_had_happened_also_in_a_run_that_is_resumed(
    tmp_path: Path, kind: str, same: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = ("redo(tau=0.5)@every:50", "snp@0.8")
    sound, run = tmp_path / "sound", tmp_path / "run"
    train(kind, sound, hook=hook)
    advance, freeze = AgentWork.advance, AgentWork._freeze_envs
    frozen: list[list[int]] = []

    def poisoned(work: AgentWork, task: Any, step: int, *args: Any) -> int:
        made = advance(work, task, step, *args)
        if step < AT <= step + made:
            learner = next(iter(work.learners.values()))
            with torch.no_grad():
                next(learner.module.parameters())[learner.networks_of([SEEDS.index(BAD)])] = torch.nan
        return made

    def noted(work: AgentWork) -> None:
        freeze(work)
        if work._envs is not None:
            frozen.append(sorted(work._envs._running.frozen))  # type: ignore[attr-defined]

    monkeypatch.setattr(AgentWork, "advance", poisoned)
    (line,) = train(kind, run, hook=hook)
    assert "seed 5 diverged by step" in line
    (event,) = [event for event in log(run, "events") if event["event"] == "diverged"]
    assert event["seed"] == BAD
    assert AT <= event["step"] <= AT + 40
    for name in ("metrics", "episodes"):
        for seed in (3, 7):
            own = [[row for row in log(each, name) if row["seed"] == seed] for each in (run, sound)]
            assert own[0] == own[1]
        assert all(row["step"] <= event["step"] for row in log(run, name) if row["seed"] == BAD)
    fired = [event["seeds"] for event in log(run, "events") if event["event"] == "intervention"]
    assert fired[0] == list(SEEDS)
    assert fired[-1] == [3, 7]
    evaluated = [(event["task"], event["seed"]) for event in log(run, "events") if event["event"] == "evaluation"]
    assert evaluated == [*((0, seed) for seed in SEEDS), *2 * [(1, 3), (1, 7)]]

    monkeypatch.setattr(AgentWork, "_freeze_envs", noted)
    again = shutil.copytree(run, tmp_path / "again")
    shutil.rmtree(max((again / "checkpoints").iterdir()))
    open_run(again, print).train()
    same.assert_runs(again, run)
    assert frozen
    assert frozen == [list(range(ENVS, 2 * ENVS))] * len(frozen)


@kinds
def test_the_curvature_of_the_others_is_measured_if_a_finite_reward_has_an_infinite_loss(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = Vector.step

    def rewarding(envs: Vector, actions: Any) -> StepResult:
        result = step(envs, actions)
        if not envs._running.frozen:
            result.reward[ENVS : 2 * ENVS] = 1e38
        return result

    monkeypatch.setattr(Vector, "step", rewarding)
    plain: dict[str, dict[str, Any]] = {
        "ppo": {"normalize_rewards": False, "measure_every": 32},
        "dqn": {"clip_rewards": False, "loss": "mse", "measure_every": 64}, "sac": {"measure_every": 96},
    }  # fmt: skip
    own = {
        "cycles": 1,
        "steps_per_task": 192,
        "eval_episodes": 0,
        "eval_tasks": "auto",
        "curvature": True,
        "physics": "single",
    }
    told = train(kind, tmp_path / "run", **own, **plain[kind])
    assert f"seed {BAD} diverged" in told[0]
    measured = [row for row in lines(tmp_path / "run", "metrics") if any(name.endswith("/lambda_max") for name in row)]
    assert {row["seed"] for row in measured} == {*SEEDS} - {BAD}
