import pytest
import torch
from torch import nn

from supple.interventions import Learner, learner_for, make, redraw, snapshot


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 2)).double()
    return learner_for(module, torch.optim.Adam(module.parameters(), lr=0.01), seed=5)


def train(target: Learner) -> None:
    x = torch.randn(8, 4, dtype=torch.float64)
    target.optimizer.zero_grad()
    target.module(x).square().mean().backward()
    target.optimizer.step()


@pytest.mark.parametrize("toward", ["fresh", "initial"])
def test_200_updates_equal_the_formulas_with_a_draw_for_each(toward: str) -> None:
    target, soft = learner(), make("soft_snp", epsilon=1e-3, toward=toward)
    module, draws = target.module, torch.Generator().manual_seed(5)
    for _ in range(200):
        train(target)
        before = snapshot(module)
        soft.after_update(target)
        goal = redraw(module, draws) if toward == "fresh" else target.initial
        for name, parameter in module.named_parameters():
            expected = 0.999 * before[name] + 0.001 * goal[name]
            torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-15)


def test_the_optimizer_state_is_kept() -> None:
    target = learner()
    train(target)
    slots = {p: {key: v.clone() for key, v in slot.items()} for p, slot in target.optimizer.state.items()}
    make("soft_snp", epsilon=0.5).after_update(target)
    for p, slot in target.optimizer.state.items():
        assert all(torch.equal(slot[key], slots[p][key]) for key in slot)
