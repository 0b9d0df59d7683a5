from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from supple.interventions import Learner, StackedLinear, learner_for, make
from supple.interventions import ewc as ewc_module
from supple.interventions.ewc import empirical_fisher


class Task:
    """Some data; batches of 8 of them, again and again."""

    def __init__(self, seed: int, rows: int = 24) -> None:
        source = torch.Generator().manual_seed(seed)
        self.x = torch.randn(rows, 4, generator=source, dtype=torch.float64)
        self.y = torch.randint(3, (rows,), generator=source)


def learner(task: Task, members: int = 0) -> Learner:
    torch.manual_seed(0)
    layers = [StackedLinear(members, 4, 6), nn.Tanh(), StackedLinear(members, 6, 3)] if members else None
    module = nn.Sequential(*(layers or [nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3)])).double()

    def batches(count: int | None) -> Iterator[Tensor]:
        for k in range(3 if count is None else count):
            rows = torch.arange(8 * (k % 3), 8 * (k % 3) + 8)
            labels = task.y[rows].repeat(max(members, 1))
            losses = F.cross_entropy(module(task.x[rows]).flatten(0, -2), labels, reduction="none")
            yield losses.view(members, 8) if members else losses

    return learner_for(module, torch.optim.SGD(module.parameters(), lr=0.1), batches=batches)


def by_hand(target: Learner, task: Task, samples: int) -> dict[str, Tensor]:
    """One backward pass for each sample."""
    named = dict(target.module.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in named.items()}
    for k in range(samples):
        loss = F.cross_entropy(target.module(task.x[k : k + 1]), task.y[k : k + 1])
        for name, gradient in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
            total[name] += gradient.square() / samples
    return total


@torch.no_grad()
def move(target: Learner, seed: int) -> None:
    source = torch.Generator().manual_seed(seed)
    for parameter in target.module.parameters():
        parameter.add_(torch.randn(parameter.shape, generator=source, dtype=parameter.dtype))


@pytest.mark.parametrize("budget", [2**25, 150, 1])  # of all samples of a batch at once, of a few, of each
@pytest.mark.parametrize("samples", [3, 8, 20])
def test_the_fisher_is_the_mean_square_of_each_samples_gradient(monkeypatch, budget, samples):
    monkeypatch.setattr(ewc_module, "BUDGET", budget)
    task = Task(1)
    target = learner(task)
    actual, wanted = empirical_fisher(target, samples), by_hand(target, task, samples)
    assert actual.keys() == wanted.keys()
    for name, value in actual.items():
        torch.testing.assert_close(value, wanted[name])
    assert all(p.grad is None for p in target.module.parameters())


@pytest.mark.slow
@pytest.mark.parametrize("decay", [1.0, 0.6])
@pytest.mark.parametrize("reference", ["last", "each"])
def test_after_several_tasks_the_penalty_pulls_as_the_sum_of_theirs(decay, reference):
    task = Task(1)
    target, ewc = learner(task), make("ewc", strength=3.0, samples=20, decay=decay, reference=reference)
    ewc.attach(target)
    assert ewc.penalty(target).item() == 0.0
    past: list[tuple[dict[str, Tensor], dict[str, Tensor]]] = []
    for seed in range(3):
        move(target, seed)
        task.__init__(seed)  # type: ignore[misc]
        ewc.finish_task(target)
        now = {name: p.detach().clone() for name, p in target.module.named_parameters()}
        past.append((by_hand(target, task, 20), now))
    assert (ewc.penalty(target).item() < 1e-12) == (reference == "last")
    move(target, 9)
    named = dict(target.module.named_parameters())
    actual = torch.autograd.grad(ewc.penalty(target), list(named.values()))
    for (name, parameter), gradient in zip(named.items(), actual, strict=True):
        wanted = torch.zeros_like(gradient)
        for age, (fisher, centre) in enumerate(reversed(past)):
            start = centre if reference == "each" else past[-1][1]
            wanted += 2 * 3.0 * decay**age * fisher[name] * (parameter.detach() - start[name])
        torch.testing.assert_close(gradient, wanted)


def test_a_parameter_that_no_sample_depends_on_is_free():
    task = Task(1)
    target, ewc = learner(task), make("ewc", samples=8, reference="each")
    with torch.no_grad():
        target.module[2].weight[:, 0] = 0  # the loss does not depend on the first unit
    for _ in range(2):
        ewc.finish_task(target)
        with torch.no_grad():
            target.module[0].weight[0] += 1.0
    assert ewc.penalty(target).item() == 0.0


def test_a_learner_without_batches_is_refused_before_training():
    with pytest.raises(ValueError, match=r"ewc: 'model' .* Learner.batches"):
        make("ewc").attach(learner_for(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))))
