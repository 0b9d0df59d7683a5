import copy
import math

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make

X, Y = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def learner(
    optimizer: type[torch.optim.Optimizer] = torch.optim.SGD, lr: float = 0.05, **params: float | bool
) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    made = optimizer(module.parameters(), lr=lr, **params)  # type: ignore[call-arg]
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
def test_with_sgd_it_equals_the_papers_or_the_released_algorithm(sigma, variant):
    wanted = by_hand(learner(), 0.9, sigma, 0.05, 8, variant)
    target, upgd = learner(), make("upgd", beta=0.9, sigma=sigma, variant=variant)
    for _ in range(8):
        update(target, upgd)
    for parameter, value in zip(target.module.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


def update_as_released(target: Learner, adam: bool, sigma: float, decay: float, updates: int) -> list[Tensor]:
    """What the authors' optimizers compute, number by number: UPGD, or AdaUPGD with Adam's moments."""
    beta, rate, epsilon = 0.9, 0.05, 1e-8
    draws = torch.Generator()
    draws.set_state(target.generator.get_state())
    parameters = list(target.module.parameters())
    utility, first, second = ([0.0] * sum(p.numel() for p in parameters) for _ in range(3))
    for t in range(1, updates + 1):
        theta = nn.utils.parameters_to_vector(parameters).tolist()
        gradient = nn.utils.parameters_to_vector(torch.autograd.grad(target.loss(), parameters)).tolist()
        noises = [torch.randn(p.shape, generator=draws, dtype=p.dtype).flatten() for p in parameters] if sigma else []
        noise = (-sigma * torch.cat(noises)).tolist() if sigma else [0.0] * len(theta)
        utility = [beta * u - (1 - beta) * g * w for u, g, w in zip(utility, gradient, theta, strict=True)]
        first = [0.9 * m + 0.1 * g for m, g in zip(first, gradient, strict=True)]
        second = [0.999 * v + 0.001 * g**2 for v, g in zip(second, gradient, strict=True)]
        new = []
        for w, g, u, m, v, xi in zip(theta, gradient, utility, first, second, noise, strict=True):
            free = 1 - 1 / (1 + math.exp(-u / (1 - beta**t) / max(utility)))
            direction = m / (1 - 0.9**t) / (math.sqrt(v / (1 - 0.999**t)) + epsilon) if adam else g
            new.append(w * (1 - rate * decay) - (2 * rate if adam else rate) * (direction + xi) * free)
        nn.utils.vector_to_parameters(torch.tensor(new, dtype=torch.float64), parameters)
    return [p.detach().clone() for p in parameters]


@pytest.mark.parametrize("decay", [0.0, 0.7])
@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_as_released_decay_is_unprotected_and_adam_takes_twice_the_step(
    optimizer: type[torch.optim.Optimizer], sigma: float, decay: float
) -> None:
    wanted = update_as_released(learner(), optimizer is torch.optim.AdamW, sigma, decay, 8)
    target, upgd = learner(optimizer, weight_decay=decay), make("upgd", beta=0.9, sigma=sigma, variant="as_released")
    upgd.attach(target)
    for _ in range(8):
        update(target, upgd)
    for parameter, value in zip(target.module.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.detach(), value)


def test_as_released_without_a_useful_weight_useless_ones_are_protected() -> None:
    target, upgd = learner(), make("upgd", beta=0.0, sigma=0.0, variant="as_released")
    first, before = target.module[0], copy.deepcopy(target.module[0])
    for parameter in first.parameters():
        parameter.grad = parameter.detach().clone()  # every utility is −θ² ≤ 0
    utility = -torch.cat([p.detach().square().flatten() for p in before.parameters()])
    upgd.before_update(target)
    target.optimizer.step()
    upgd.after_update(target)
    share = 0.05 * (1 - torch.sigmoid(-before.weight.square() / utility.max()))
    torch.testing.assert_close(first.weight, (1 - share) * before.weight)


def test_as_released_with_utilities_of_zero_stays_finite() -> None:
    target, upgd = learner(), make("upgd", beta=0.0, sigma=0.0, variant="as_released")
    for parameter in target.module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = copy.deepcopy(target.module)
    upgd.before_update(target)
    target.optimizer.step()
    upgd.after_update(target)
    assert torch.equal(target.module[0].weight, before[0].weight)


@pytest.mark.parametrize(
    ("optimizer", "params", "says"),
    [
        (torch.optim.SGD, {"momentum": 0.9}, "got SGD with momentum"),
        (torch.optim.RMSprop, {}, "got RMSprop"),
        (torch.optim.NAdam, {}, "got NAdam"),
        (torch.optim.Adam, {"weight_decay": 0.1}, "use AdamW, or weight_decay=0"),
    ],
)
def test_as_released_refuses_an_optimizer_without_released_code(
    optimizer: type[torch.optim.Optimizer], params: dict[str, float | bool], says: str
) -> None:
    target = learner(optimizer, **params)
    with pytest.raises(ValueError, match=f"upgd: variant=as_released .*{says}"):
        make("upgd", variant="as_released").attach(target)
    make("upgd").attach(target)


@pytest.mark.parametrize(
    ("optimizer", "params"),
    [(torch.optim.Adam, {}), (torch.optim.Adam, {"weight_decay": 0.1, "decoupled_weight_decay": True})],
)
def test_as_released_takes_adam_where_its_decay_is_decoupled_or_absent(
    optimizer: type[torch.optim.Optimizer], params: dict[str, float | bool]
) -> None:
    target, other = learner(optimizer, **params), learner(torch.optim.AdamW, weight_decay=params.get("weight_decay", 0))
    for subject in (target, other):
        upgd = make("upgd", sigma=0.1, variant="as_released")
        upgd.attach(subject)
        for _ in range(3):
            update(subject, upgd)
    torch.testing.assert_close(target.module[0].weight, other.module[0].weight)


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


def test_a_loop_without_before_update_raises_an_error():
    target = learner()
    with pytest.raises(RuntimeError, match=r"upgd: .* before_update\(learner\)"):
        make("upgd").after_update(target)
    with pytest.raises(ValueError, match="upgd: 'model' has no optimizer"):
        make("upgd").attach(learner_for(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))))


def test_parameters_outside_the_optimizer_are_unchanged():
    target, upgd = learner(), make("upgd", sigma=0.3)
    target.optimizer = torch.optim.SGD(target.module[2].parameters(), lr=0.05)
    before = {name: value.clone() for name, value in target.module.state_dict().items()}
    for _ in range(3):
        update(target, upgd)
    moved = {name for name, value in target.module.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"2.weight", "2.bias"}
