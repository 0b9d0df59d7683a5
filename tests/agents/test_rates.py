"""Learning rates that fall linearly or as a cosine, over the run or in each task, for all agents."""

import copy
import math
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from supple.agents.ppo import PPOSettings
from supple.agents.rates import rate_at, scale_rates
from supple.agents.work import AgentWork
from supple.interventions import Learner
from supple.interventions.muon import MuonWithAdam
from supple.networks import Adam
from supple.scripts import train

STREAM = "--cycles 2 --steps-per-task 160 --eval-episodes 0 --measure-every 80 --checkpoint-every 80"
RUNS = {
    "ppo": shlex.split(
        f"ppo --env Pendulum-v1 {STREAM} --num-envs 2 --rollout-steps 40 --minibatch-size 40 --epochs 1 --hidden 8 8"
    ),
    "dqn": shlex.split(
        f"dqn --env CartPole-v1 {STREAM} --num-envs 2 --learning-starts 20 --batch-size 4 --replay-size 100 "
        "--replay-ratio 0.25 --hidden 8 8 --device cpu"
    ),
    "sac": shlex.split(
        f"sac --env Pendulum-v1 {STREAM} --learning-starts 20 --batch-size 4 --replay-size 100 --network mlp "
        "--replay-ratio 0.25 --hidden 8 8 --device cpu --compile off"
    ),
}
RUN = RUNS["ppo"]
SCHEDULE = ("--schedule", "linear", "--schedule-over", "run")


@pytest.fixture
def rates(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[float]]:
    """Return the learning rates of all optimizers by the step before a decision, those of one learner after another."""
    seen: dict[int, list[float]] = {}
    advance = AgentWork.advance

    def watched(work: AgentWork, task: Any, step: int, *rest: Any) -> int:
        steps = advance(work, task, step, *rest)
        learners = list(work.learners.values())
        if soft_update := getattr(work.agent, "soft_update", None):
            learners.append(soft_update.temperature)
        groups = [group for learner in learners for group in learner.optimizer.param_groups]  # type: ignore[union-attr]
        seen[step] = [group["lr"] * group.get("ratio", 1.0) for group in groups]
        return steps

    monkeypatch.setattr(AgentWork, "advance", watched)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "expected"),
    [
        ("ppo", "", [1, 1, 1, 1]),
        ("ppo", "--schedule linear --schedule-over run", [1, 0.75, 0.5, 0.25]),
        ("ppo", "--schedule linear", [1, 0.5, 1, 0.5]),
        ("dqn", "--schedule linear --min-rate 0.2", [1, 0.6, 1, 0.6]),
        ("sac", "--schedule cosine --schedule-over run", [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]),
    ],
)
def test_a_decision_has_the_learning_rate_of_its_first_step(
    rates: dict[int, list[float]], tmp_path: Path, kind: str, options: str, expected: list[float]
) -> None:
    train.main([*RUNS[kind], "--learning-rate", "0.01", *options.split(), "--out", str(tmp_path / "run")])
    learners = {"ppo": 1, "dqn": 1, "sac": 3}[kind]
    for step, factor in zip((0, 80, 160, 240), expected, strict=True):
        assert rates[step] == pytest.approx([0.01 * factor] * learners)


@pytest.mark.slow
def test_a_stack_has_one_rate(rates: dict[int, list[float]], tmp_path: Path) -> None:
    train.main([*RUNS["dqn"], *SCHEDULE, "--learning-rate", "0.01", "--seeds", "0-1", "--out", str(tmp_path / "run")])
    assert rates[160] == pytest.approx([0.005])


@pytest.mark.slow
def test_muon_keeps_its_ratio_to_a_falling_learning_rate(rates: dict[int, list[float]], tmp_path: Path) -> None:
    arguments = ["--hook", "muon@0.25", *SCHEDULE, "--learning-rate", "0.01", "--out", str(tmp_path / "run")]
    train.main([*RUN, *arguments])
    expected = {0: [0.01], 80: [0.0075, 0.075], 160: [0.005, 0.05], 240: [0.0025, 0.025]}  # Adam's, Muon's
    assert {step: pytest.approx(values) for step, values in rates.items()} == expected


def test_fresh_agents_may_follow_a_schedule_in_each_task() -> None:
    PPOSettings(env="Pendulum-v1", cycles=2, steps_per_task=32_000, fresh=True, schedule="linear").check()


def test_a_share_of_one_keeps_the_bits_of_the_learning_rate() -> None:
    settings = PPOSettings(env="Pendulum-v1", cycles=2, steps_per_task=320, schedule="cosine")
    task = settings.plan_tasks()[1]
    assert rate_at(settings, task, 640, 320) == 1.0
    assert rate_at(settings, task, 640, 640) == 0.0


@pytest.mark.parametrize("stacked", [False, True])
def test_optimizers_of_cuda_graphs_read_their_rate_from_one_tensor(stacked: bool) -> None:
    """A recorded step reads the memory of the rate, so that it must be written in place."""
    torch.manual_seed(0)
    plain = nn.Linear(16, 16)
    if stacked:
        plain.weight = nn.Parameter(torch.randn(2, 16, 16))
        plain.bias = nn.Parameter(torch.randn(2, 16))
    ends = []
    for rate in (0.01, torch.tensor(0.01, dtype=torch.float64)):
        network = copy.deepcopy(plain)
        optimizer = MuonWithAdam(Adam(network.parameters(), lr=rate, networks=int(stacked)), {network.weight: stacked})
        learner = Learner(
            "net", network, optimizer, (), (), probe=lambda: None, loss=lambda: torch.zeros(()),
            generator=torch.Generator(), redraw=dict,
        )  # fmt: skip
        for share in (1.0, 0.5, 0.25):
            scale_rates([learner], share)
            for parameter in network.parameters():
                parameter.grad = torch.linspace(-1, 1, parameter.numel()).view_as(parameter)
            optimizer.step()
        if isinstance(rate, torch.Tensor):
            assert all(group["lr"] is rate for group in optimizer.param_groups)
            assert rate == 0.0025
        ends.append(torch.cat([p.detach().flatten() for p in network.parameters()]))
    torch.testing.assert_close(ends[0], ends[1])
    assert not torch.equal(ends[0], torch.cat([p.detach().flatten() for p in plain.parameters()]))
