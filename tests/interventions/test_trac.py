"""TRAC: the printed algorithm in float64, and its error function."""

import pytest
import scipy.special
import torch
from torch.nn.utils import parameters_to_vector

from supple.interventions import make, snapshot
from supple.interventions.trac import BETAS, erfi
from tests.interventions.common import exact, learner, update


def test_a_loop_that_clears_gradients_in_the_step_trains_the_same():
    kept, dropped = learner(), learner()
    dropped.optimizer.register_step_post_hook(lambda optimizer, *_: optimizer.zero_grad())
    for target in (kept, dropped):
        update(target, make("trac", epsilon=1e-3), 3)
    exact(snapshot(kept.module), snapshot(dropped.module))


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["paper", "as_released"])
@pytest.mark.parametrize("epsilon", [1e-8, 1e-3])
def test_each_of_300_updates_equals_the_printed_or_the_released_algorithm(variant, epsilon):
    """Both start each update from the same state, since the algorithm amplifies rounding along its own path."""
    target, trac = learner(), make("trac", epsilon=epsilon, variant=variant)
    parameters = list(target.module.parameters())
    start = parameters_to_vector(parameters).detach().clone()
    delta, scale, v, sigma = torch.zeros_like(start), 0.0, [0.0] * 6, [1e-8] * 6
    for _ in range(300):
        if variant == "as_released":
            delta = (parameters_to_vector(parameters).detach() - start) / (scale + epsilon)
        update(target, trac)
        gradient = parameters_to_vector([p.grad for p in parameters])
        h = float(delta @ gradient)
        delta = delta - 0.05 * gradient
        v = [beta**2 * old + h**2 for beta, old in zip(BETAS, v, strict=True)]
        sigma = [beta * old - h for beta, old in zip(BETAS, sigma, strict=True)]
        x = [s / (2**0.5 * old**0.5 + epsilon) for s, old in zip(sigma, v, strict=True)]
        wanted = max(0.0, sum(epsilon * scipy.special.erfi(value) / scipy.special.erfi(0.5**0.5) for value in x))
        after = parameters_to_vector(parameters).detach()
        torch.testing.assert_close(after, start + wanted * delta, rtol=1e-5, atol=1e-6)
        scale = float(trac.numbers(target)["trac_scale"])
        assert scale == pytest.approx(wanted, rel=1e-5)
    assert scale > 0.1


def test_erfi_equals_scipys():
    x = torch.linspace(-8, 8, 4001, dtype=torch.float64)
    torch.testing.assert_close(erfi(x), torch.from_numpy(scipy.special.erfi(x.numpy())), rtol=1e-11, atol=0)
    assert torch.isfinite(erfi(torch.tensor([50.0, -50.0]))).all()
