"""Muon trains hidden matrices, Adam the rest; each member of a stack is a network of its own."""

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Injectable, Learner, MuonWithAdam, StackedLinear, make, orthogonalize, snapshot
from supple.networks.stacked import StackedConv2d
from tests.interventions.common import changed, exact, refused, update
from tests.interventions.common import learner as learner_of

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
IMAGES = torch.randn(3, 5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


class Convolutions(nn.Module):
    """Images of a batch, or of each member's batch: encoder, two hidden layers (one a convolution), head."""

    def __init__(self, members: int = 0) -> None:
        super().__init__()
        self.first = StackedConv2d(members, 2, 3, 3) if members else nn.Conv2d(2, 3, 3)
        self.second = StackedConv2d(members, 3, 4, 3) if members else nn.Conv2d(3, 4, 3)
        self.hidden = StackedLinear(members, 16, 8) if members else nn.Linear(16, 8)
        self.units = nn.ModuleList(nn.Tanh() for _ in range(3))
        self.head = StackedLinear(members, 8, 2) if members else nn.Linear(8, 2)

    def forward(self, images: Tensor) -> Tensor:
        x = self.units[1](self.second(self.units[0](self.first(images))))
        return self.head(self.units[2](self.hidden(x.flatten(-3))))


def plain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 12), nn.Linear(12, 2))


def learner(kind: type[torch.optim.Optimizer] = torch.optim.Adam) -> Learner:
    return learner_of(plain, kind, X, lr=1e-3)


def matrices(learner: Learner) -> dict:
    assert isinstance(learner.optimizer, MuonWithAdam)
    (group,) = learner.optimizer.matrices()
    return group


def ns5(matrix: Tensor) -> Tensor:
    return orthogonalize(matrix.flatten(1), "muon", steps=5)


# -- the step ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_step_is_that_of_torch_muon_and_of_adamw():
    """torch's Muon iterates in bfloat16, so it agrees to about 1 % of a step on matrices of good condition."""
    ours, peer = learner(torch.optim.AdamW), learner().module
    make("muon").apply(ours)
    hidden = [peer[2].weight, peer[4].weight]
    others = [p for p in peer.parameters() if all(p is not h for h in hidden)]
    muon = torch.optim.Muon(hidden, lr=1e-2, momentum=0.95, weight_decay=0.01)
    adam = torch.optim.AdamW(others, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
    before = snapshot(peer)
    draws = torch.Generator().manual_seed(0)
    for _ in range(4):
        for mine, theirs in zip(ours.module.parameters(), peer.parameters(), strict=True):
            mine.grad = theirs.grad = torch.randn(mine.shape, generator=draws)
        for optimizer in (ours.optimizer, muon, adam):
            optimizer.step()
    for (name, mine), theirs in zip(ours.module.named_parameters(), peer.parameters(), strict=True):
        if name in ("2.weight", "4.weight"):
            assert torch.linalg.norm(mine - theirs) < 0.02 * torch.linalg.norm(theirs - before[name])
        else:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-7)


def test_hidden_matrices_follow_the_equation():
    ours = learner()
    make("muon", lr=0.02, momentum=0.8, weight_decay=0.1).apply(ours)
    matrix = ours.module[4].weight  # 12 × 8: taller than wide
    W, M = matrix.detach().clone(), torch.zeros_like(matrix)
    for _ in range(3):
        update(ours)
        M = 0.8 * M + 0.2 * matrix.grad
        W = W * (1 - 0.02 * 0.1) - 0.02 * (12 / 8) ** 0.5 * ns5(0.2 * matrix.grad + 0.8 * M)
        torch.testing.assert_close(matrix.detach(), W, rtol=1e-4, atol=1e-5)


def test_a_member_without_gradient_is_unchanged_and_does_not_change_the_others():
    target = learner_of(lambda: Convolutions(3), torch.optim.Adam, IMAGES)
    make("muon").apply(target)
    stack, before = target.module, snapshot(target.module)["hidden.weight"]
    (stack(IMAGES)[1:] - 1).square().sum().backward()
    target.optimizer.step()
    assert torch.equal(stack.hidden.weight[0], before[0])
    assert stack.hidden.weight.isfinite().all()
    assert (stack.hidden.weight[1:] != before[1:]).any(-1).any(-1).all()


