"""CHAIN: the printed penalties in float64, on agents, and where there is nothing to compare."""

import copy
import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Independent, Normal

from supple.interventions import LastLoss, Learner, OtherMinibatch, learner_for, make

STRENGTH, RATE = 3.0, 0.05


def batches(seed: int, count: int, *shape: int) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def learner(module: nn.Module, others: Tensor, **capabilities: Any) -> Learner:
    target = learner_for(module.double(), torch.optim.SGD(module.parameters(), lr=RATE))
    seen = iter(others)
    target.offer(OtherMinibatch(lambda: (next(seen),)))
    for name, value in capabilities.items():
        setattr(target, name, value)
    return target


def mlp(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, outputs)).double()


def penalty(chain: Any, target: Learner) -> Tensor:
    chain.before_loss(target)
    return chain.penalty(target)


def update(target: Learner, chain: Any, x: Tensor) -> None:
    target.optimizer.zero_grad()
    loss = target.module(x).sin().mean()
    (loss + penalty(chain, target)).backward()
    chain.before_update(target)
    target.optimizer.step()
    target.offer(LastLoss(lambda: loss.detach()))
    chain.after_update(target)


def by_hand(
    net: nn.Module, old: nn.Module | None, x: Tensor, other: Tensor | None, term: Any, strength: float = STRENGTH
) -> nn.Module:
    """One step on a copy, as the released code takes it, and the copy."""
    new = copy.deepcopy(net)
    loss = new(x).sin().mean()
    if old is not None:
        with torch.no_grad():
            reference = old(other)
        loss = loss + strength * term(reference, new(other))
    gradients = torch.autograd.grad(loss, list(new.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(new.parameters(), gradients, strict=True):
            parameter.sub_(gradient, alpha=RATE)
    return new


def cross_entropy(before: Tensor, now: Tensor) -> Tensor:
    return -(before.softmax(-1) * now.log_softmax(-1)).sum(-1).mean()


def of_means(before: Tensor, now: Tensor) -> Tensor:
    return (now - before).square().sum(-1).mean() / (2 * 0.5**2)


def squares(before: Tensor, now: Tensor) -> Tensor:
    return (now - before).square().mean()


CASES = {
    "discrete": ({"policy": lambda out, _: Categorical(logits=out), "values": lambda out: out}, cross_entropy),
    "gaussian": ({"policy": lambda out, _: Independent(Normal(out, 0.5), 1)}, of_means),
    "values": ({"policy": lambda out, _: out.argmax(1), "values": lambda out: out}, squares),
}


@pytest.mark.parametrize("case", CASES)
def test_200_updates_equal_the_released_code(case: str) -> None:
    capabilities, term = CASES[case]
    minibatches, others = batches(1, 200, 8, 4), batches(2, 200, 8, 4)
    target, chain = learner(mlp(), others, **capabilities), make("chain", strength=STRENGTH)
    chain.attach(target)
    net, old = mlp(), None
    for number, x in enumerate(minibatches):
        update(target, chain, x)
        # nothing is drawn at the first update, where there is nothing to compare with
        net, old = by_hand(net, old, x, others[number - 1], term), net
        for ours, theirs in zip(target.module.parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", ["gaussian", "values"])
def test_with_a_share_200_updates_adapt_the_strength_to_the_last_ones(case: str) -> None:
    share, window = 0.01, 20
    capabilities, term = CASES[case]
    minibatches, others = batches(1, 200, 8, 4), batches(2, 200, 8, 4)
    target = learner(mlp(), others, **capabilities)
    target.offer(LastLoss(lambda: torch.zeros(())))
    chain = make("chain", strength=STRENGTH, share=share, window=window)
    chain.attach(target)
    net, old = mlp(), None
    losses: list[float] = []
    churns: list[float] = []
    strengths = []
    for number, x in enumerate(minibatches):
        update(target, chain, x)
        strength = STRENGTH
        if len(churns) >= window:
            strength = share * math.fsum(losses[-window:]) / (math.fsum(churns[-window:]) + window * 1e-8)
        strengths.append(strength)
        with torch.no_grad():
            if old is not None:
                losses.append(abs(float(net(x).sin().mean())))
                churns.append(float(term(old(others[number - 1]), net(others[number - 1]))))
        net, old = by_hand(net, old, x, others[number - 1], term, strength), net
        for ours, theirs in zip(target.module.parameters(), net.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
        net.load_state_dict(target.module.state_dict())  # a strength that follows the churn amplifies roundings
    assert min(strengths) < STRENGTH < max(strengths)


def test_after_a_change_of_architecture_the_first_penalty_is_zero() -> None:
    target, chain = learner(mlp(), batches(2, 9, 8, 4), values=lambda out: out), make("chain")
    for x in batches(1, 2, 8, 4):
        update(target, chain, x)
    assert penalty(chain, target).item() > 0
    target.renewed["0.weight"] = 1
    assert penalty(chain, target).item() == 0
    update(target, chain, batches(3, 1, 8, 4)[0])
    assert penalty(chain, target).item() > 0


def test_learners_without_a_policy_and_values_or_without_other_minibatches_are_refused() -> None:
    plain = learner_for(mlp())
    with pytest.raises(ValueError, match=r"chain: 'model' .* Learner.policy or Learner.values"):
        make("chain").attach(plain)
    plain.values = lambda out: out
    with pytest.raises(ValueError, match=r"chain: 'model' .* OtherMinibatch"):
        make("chain").attach(plain)


def test_a_share_of_an_unknown_loss_is_refused() -> None:
    target = learner(mlp(), batches(2, 9, 8, 4), values=lambda out: out)
    with pytest.raises(ValueError, match=r"chain: 'model' .* LastLoss"):
        make("chain", share=0.1).attach(target)
