"""TRAC: the printed algorithm in float64, its error function, stacks, checkpoints."""

import pytest
import scipy.special
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for, make
from supple.interventions.trac import BETAS, erfi

X, Y = torch.randn(2, 32, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def learner(optimizer: type[torch.optim.Optimizer] = torch.optim.SGD, lr: float = 0.05) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4)).double()
    made = optimizer(module.parameters(), lr=lr)  # type: ignore[call-arg]
    return learner_for(module, made, probe=lambda: (X,), loss=lambda: (module(X) - Y).square().mean())


def update(target: Learner, trac: object) -> None:
    assert target.optimizer
    target.optimizer.zero_grad()
    target.loss().backward()
    trac.before_update(target)  # type: ignore[attr-defined]
    target.optimizer.step()
    trac.after_update(target)  # type: ignore[attr-defined]


def test_a_loop_that_clears_gradients_in_the_step_trains_the_same() -> None:
    kept, dropped = learner(), learner()
    for target, drops in ((kept, False), (dropped, True)):
        trac = make("trac", epsilon=1e-3)
        for _ in range(3):
            assert target.optimizer
            target.optimizer.zero_grad()
            target.loss().backward()
            trac.before_update(target)
            target.optimizer.step()
            if drops:
                target.optimizer.zero_grad()
            trac.after_update(target)
    for ours, theirs in zip(kept.module.parameters(), dropped.module.parameters(), strict=True):
        assert torch.equal(ours, theirs)


class ByHand:
    """The algorithm on one vector, with plain gradient steps."""

    def __init__(self, start: Tensor, epsilon: float, lr: float, released: bool) -> None:
        self.start, self.epsilon, self.lr, self.released = start, epsilon, lr, released
        self.delta, self.scale, self.v, self.sigma = torch.zeros_like(start), 0.0, [0.0] * 6, [1e-8] * 6

    def step(self, theta: Tensor, gradient: Tensor) -> Tensor:
        if self.released:
            self.delta = (theta - self.start) / (self.scale + self.epsilon)
        h = float(self.delta @ gradient)
        self.delta = self.delta - self.lr * gradient
        self.v = [beta**2 * v + h**2 for beta, v in zip(BETAS, self.v, strict=True)]
        self.sigma = [beta * sigma - h for beta, sigma in zip(BETAS, self.sigma, strict=True)]
        x = [s / (2**0.5 * v**0.5 + self.epsilon) for s, v in zip(self.sigma, self.v, strict=True)]
        self.scale = max(
            0.0, sum(self.epsilon * scipy.special.erfi(argument) / scipy.special.erfi(0.5**0.5) for argument in x)
        )
        return self.start + self.scale * self.delta


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "as_released"])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_each_of_1000_updates_equals_the_printed_or_the_released_algorithm(variant: str, epsilon: float) -> None:
    """Both start each update from the same state, since the algorithm amplifies rounding along its own path."""
    target, trac = learner(), make("trac", epsilon=epsilon, variant=variant)
    parameters = list(target.module.parameters())
    start = nn.utils.parameters_to_vector(parameters).detach().clone()
    reference = ByHand(start, epsilon, 0.05, variant == "as_released")
    for _ in range(1000):
        before = nn.utils.parameters_to_vector(parameters).detach().clone()
        update(target, trac)
        gradient = nn.utils.parameters_to_vector([p.grad for p in parameters if p.grad is not None])
        after = nn.utils.parameters_to_vector(parameters).detach()
        torch.testing.assert_close(after, reference.step(before, gradient), rtol=1e-5, atol=1e-6)
        scale = float(trac.numbers(target)["trac_scale"])
        assert scale == pytest.approx(reference.scale, rel=1e-5)
        reference.scale = scale
    assert scale > 0.1


def test_erfi_equals_scipys() -> None:
    x = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    torch.testing.assert_close(erfi(x), torch.from_numpy(scipy.special.erfi(x.numpy())), rtol=1e-11, atol=0)
    assert torch.isfinite(erfi(torch.tensor([50.0, -50.0]))).all()
    assert erfi(torch.zeros(1)).item() == 0.0


@pytest.mark.slow
def test_it_learns_and_logs_its_scale() -> None:
    target, trac = learner(torch.optim.Adam, 0.01), make("trac")
    before = float(target.loss())
    for _ in range(500):
        update(target, trac)
    assert float(target.loss()) < 0.9 * before
    assert trac.numbers(target)["trac_scale"] > 1e-6
