"""Muon trains hidden matrices, Adam the rest; each member of a stack is a network of its own."""

import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import (
    Injectable,
    Learner,
    MuonWithAdam,
    StackedLinear,
    learner_for,
    make,
    orthogonalize,
    parse_hook,
)
from supple.interventions.schedule import AtStart, AtTask
from supple.networks.stacked import StackedConv2d

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
MEMBERS = 3


class Convolutions(nn.Module):
    """Images of a batch, or of each member's batch: encoder, two hidden layers (one a convolution), head."""

    def __init__(self, members: int = 0) -> None:
        super().__init__()
        self.members = members
        self.first = StackedConv2d(members, 2, 3, 3) if members else nn.Conv2d(2, 3, 3)
        self.second = StackedConv2d(members, 3, 4, 3) if members else nn.Conv2d(3, 4, 3)
        self.hidden = StackedLinear(members, 16, 8) if members else nn.Linear(16, 8)
        self.units = nn.ModuleList(nn.Tanh() for _ in range(3))
        self.head = StackedLinear(members, 8, 2) if members else nn.Linear(8, 2)

    def forward(self, images: Tensor) -> Tensor:
        x = self.units[1](self.second(self.units[0](self.first(images))))
        return self.head(self.units[2](self.hidden(x.flatten(-3))))


IMAGES = torch.randn(MEMBERS, 5, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def plain(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 12), nn.Linear(12, 2))


def learner(lr: float = 1e-3, kind: type[torch.optim.Optimizer] = torch.optim.Adam) -> Learner:
    module = plain()
    return learner_for(module, kind(module.parameters(), lr=lr), probe=lambda: (X,), loss=lambda: loss_of(module))


def loss_of(module: nn.Module, inputs: Tensor = X) -> Tensor:
    return (module(inputs) - 1).square().mean((-1, -2)).sum()


def train(learner: Learner, steps: int = 3, inputs: Tensor = X) -> None:
    assert learner.optimizer
    for _ in range(steps):
        learner.optimizer.zero_grad()
        loss_of(learner.module, inputs).backward()
        learner.optimizer.step()


def groups(learner: Learner) -> list[dict]:
    assert isinstance(learner.optimizer, MuonWithAdam)
    return learner.optimizer.matrices()


# -- the step ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_step_is_that_of_torch_muon_and_of_adamw():
    """torch's Muon iterates in bfloat16, so it agrees to about 1 % of a step on matrices of good condition."""
    ours, peer = learner(1e-3, torch.optim.AdamW), plain()
    make("muon").apply(ours)
    hidden = [peer[2].weight, peer[4].weight]
    others = [p for p in peer.parameters() if all(p is not h for h in hidden)]
    muon = torch.optim.Muon(hidden, lr=1e-2, momentum=0.95, weight_decay=0.01)
    adam = torch.optim.AdamW(others, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
    before = [p.detach().clone() for p in hidden]
    draws = torch.Generator().manual_seed(0)
    for _ in range(4):
        for mine, theirs in zip(ours.module.parameters(), peer.parameters(), strict=True):
            mine.grad = theirs.grad = torch.randn(mine.shape, generator=draws)
        for optimizer in (ours.optimizer, muon, adam):
            optimizer.step()
    for mine, theirs, start in zip([ours.module[2].weight, ours.module[4].weight], hidden, before, strict=True):
        assert torch.linalg.norm(mine - theirs) < 0.02 * torch.linalg.norm(theirs - start)
    for (name, mine), theirs in zip(ours.module.named_parameters(), peer.parameters(), strict=True):
        if name not in ("2.weight", "4.weight"):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-7)


def test_hidden_matrices_follow_the_equation():
    ours = learner()
    make("muon", lr=0.02, momentum=0.8, weight_decay=0.1).apply(ours)
    matrix = ours.module[4].weight  # 12 × 8: taller than wide
    W, M = matrix.detach().clone(), torch.zeros_like(matrix)
    for _ in range(3):
        train(ours, 1)
        M = 0.8 * M + 0.2 * matrix.grad
        step = orthogonalize(0.2 * matrix.grad + 0.8 * M, "muon", steps=5)
        W = W * (1 - 0.02 * 0.1) - 0.02 * (12 / 8) ** 0.5 * step
        torch.testing.assert_close(matrix.detach(), W, rtol=1e-4, atol=1e-5)


def test_a_kernel_is_a_matrix_with_one_row_for_each_output():
    torch.manual_seed(0)
    ours = learner_for(module := Convolutions(), torch.optim.Adam(module.parameters()))
    make("muon", lr=0.1).apply(ours)
    kernel = module.second.weight
    before = kernel.detach().clone()
    train(ours, 1, IMAGES[0])
    moved = (before - kernel.detach()).flatten(1) / 0.1
    torch.testing.assert_close(moved, orthogonalize(kernel.grad.flatten(1), "muon", steps=5), rtol=1e-3, atol=1e-4)


def test_a_member_without_gradient_is_unchanged_and_does_not_change_the_others():
    torch.manual_seed(0)
    stack = Convolutions(MEMBERS)
    make("muon").apply(subject := learner_for(stack, torch.optim.Adam(stack.parameters())))
    before = stack.hidden.weight.detach().clone()
    (stack(IMAGES)[1:] - 1).square().sum().backward()
    assert subject.optimizer
    subject.optimizer.step()
    assert torch.equal(stack.hidden.weight[0], before[0])
    assert stack.hidden.weight.isfinite().all()
    assert (stack.hidden.weight[1:] != before[1:]).any(-1).any(-1).all()


