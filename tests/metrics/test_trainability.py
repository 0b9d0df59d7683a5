"""Trainability equals a hand-written loop, is 0 for a network that cannot learn, and changes nothing."""

import copy

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for
from supple.metrics import trainability
from tests.zoo.networks import Calls

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))
FEW = 20


def network(width: int = 16, out: int = 3) -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, out))


def learner(module: nn.Module, x: Tensor = X, seed: int = 0) -> Learner:
    return learner_for(module, probe=lambda: (x,), loss=lambda: module(x).square().mean(), seed=seed)


def scores(target: Learner, updates: int = FEW, learning_rate: float = 1e-3) -> tuple[list[float], list[float]]:
    fit = trainability(target, updates, learning_rate)
    assert fit is not None
    numbers = fit.numbers()
    assert torch.equal(numbers["trainability"] + numbers["trainability/loss"], torch.ones(len(fit.loss)))
    return numbers["trainability"].tolist(), numbers["trainability/initial"].tolist()


def test_trainability_equals_a_hand_written_loop() -> None:
    torch.manual_seed(0)
    module, x = network().double(), X.double()
    target = learner(module, x, seed=7)
    drawn = learner(copy.deepcopy(module), x, seed=7 ^ 1)  # a generator beside the learner's own
    with torch.no_grad():
        module[0].weight.mul_(1.5)
        random = copy.deepcopy(module)
        random.load_state_dict(drawn.redraw())
        outputs = random(x)
        wanted = module(x) + (outputs - outputs.mean(0)) / outputs.std(0, correction=0)
    optimizer = torch.optim.Adam((fitted := copy.deepcopy(module)).parameters(), lr=1e-2)
    for _ in range(FEW):
        optimizer.zero_grad()
        (fitted(x) - wanted).square().mean().backward()
        optimizer.step()
    fit = trainability(target, FEW, 1e-2)
    assert fit is not None
    assert float(fit.loss) == pytest.approx(float((fitted(x) - wanted).detach().square().mean()))


@pytest.mark.slow
def test_an_untrained_network_has_the_score_of_step_0_and_learns() -> None:
    torch.manual_seed(0)
    now, start = scores(learner(network(width=64)), 100, 3e-3)
    assert now == start
    assert 0.8 < now[0] <= 1


@pytest.mark.slow
def test_dead_units_learn_nothing_and_initial_ones_do() -> None:
    torch.manual_seed(0)
    module = network(width=64)
    target = learner(module)
    module[0].bias.data.fill_(-100.0)
    now, start = scores(target, 100, 3e-3)
    assert now == [pytest.approx(0, abs=1e-5)]
    assert start[0] > 0.8


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_the_size_of_the_present_outputs_does_not_matter(offset: float) -> None:
    torch.manual_seed(0)
    module = network()
    target = learner(module)
    module[-1].bias.data.add_(offset)
    now, start = scores(target)
    assert now == pytest.approx(start, abs=2e-3)  # of numbers by 1000, float32 keeps four digits after the point


@pytest.mark.slow
def test_more_updates_fit_better() -> None:
    torch.manual_seed(0)
    target = learner(network(out=3000))  # of which 1024 count
    learned = [scores(target, updates)[0][0] for updates in (1, 10, 40)]
    assert learned == sorted(learned)
    assert learned[0] > 0


def test_after_each_is_called_after_each_update() -> None:
    told: list[None] = []
    trainability(learner(network()), FEW, after_each=lambda: told.append(None))
    assert len(told) == 2 * FEW  # from the present parameters and from those of step 0


def test_a_measurement_leaves_the_generators_of_a_redraw_alone_and_constant_outputs_do_not_count() -> None:
    torch.manual_seed(0)
    module, another = Calls(lambda self, x: (self.net(x), torch.ones(len(x))), net=network()), torch.Generator()
    target = learner_for(module, probe=lambda: (X,), loss=lambda: module(X)[0].square().mean())
    draw, before = target.redraw, another.get_state()
    target.redraw = lambda: (torch.rand(1, generator=another), draw())[1]
    target.redraw_draws = (another,)
    assert 0 < scores(target)[0][0] < 1
    assert torch.equal(another.get_state(), before)


def test_without_data_there_is_no_score() -> None:
    assert trainability(learner_for(network())) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_16_bits_are_fitted_as_those_of_32(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    module = network(width=32)
    for p in module.parameters():
        p.data.mul_(2.0)  # so large that a step of the fit would be rounded away
    wide, half = (
        scores(learner(net, X.to(net[0].weight)), 150)[0] for net in (module, copy.deepcopy(module).to(dtype))
    )
    assert half == pytest.approx(wide, abs=0.02)