def flat() -> nn.Module:
    return nn.Sequential(nn.Conv2d(2, 8, 1), nn.Conv2d(8, 3, (3, 1)), nn.Flatten(), nn.Linear(72, 80), nn.Linear(80, 2))


@pytest.mark.parametrize(
    ("build", "variant", "factors"),
    [
        (Convolutions, "paper", {"second.weight": 1.0, "hidden.weight": 1.0}),
        (flat, "as_released", {"0.weight": 1.0, "1.weight": 3**0.5, "3.weight": (80 / 72) ** 0.5}),
    ],
)
def test_a_kernel_is_a_matrix_with_one_row_for_each_output_and_as_released_has_the_factor_of_its_sides(
    build, variant, factors
):
    """As released, √max(1, k_h/k_w) of each kernel, and the first layer is included."""
    ours = learner_of(build, torch.optim.Adam, IMAGES[0])
    make("muon", lr=0.1, variant=variant).apply(ours)
    held = {id(p) for p in matrices(ours)["params"]}
    before = snapshot(ours.module)
    assert {name for name, p in ours.module.named_parameters() if id(p) in held} == set(factors)
    update(ours)
    for name, factor in factors.items():
        weight = ours.module.get_parameter(name)
        moved = (before[name] - weight.detach()).flatten(1) / 0.1
        torch.testing.assert_close(moved, factor * ns5(weight.grad), rtol=1e-3, atol=1e-4)


# -- as an optimizer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("params", "rate"), [({}, 1e-2), ({"lr": 0.05}, 0.05)])
def test_steps_of_matrices_keep_their_ratio_to_adams_learning_rate(params, rate):
    target = learner()
    make("muon", **params).apply(target)
    assert matrices(target)["lr"] * matrices(target)["ratio"] == pytest.approx(rate)
    for group in target.optimizer.param_groups:
        assert group["initial_lr"] == 1e-3
        group["lr"] = 0.5 * group["initial_lr"]
    weight = target.module[2].weight
    before = weight.detach().clone()
    update(target)
    torch.testing.assert_close((before - weight.detach()) / (rate / 2), ns5(weight.grad), rtol=1e-3, atol=1e-3)


def test_an_injected_head_is_trained_by_it_as_the_head_was():
    ours = learner_of(lambda: nn.Sequential((whole := plain())[:2], whole[2:]), torch.optim.Adam, X)
    ours.capabilities = (Injectable("1"),)
    for name in ("muon", "injection"):
        make(name).apply(ours)
    held = {id(p) for p in matrices(ours)["params"]}
    assert held == {id(layer.weight) for layer in ours.layers if layer.role == "hidden"}
    before = snapshot(ours.module)
    update(ours)
    assert "1.new.2.weight" in changed(ours.module, before)


# -- as an intervention --------------------------------------------------------------------------------------


def test_applying_it_changes_the_optimizer_alone_and_again_its_settings():
    ours = learner()
    update(ours, count=3)
    old, before, muon = ours.optimizer, snapshot(ours.module), make("muon")
    muon.attach(ours)
    assert muon.apply(ours) == []
    optimizer = ours.optimizer
    assert optimizer is not old
    assert not optimizer.state
    exact(snapshot(ours.module), before)
    assert [p.shape for p in matrices(ours)["params"]] == [(8, 12), (12, 8)]
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert sorted(held) == sorted(map(id, ours.module.parameters()))
    update(ours)
    make("muon", lr=0.1, momentum=0.5).apply(ours)
    assert ours.optimizer is optimizer
    assert not optimizer.state
    assert matrices(ours)["lr"] * matrices(ours)["ratio"] == pytest.approx(0.1)
    assert matrices(ours)["momentum"] == 0.5
    assert ours.changes == ["muon", "muon(lr=0.1,momentum=0.5)"]
    with refused("'model' is already trained with variant=paper, not as_released"):
        make("muon", variant="as_released").apply(ours)
