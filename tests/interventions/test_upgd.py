"""UPGD: the paper's algorithm and the authors' optimizers, and where no weight is useful."""

import pytest
import torch
from torch import optim
from torch.nn.utils import parameters_to_vector

from supple.interventions import make, snapshot
from tests.interventions.common import changed, learner, refused, update

DECOUPLED = {"weight_decay": 0.7, "decoupled_weight_decay": True}


@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        *((optim.SGD, {}), (optim.SGD, {"weight_decay": 0.7}), (optim.Adam, {})),
        *((optim.Adam, DECOUPLED), (optim.AdamW, {"weight_decay": 0.7})),
    ],
)
@pytest.mark.parametrize("sigma", [0.0, 0.3])
@pytest.mark.parametrize("variant", ["paper", "as_released"])
def test_it_equals_algorithm_1_or_the_authors_optimizers(variant, sigma, optimizer, settings):
    """As released, decay is unprotected, and Adam takes twice the step."""
    target, upgd = learner(optimizer=optimizer, **settings), make("upgd", beta=0.9, sigma=sigma, variant=variant)
    upgd.attach(target)
    draws = torch.Generator()
    draws.set_state(target.generator.get_state())
    parameters = list(target.module.parameters())
    theta = parameters_to_vector(parameters).detach().clone()
    utility, first, second = torch.zeros(3, len(theta), dtype=theta.dtype)
    rate, decay, adam = 0.05, settings.get("weight_decay", 0.0), optimizer is not optim.SGD
    for t in range(1, 9):
        update(target, upgd)
        gradient = parameters_to_vector([p.grad for p in parameters])
        utility = 0.9 * utility - 0.1 * gradient * theta
        first, second = 0.9 * first + 0.1 * gradient, 0.999 * second + 0.001 * gradient**2
        corrected = utility / (1 - 0.9**t)
        move = first / (1 - 0.9**t) / ((second / (1 - 0.999**t)).sqrt() + 1e-8) if adam else gradient
        if sigma:
            noise = [torch.randn(p.shape, generator=draws, dtype=p.dtype).flatten() for p in parameters]
            move = move - sigma * torch.cat(noise)
        if variant == "paper":
            theta = theta - rate * (move + decay * theta) * (1 - torch.sigmoid(corrected / corrected.max()))
        else:
            freedom = 1 - torch.sigmoid(corrected / utility.max())
            theta = theta * (1 - rate * decay) - (2 * rate if adam else rate) * move * freedom
        torch.testing.assert_close(parameters_to_vector(parameters), theta)


@pytest.mark.parametrize("variant", ["paper", "as_released"])
def test_without_a_useful_weight_the_paper_protects_none_and_the_released_code_useless_ones(variant):
    target, upgd = learner(), make("upgd", beta=0.0, sigma=0.0, variant=variant)
    before = snapshot(target.module)
    for parameter in target.module[0].parameters():
        parameter.grad = parameter.detach().clone()  # every utility is −θ² ≤ 0; those of the other layer do not exist
    upgd.before_update(target)
    target.optimizer.step()
    upgd.after_update(target)
    weight, top = before["0.weight"], -min(before["0.weight"].square().min(), before["0.bias"].square().min())
    share = 1 - torch.sigmoid(-weight.square() / top) if variant == "as_released" else 1
    torch.testing.assert_close(target.module[0].weight.detach(), (1 - 0.05 * share) * weight)
    assert changed(target.module, before) <= {"0.weight", "0.bias"}


def test_as_released_with_utilities_of_zero_stays_finite():
    target, upgd = learner(), make("upgd", beta=0.0, sigma=0.0, variant="as_released")
    target.loss = lambda: 0.0 * sum(p.sum() for p in target.module.parameters())
    before = snapshot(target.module)
    update(target, upgd)
    assert not changed(target.module, before)


@pytest.mark.parametrize(
    ("optimizer", "settings", "words"),
    [
        (optim.SGD, {"momentum": 0.9}, "got SGD with momentum"),
        (optim.NAdam, {}, "got NAdam"),
        (optim.Adam, {"weight_decay": 0.1}, "use AdamW, or weight_decay=0"),
    ],
)
def test_as_released_refuses_an_optimizer_without_released_code(optimizer, settings, words):
    target = learner(optimizer=optimizer, **settings)
    with refused(f"upgd: variant=as_released .*{words}"):
        make("upgd", variant="as_released").attach(target)
    make("upgd").attach(target)


def test_a_loop_without_before_update_raises_an_error():
    with pytest.raises(RuntimeError, match=r"upgd: .* before_update\(learner\)"):
        make("upgd").after_update(learner())


def test_parameters_outside_the_optimizer_are_unchanged():
    target = learner()
    target.optimizer = optim.SGD(target.module[2].parameters(), lr=0.05)
    before = snapshot(target.module)
    update(target, make("upgd", sigma=0.3), 3)
    assert changed(target.module, before) == {"2.weight", "2.bias"}