def test_as_released_the_first_layer_is_included_and_kernels_have_the_factor_of_their_sides():
    """√max(1, k_h/k_w) of each kernel, the paper's factor of each matrix, in stacks as for one network."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(2, 8, 1), nn.Conv2d(8, 3, (3, 1)), nn.Flatten(), nn.Linear(48, 80), nn.Linear(80, 2)
    )
    ours = learner_for(module, torch.optim.Adam(module.parameters()))
    make("muon", lr=0.1, variant="as_released").apply(ours)
    (group,) = groups(ours)
    assert {id(p) for p in group["params"]} == {id(module[i].weight) for i in (0, 1, 3)}
    before = [module[i].weight.detach().clone() for i in (0, 1, 3)]
    train(ours, 1, torch.randn(5, 2, 6, 4))
    for i, old, factor in zip((0, 1, 3), before, (1.0, 3**0.5, (80 / 48) ** 0.5), strict=True):
        moved = (old - module[i].weight.detach()).flatten(1) / 0.1
        step = orthogonalize(module[i].weight.grad.flatten(1), "muon", steps=5)
        torch.testing.assert_close(moved, factor * step, rtol=1e-3, atol=1e-4)


# -- as an optimizer -----------------------------------------------------------------------------------------


def test_steps_of_matrices_keep_their_ratio_to_adams_learning_rate():
    default, chosen = learner(1e-3), learner(1e-3)
    make("muon").apply(default)
    make("muon", lr=0.05).apply(chosen)
    for subject, rate in ((default, 1e-2), (chosen, 0.05)):
        (group,) = groups(subject)
        assert group["lr"] * group["ratio"] == pytest.approx(rate)
    assert default.optimizer
    for group in default.optimizer.param_groups:
        assert group["initial_lr"] == 1e-3
        group["lr"] = 0.5 * group["initial_lr"]
    before = default.module[2].weight.detach().clone()
    twin = copy.deepcopy(default.module)
    train(default, 1)
    loss_of(twin).backward()
    step = orthogonalize(twin[2].weight.grad, "muon", steps=5)
    torch.testing.assert_close((before - default.module[2].weight.detach()) / 5e-3, step, rtol=1e-3, atol=1e-3)


def test_an_injected_head_is_trained_by_it_as_the_head_was():
    module = plain()
    ours = learner_for(
        nn.Sequential(module[:2], module[2:]), torch.optim.Adam(module.parameters()), capabilities=(Injectable("1"),)
    )
    for name in ("muon", "injection"):
        make(name).apply(ours)
    (group,) = groups(ours)
    assert {id(p) for p in group["params"]} == {id(layer.weight) for layer in ours.layers if layer.role == "hidden"}
    before = ours.module[1].new[0].weight.detach().clone()
    train(ours)
    assert not torch.equal(ours.module[1].new[0].weight, before)


# -- as an intervention --------------------------------------------------------------------------------------


def test_applying_it_changes_the_optimizer_alone():
    ours = learner()
    train(ours)
    old, before = ours.optimizer, copy.deepcopy(ours.module.state_dict())
    muon = make("muon")
    muon.attach(ours)
    assert muon.apply(ours) == []
    assert ours.optimizer is not old
    assert not ours.optimizer.state
    assert all(torch.equal(value, before[name]) for name, value in ours.module.state_dict().items())
    (group,) = groups(ours)
    assert [p.shape for p in group["params"]] == [(8, 12), (12, 8)]
    held = [p for group in ours.optimizer.param_groups for p in group["params"]]
    assert len(held) == len({id(p) for p in held}) == len(list(ours.module.parameters()))
    assert ours.changes == ["muon"]


def test_applied_again_it_changes_its_settings():
    ours = learner()
    make("muon").apply(ours)
    optimizer = ours.optimizer
    make("muon", lr=0.1, momentum=0.5).apply(ours)
    (group,) = groups(ours)
    assert ours.optimizer is optimizer
    assert group["lr"] * group["ratio"] == pytest.approx(0.1)
    assert group["momentum"] == 0.5
    assert ours.changes == ["muon", "muon(lr=0.1,momentum=0.5)"]


def test_a_second_variant_on_one_learner_is_refused():
    ours = learner()
    make("muon").apply(ours)
    with pytest.raises(ValueError, match="'model' is already trained with variant=paper, not as_released"):
        make("muon", variant="as_released").apply(ours)


def test_without_a_schedule_it_is_applied_at_the_start():
    hook = parse_hook("muon(momentum=0.9)")
    assert hook
    assert hook.schedule == AtStart()
    assert hook.text == "muon(momentum=0.9)@start"
    assert (parse_hook("muon@task:1") or hook).schedule == AtTask(1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: learner(kind=torch.optim.SGD), "'model' has SGD; it needs Adam or AdamW"),
        (lambda: learner_for(plain()), "'model' has no optimizer; it needs"),
        (lambda: learner_for(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))), "no Linear or Conv layer between"),
    ],
)
def test_a_learner_without_hidden_matrices_or_adam_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        make("muon").attach(build())
