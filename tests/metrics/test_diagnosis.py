"""A diagnosis compares a network with itself at step 0, in numbers and in sentences that say what was measured."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from supple.interventions import Learner, learner_for
from supple.metrics import Diagnosis, diagnose, dormant_fraction, effective_rank, trainability

X = torch.randn(64, 5, generator=torch.Generator().manual_seed(1))


def learner(**more: object) -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 3))
    target = learner_for(module, probe=lambda: (X,), loss=lambda: module(X).square().mean())
    for name, value in more.items():
        setattr(target, name, value)
    return target


@torch.no_grad()
def silence(module: nn.Module, share: float) -> None:
    """Let this share of the second layer's units be 0 on all inputs."""
    module[2].bias[: round(16 * share)] = -100.0  # type: ignore[index, operator]


def test_a_diagnosis_has_the_metrics_of_the_network_now_and_at_step_0() -> None:
    target = learner()
    new = copy.deepcopy(target.module)
    silence(target.module, 0.25)
    diagnosis = diagnose(target, updates=5)
    fit = trainability(target, updates=5)
    assert fit is not None
    assert (diagnosis.loss, diagnosis.new_loss) == (float(fit.loss), float(fit.initial_loss))
    for condition, module in ((diagnosis.now, target.module), (diagnosis.new, new)):
        units = dict(zip(("1", "3"), (module[:2](X), module[:4](X)), strict=True))
        for layer in condition.units:
            assert layer.dormant == pytest.approx(dormant_fraction({"": units[layer.name]}))
            assert layer.effective_rank == pytest.approx(effective_rank(units[layer.name]))
            assert layer.saturated == pytest.approx(float((units[layer.name] == 0).double().mean()))
        assert condition.norms["2"] == pytest.approx(module[2].weight.norm().item())


def policy_of(scale: float) -> Callable[[Tensor, object], Categorical]:
    return lambda outputs, parameters: Categorical(logits=scale * outputs * parameters["4.weight"].norm() ** 9)  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize(("silent", "state"), [(0.0, "sound"), (0.75, "worn"), (1.0, "lost")])
def test_the_verdict_follows_from_what_was_measured(silent: float, state: str) -> None:
    target = learner()
    silence(target.module, silent)
    diagnosis = diagnose(target, updates=100)
    assert diagnosis.state == state
    assert any("units dormant" in sentence for sentence in diagnosis.verdict()) == (state != "sound")


@pytest.mark.slow
def test_a_deterministic_policy_is_distinguished_from_lost_plasticity() -> None:
    target = learner(policy=policy_of(1.0))
    with torch.no_grad():
        target.module[4].weight.mul_(3)  # type: ignore[index, operator]
    diagnosis = diagnose(target, updates=100)
    assert diagnosis.now.entropy is not None
    assert diagnosis.new.entropy is not None
    assert diagnosis.now.entropy < 0.02 < 0.9 < diagnosis.new.entropy
    assert diagnosis.state == "silent"
    assert diagnosis.verdict()[0].startswith("The policy of 'model' is deterministic (entropy ")


@pytest.mark.parametrize(
    ("inputs", "bias", "message"),
    [
        (None, 0.0, "'model' has seen no data yet"),
        ((X[:0],), 0.0, "its recent inputs are empty"),
        ((X[:1].expand(8, 5),), 0.0, "'model' at step 0 cannot be fitted: its outputs are equal"),
        ((torch.full((4, 5), torch.inf),), 0.0, "'model' cannot be fitted: its outputs contain NaN"),
        ((X,), torch.nan, "'model' cannot be fitted: its outputs contain NaN"),
    ],
)
def test_inputs_and_outputs_that_say_nothing_are_refused(
    inputs: tuple[Tensor] | None, bias: float, message: str
) -> None:
    target = learner(probe=lambda: inputs)
    target.module[4].bias.data[0] = bias  # type: ignore[index, union-attr]
    with pytest.raises(ValueError, match=message):
        diagnose(target, updates=1)


@pytest.mark.parametrize(
    ("loss", "new_loss", "state"),
    [
        (0.03, 0.001, "sound"),  # both fit nearly perfectly
        (0.4, 0.3, "sound"),
        (0.4, 0.1, "lost"),
        (0.8, 0.7, "sound"),  # a new network fits little
        (0.9, 0.7, "lost"),  # less than half of that
        (28.0, 0.1, "diverged"),  # worse than it began
    ],
)
def test_two_errors_make_a_verdict(loss: float, new_loss: float, state: str) -> None:
    beginning = {"sound": "No sign of plasticity loss", "lost": "'model' has lost plasticity", "diverged": "Whether"}
    measured = diagnose(learner(), updates=1)
    diagnosis = Diagnosis("model", measured.now, measured.new, loss=loss, new_loss=new_loss)
    assert diagnosis.state == state
    assert diagnosis.verdict()[0].startswith(beginning[state])


def test_an_embedding_with_sparse_gradients_is_fitted() -> None:
    net = nn.Sequential(nn.Embedding(8, 4, sparse=True), nn.Linear(4, 2))
    x = torch.arange(8)
    target = learner_for(net, probe=lambda: (x,), loss=lambda: net(x).square().mean())
    assert diagnose(target, updates=2).loss < 1
