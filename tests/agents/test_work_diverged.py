"""A member of a stack of agents that diverges ends alone, with its environments."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from supple.agents.work import AgentWork
from supple.engine.kinds import find_kind
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.envs import StepResult
from supple.envs.vector import Vector

SEEDS, BAD, AT = (3, 5, 7), 5, 90  # the seed that diverges, and the step from which on it does
COMMON = {"seeds": SEEDS, "steps": 192, "measure_every": 32, "checkpoint_every": 64, "eval_episodes": 0,
          "keep_checkpoints": 9, "device": "cpu"}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "ppo": {"env": "CartPole-v1", "num_envs": 2, "rollout_steps": 16, "minibatch_size": 16, "hidden": (8, 8),
            "epochs": 1, "compile": "off"},
    "dqn": {"env": "CartPole-v1", "num_envs": 1, "hidden": (8, 8), "batch_size": 8, "replay_size": 200,
            "learning_starts": 32},
    "sac": {"env": "Pendulum-v1", "num_envs": 1, "actor_width": 8, "critic_width": 8, "max_episode_steps": 20,
            "batch_size": 8, "replay_size": 200, "learning_starts": 32, "compile": "off"},
}  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)


def start(path: Path, kind: str, **changes: Any) -> Path:
    made = find_kind(kind).settings_class()
    prepare(RunSpec(kind, made(**{**COMMON, **KINDS[kind], **changes})), path, lambda line: None).close()
    return path


def train(path: Path, stop: int | None = None) -> list[str]:
    """Continue a run, and interrupt it at a step if one is given; returns what it said."""
    told: list[str] = []

    def progress(step: int) -> None:
        if stop and step >= stop:
            raise KeyboardInterrupt

    try:
        open_run(path, told.append).train(progress)
    except KeyboardInterrupt:
        assert stop
    return told


def log(path: Path, name: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / f"{name}.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("time", "seconds")} for line in lines]


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let a weight of one member become NaN after the first stretch of training that ends at `AT` or later."""
    advance = AgentWork.advance

    def poisoned(work: AgentWork, task: Any, step: int, *args: Any) -> int:
        made = advance(work, task, step, *args)
        if step < AT <= step + made:
            learner = next(iter(work.learners.values()))
            with torch.no_grad():
                next(learner.module.parameters())[learner.networks_of([SEEDS.index(BAD)])] = torch.nan
        return made

    return lambda: monkeypatch.setattr(AgentWork, "advance", poisoned)


@kinds
def test_the_other_members_go_on_as_if_nothing_had_happened(
    tmp_path: Path, kind: str, poison: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = ("redo(tau=0.5)@every:50", "snp@0.8")
    train(start(tmp_path / "sound", kind, hook=hook))
    poison()
    (line,) = train(run := start(tmp_path / "run", kind, hook=hook))
    assert "seed 5 diverged by step" in line
    (event,) = [event for event in log(run, "events") if event["event"] == "diverged"]
    assert event["seed"] == BAD
    assert AT <= event["step"] <= AT + 32
    for name in ("metrics", "episodes"):
        for seed in (3, 7):
            own = [[row for row in log(each, name) if row["seed"] == seed] for each in (run, tmp_path / "sound")]
            assert own[0] == own[1]
        assert all(row["step"] <= event["step"] for row in log(run, name) if row["seed"] == BAD)
    fired = [event["seeds"] for event in log(run, "events") if event["event"] == "intervention"]
    assert fired[0] == list(SEEDS)
    assert fired[-1] == [3, 7]


@kinds
def test_a_run_with_a_diverged_member_resumes_exactly_and_its_environments_stay_frozen(
    tmp_path: Path, kind: str, poison: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    poison()
    train(whole := start(tmp_path / "whole", kind))
    frozen: list[list[int]] = []
    run = start(tmp_path / "run", kind)
    train(run, 130)
    freeze = AgentWork._freeze_envs

    def noted(work: AgentWork) -> None:
        freeze(work)
        if work._envs is not None:
            frozen.append(sorted(work._envs._running.frozen))  # type: ignore[attr-defined]

    monkeypatch.setattr(AgentWork, "_freeze_envs", noted)
    train(run)
    copies = KINDS[kind]["num_envs"]
    assert frozen
    assert frozen == [list(range(copies, 2 * copies))] * len(frozen)
    for name in ("metrics", "episodes", "events"):
        assert log(run, name) == log(whole, name)


@kinds
def test_the_curvature_of_the_others_is_measured_if_a_finite_reward_has_an_infinite_loss(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, step = KINDS[kind]["num_envs"], Vector.step

    def rewarding(envs: Vector, actions: Any) -> StepResult:
        result = step(envs, actions)
        if not envs._running.frozen:
            result.reward[copies : 2 * copies] = 1e38
        return result

    monkeypatch.setattr(Vector, "step", rewarding)
    plain: dict[str, dict[str, Any]] = {
        "ppo": {"normalize_rewards": False, "measure_every": 32},
        "dqn": {"clip_rewards": False, "loss": "mse", "measure_every": 64}, "sac": {"measure_every": 96},
    }  # fmt: skip
    told = train(run := start(tmp_path / "run", kind, curvature=True, physics="single", **plain[kind]))
    assert f"seed {BAD} diverged" in told[0]
    measured = [line for line in log(run, "metrics") if any(name.endswith("/lambda_max") for name in line)]
    assert {line["seed"] for line in measured} == {*SEEDS} - {BAD}
