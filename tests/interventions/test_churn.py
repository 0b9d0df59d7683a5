"""CHAIN: the printed penalties in float64, on agents, and where there is nothing to compare."""

import copy
import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal

from supple.interventions import LastLoss, Learner, OtherMinibatch, make
from tests.interventions.common import learner as learner_of
from tests.interventions.common import mlp, refused, update

STRENGTH, RATE, UPDATES, WINDOW = 3.0, 0.05, 100, 20
BATCHES, OTHERS = torch.randn(2, UPDATES, 8, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def learner(**capabilities: object) -> Learner:
    """A learner that is given BATCHES, and OTHERS by its capability; its `seen` are the losses of updates."""
    target = learner_of(mlp)
    batches, others, target.seen = iter(BATCHES), iter(OTHERS), []

    def loss() -> Tensor:
        target.seen.append(target.module(next(batches)).sin().mean())
        return target.seen[-1]

    target.loss = loss
    target.offer(OtherMinibatch(lambda: (next(others),)))
    target.offer(LastLoss(lambda: target.seen[-1].detach()))
    for name, value in capabilities.items():
        setattr(target, name, value)
    return target


def cross_entropy(before: Tensor, now: Tensor) -> Tensor:
    return -(before.softmax(-1) * now.log_softmax(-1)).sum(-1).mean()


CASES = {
    "discrete": ({"policy": lambda out, _: Categorical(logits=out), "values": lambda out: out}, cross_entropy),
    "gaussian": (
        {"policy": lambda out, _: Independent(Normal(out, 0.5), 1)},
        lambda before, now: (now - before).square().sum(-1).mean() / (2 * 0.5**2),
    ),
    "values": (
        {"policy": lambda out, _: out.argmax(1), "values": lambda out: out},
        lambda before, now: (now - before).square().mean(),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("case", "share"), [*((case, None) for case in CASES), ("gaussian", 0.01), ("values", 0.01)])
def test_updates_equal_the_released_code_and_with_a_share_the_strength_follows_the_last_ones(case, share):
    capabilities, term = CASES[case]
    target, chain = learner(**capabilities), make("chain", strength=STRENGTH, share=share, window=WINDOW)
    chain.attach(target)
    old, net = None, copy.deepcopy(target.module)
    losses, churns, strengths = [], [], []
    for number, x in enumerate(BATCHES):
        strength = STRENGTH
        if share and len(churns) >= WINDOW:
            strength = share * math.fsum(losses[-WINDOW:]) / (math.fsum(churns[-WINDOW:]) + WINDOW * 1e-8)
        strengths.append(strength)
        loss = net(x).sin().mean()
        if old is not None:  # at the first update there is nothing to compare with, and nothing is drawn
            churn = term(old(OTHERS[number - 1]).detach(), net(OTHERS[number - 1]))
            losses.append(abs(loss.item()))
            churns.append(churn.item())
            loss = loss + strength * churn
        old = copy.deepcopy(net)
        with torch.no_grad():
            for parameter, gradient in zip(
                net.parameters(), torch.autograd.grad(loss, list(net.parameters())), strict=True
            ):
                parameter.sub_(gradient, alpha=RATE)
        update(target, chain)
        torch.testing.assert_close(target.module.state_dict(), net.state_dict(), rtol=0, atol=1e-12)
        net.load_state_dict(target.module.state_dict())  # a strength that follows the churn amplifies roundings
    assert not share or min(strengths) < STRENGTH < max(strengths)


def test_after_a_change_of_architecture_the_first_penalty_is_zero():
    target, chain = learner(values=lambda out: out), make("chain")

    def penalty() -> float:
        chain.before_loss(target)
        return chain.penalty(target).item()

    update(target, chain, 2)
    assert penalty() > 0
    target.renewed["0.weight"] = 1
    assert penalty() == 0
    update(target, chain)
    assert penalty() > 0


def test_learners_without_what_it_compares_are_refused():
    target = learner_of(mlp)
    for words in ("Learner.policy or Learner.values", "OtherMinibatch"):
        with refused(f"chain: 'model' .* {words}"):
            make("chain").attach(target)
        target.values = lambda out: out
    target.offer(OtherMinibatch(lambda: None))
    with refused("chain: 'model' .* LastLoss"):
        make("chain", share=0.1).attach(target)
