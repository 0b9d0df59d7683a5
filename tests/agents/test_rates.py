"""Learning rates that fall linearly or as a cosine, over the run or in each task, for all agents."""

import copy
import math
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
from tests.agents.small import train

RUN: dict[str, Any] = {"steps_per_task": 160, "checkpoint_every": 80, "eval_episodes": 0, "learning_rate": 0.01}
OVER_RUN = {"schedule": "linear", "schedule_over": "run"}


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
    ("kind", "seeds", "own", "expected"),
    [
        ("ppo", (0,), {}, [1, 1, 1, 1]),
        ("ppo", (0,), OVER_RUN, [1, 0.75, 0.5, 0.25]),
        ("ppo", (0,), {"schedule": "linear"}, [1, 0.5, 1, 0.5]),
        ("dqn", (0, 1), {"schedule": "linear", "min_rate": 0.2}, [1, 0.6, 1, 0.6]),
        ("sac", (0,), OVER_RUN | {"schedule": "cosine"}, [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125)]),
    ],
)
def test_a_decision_has_the_learning_rate_of_its_first_step(
    rates: dict[int, list[float]], tmp_path: Path, kind: str, seeds: Any, own: dict[str, Any], expected: list[float]
) -> None:
    train(kind, tmp_path / "run", seeds, **RUN, **own)
    learners = {"ppo": 1, "dqn": 1, "sac": 3}[kind]  # also of a stack
    for step, factor in zip((0, 80, 160, 240), expected, strict=True):
        assert rates[step] == pytest.approx([0.01 * factor] * learners)


@pytest.mark.slow
def test_muon_keeps_its_ratio_to_a_falling_learning_rate(rates: dict[int, list[float]], tmp_path: Path) -> None:
    train("ppo", tmp_path / "run", **RUN, **OVER_RUN, hook=("muon@0.25",), rollout_steps=40)
    expected = {0: [0.01], 80: [0.0075, 0.075], 160: [0.005, 0.05], 240: [0.0025, 0.025]}  # Adam's, Muon's
    assert {step: pytest.approx(values) for step, values in rates.items()} == expected


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
