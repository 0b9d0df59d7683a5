import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make

X, Y = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def learner(optimizer: type[torch.optim.Optimizer] = torch.optim.SGD, lr: float = 0.05) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    made = optimizer(module.parameters(), lr=lr)  # type: ignore[call-arg]
    return learner_for(module, made, probe=lambda: (X,), loss=lambda: (module(X) - Y).square().mean())


def update(target: Learner, upgd: object = None) -> None:
    target.optimizer.zero_grad()
    target.loss().backward()
    if upgd:
        upgd.before_update(target)  # type: ignore[attr-defined]
    target.optimizer.step()
    if upgd:
        upgd.after_update(target)  # type: ignore[attr-defined]


def by_hand(
    target: Learner, beta: float, sigma: float, lr: float, updates: int, variant: str = "paper"
) -> list[Tensor]:
    """Algorithm 1 (first order, global), with the noise that the learner's generator gives."""
    parameters = list(target.module.parameters())
    draws = torch.Generator()
    draws.set_state(target.generator.get_state())
    utility = [torch.zeros_like(p) for p in parameters]
    for step in range(1, updates + 1):
        gradients = torch.autograd.grad(target.loss(), parameters)
        with torch.no_grad():
            utility = [beta * u + (1 - beta) * -g * p for u, g, p in zip(utility, gradients, parameters, strict=True)]
            corrected = [u / (1 - beta**step) for u in utility]
            top = max(float(u.max()) for u in (corrected if variant == "paper" else utility))
            for parameter, gradient, u in zip(parameters, gradients, corrected, strict=True):
                noise = sigma * torch.randn(parameter.shape, generator=draws, dtype=parameter.dtype) if sigma else 0
                parameter -= lr * (gradient - noise) * (1 - torch.sigmoid(u / top))
    return [p.detach().clone() for p in parameters]


@pytest.mark.parametrize("variant", ["paper", "as_released"])
@pytest.mark.parametrize("sigma", [0.0, 0.3])
def test_with_sgd_it_is_the_papers_algorithm_or_the_released_one(sigma, variant):
    wanted = by_hand(learner(), 0.9, sigma, 0.05, 8, variant)
    target, upgd = learner(), make("upgd", beta=0.9, sigma=sigma, variant=variant)
    for _ in range(8):
        update(target, upgd)
    for parameter, value in zip(target.module.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


def test_with_adam_a_step_is_adams_own_times_what_the_utility_leaves():
    target, upgd = learner(torch.optim.Adam), make("upgd", beta=0.0, sigma=0.0)
    other = copy.deepcopy(target.module)
    gradients = torch.autograd.grad(target.loss(), list(target.module.parameters()))
    utility = [-g * p.detach() for g, p in zip(gradients, target.module.parameters(), strict=True)]
    top = max(float(u.max()) for u in utility)
    update(target, upgd)
    for parameter, old, gradient, u in zip(
        target.module.parameters(), other.parameters(), gradients, utility, strict=True
    ):
        wanted = -0.05 * gradient.sign() * (1 - torch.sigmoid(u / top))  # Adam's first step
        torch.testing.assert_close(parameter.detach() - old.detach(), wanted, rtol=1e-4, atol=1e-6)


def test_the_most_useful_weight_moves_least():
    target, upgd = learner(), make("upgd", beta=0.0, sigma=0.0)
    before, gradients = (
        copy.deepcopy(target.module),
        torch.autograd.grad(target.loss(), list(target.module.parameters())),
    )
    update(target, upgd)
    shares = torch.cat(
        [
            ((p.detach() - old.detach()) / (-0.05 * g)).flatten()
            for p, old, g in zip(target.module.parameters(), before.parameters(), gradients, strict=True)
        ]
    )
    utility = torch.cat([(-g * p.detach()).flatten() for p, g in zip(before.parameters(), gradients, strict=True)])
    assert shares[utility.argmax()].item() == pytest.approx(1 - torch.sigmoid(torch.tensor(1.0)).item(), rel=1e-5)
    assert torch.equal(utility.argsort(), (-shares).argsort())


def test_without_a_useful_weight_nothing_is_protected_and_without_a_gradient_nothing_moves():
    target, upgd = learner(), make("upgd", beta=0.0, sigma=0.0)
    head = target.module[2]
    before = copy.deepcopy(target.module)
    for parameter in target.module[0].parameters():
        parameter.grad = parameter.detach().clone()  # every utility is −θ² ≤ 0
    upgd.before_update(target)
    target.optimizer.step()
    upgd.after_update(target)
    torch.testing.assert_close(target.module[0].weight, 0.95 * before[0].weight)
    assert torch.equal(head.weight, before[2].weight)


def test_a_loop_that_skips_the_first_half_of_it_is_told_so():
    target = learner()
    with pytest.raises(RuntimeError, match=r"upgd: .* before_update\(learner\)"):
        make("upgd").after_update(target)
    with pytest.raises(ValueError, match="upgd: 'model' has no optimizer"):
        make("upgd").attach(learner_for(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))))


@pytest.mark.parametrize("params", [{"beta": 1.0}, {"beta": -0.1}, {"sigma": -1.0}, {"sigma": float("inf")}])
def test_numbers_that_make_no_sense_are_refused(params):
    with pytest.raises(ValueError, match=f"upgd: {next(iter(params))} must"):
        make("upgd", **params)


def test_parameters_that_the_optimizer_does_not_hold_stay_where_they_are():
    target, upgd = learner(), make("upgd", sigma=0.3)
    target.optimizer = torch.optim.SGD(target.module[2].parameters(), lr=0.05)
    before = {name: value.clone() for name, value in target.module.state_dict().items()}
    for _ in range(3):
        update(target, upgd)
    moved = {name for name, value in target.module.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"2.weight", "2.bias"}
