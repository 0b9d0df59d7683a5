from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import Learner, make, snapshot
from supple.interventions import ewc as ewc_module
from supple.interventions.ewc import empirical_fisher
from tests.interventions.common import disturb
from tests.interventions.common import learner as learner_of


def draw() -> tuple[Tensor, Tensor]:
    return torch.randn(24, 4, dtype=torch.float64), torch.randint(3, (24,))


def learner() -> Learner:
    """A learner of three batches of 8 of its `data`."""
    target = learner_of()
    target.data = draw()

    def batches(count: int | None) -> Iterator[Tensor]:
        for k in range(3 if count is None else count):
            x, y = (values[8 * (k % 3) : 8 * (k % 3) + 8] for values in target.data)
            yield F.cross_entropy(target.module(x), y, reduction="none")

    target.batches = batches
    return target


def by_hand(target: Learner, samples: int) -> dict[str, Tensor]:
    """One backward pass for each sample."""
    total = {name: torch.zeros_like(p) for name, p in target.module.named_parameters()}
    for x, y in zip(*(values[:samples].split(1) for values in target.data), strict=True):
        loss = F.cross_entropy(target.module(x), y)
        for mean, gradient in zip(
            total.values(), torch.autograd.grad(loss, list(target.module.parameters())), strict=True
        ):
            mean += gradient.square() / samples
    return total


@pytest.mark.parametrize("budget", [2**25, 150, 1])  # of all samples of a batch at once, of a few, of each
@pytest.mark.parametrize("samples", [3, 20])
def test_the_fisher_is_the_mean_square_of_each_samples_gradient(monkeypatch, budget, samples):
    monkeypatch.setattr(ewc_module, "BUDGET", budget)
    target = learner()
    torch.testing.assert_close(empirical_fisher(target, samples), by_hand(target, samples))
    assert all(p.grad is None for p in target.module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1.0, 0.6])
@pytest.mark.parametrize("reference", ["last", "each"])
def test_after_several_tasks_the_penalty_pulls_as_the_sum_of_theirs(decay, reference):
    target, ewc = learner(), make("ewc", strength=3.0, samples=20, decay=decay, reference=reference)
    ewc.attach(target)
    assert ewc.penalty(target).item() == 0.0
    past: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
    for _ in range(3):
        disturb(target, 1.0)
        target.data = draw()
        ewc.finish_task(target)
        past.append((by_hand(target, 20), snapshot(target.module)))
    assert (ewc.penalty(target).item() < 1e-12) == (reference == "last")
    ewc.penalty(disturb(target, 1.0)).backward()
    for name, parameter in target.module.named_parameters():
        wanted = 0
        for age, (fisher, centre) in enumerate(reversed(past)):
            start = centre if reference == "each" else past[-1][1]
            wanted = wanted + 2 * 3.0 * decay**age * fisher[name] * (parameter.detach() - start[name])
        torch.testing.assert_close(parameter.grad, wanted)


def test_a_parameter_that_no_sample_depends_on_is_free():
    target, ewc = learner(), make("ewc", samples=8, reference="each")
    nn.init.zeros_(target.module[2].weight)  # the loss does not depend on the first layer
    for _ in range(2):
        ewc.finish_task(target)
        nn.init.ones_(target.module[0].weight)
    assert ewc.penalty(target).item() == 0.0
