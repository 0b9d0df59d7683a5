"""A learning rate that falls linearly: over the run, as CleanRL does, or in each task."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.agent import PPO
from supple.registry.errors import UsageError
from supple.scripts import compare, train

RUN = shlex.split(
    "ppo --env Pendulum-v1 --cycles 2 --steps-per-task 160 --num-envs 2 --rollout-steps 40 --minibatch-size 40 "
    "--epochs 1 --hidden 8 8 --adapter 0 --eval-episodes 0 --measure-every 80 --checkpoint-every 80"
)


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the learning rates of all updates, in order."""
    seen: list[float] = []
    update = PPO.update

    def watched(agent: PPO, *args: Any, **kwargs: Any) -> bool:
        if learned := update(agent, *args, **kwargs):
            seen.extend(group["lr"] * group.get("ratio", 1.0) for group in agent.optimizer.param_groups)
        return learned

    monkeypatch.setattr(PPO, "update", watched)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("anneal", "expected"), [("off", [1, 1, 1, 1]), ("run", [1, 0.75, 0.5, 0.25]), ("task", [1, 0.5, 1, 0.5])]
)
def test_an_update_has_the_learning_rate_of_its_rollouts_first_step(
    rates: list[float], tmp_path: Path, anneal: str, expected: list[float]
) -> None:
    train.main([*RUN, "--learning-rate", "0.01", "--anneal", anneal, "--out", str(tmp_path / "run")])
    assert rates == pytest.approx([0.01 * factor for factor in expected])


@pytest.mark.slow
def test_muon_keeps_its_ratio_to_an_annealed_learning_rate(rates: list[float], tmp_path: Path) -> None:
    arguments = ["--hook", "muon@0.25", "--anneal", "run", "--learning-rate", "0.01", "--out", str(tmp_path / "run")]
    train.main([*RUN, *arguments])
    steps = [(0.01,), (0.0075, 0.075), (0.005, 0.05), (0.0025, 0.025)]  # Adam's, Muon's
    assert rates == pytest.approx([rate for pair in steps for rate in pair])


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bytes(killed: Any, same: Any, tmp_path: Path) -> None:
    arguments = [*RUN, "--anneal", "run", "--hook", "muon@0.25"]
    train.main([*arguments, "--out", str(tmp_path / "reference")])
    killed(["train", *arguments], tmp_path / "run", 160)
    same.assert_runs(tmp_path / "run", tmp_path / "reference")


@pytest.mark.slow
def test_an_arm_continues_with_the_learning_rate_of_the_trunk(here: Any, same: Any, tmp_path: Path) -> None:
    arguments = [*RUN, "--anneal", "run"]
    train.main([*arguments, "--out", str(tmp_path / "whole")])
    with here():
        compare.main([*arguments, "--fork-at", "0.5", "--arm", "none", "--out", str(tmp_path / "forked")])
    assert same.last_state(tmp_path / "forked/seed-0/none") == same.last_state(tmp_path / "whole")


def test_annealing_over_the_run_is_refused_with_fresh_agents() -> None:
    settings = PPOSettings(env="Pendulum-v1", cycles=2, steps_per_task=160, fresh=True, anneal="run")
    with pytest.raises(UsageError, match=r"--anneal run .* --fresh True"):
        settings.check()
    settings.anneal = "task"
    settings.check()
