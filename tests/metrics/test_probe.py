"""`measure` returns what the functions of the metrics return, and changes nothing."""

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import Learner, learner_for
from supple.metrics import (
    METRICS,
    Metric,
    View,
    activation_slopes,
    cheap_metrics,
    dfi,
    dfi_unscaled,
    dormant_fraction,
    effective_rank,
    feature_rank,
    gradient_effective_rank,
    hessian_eigenvalues,
    measure,
    metrics,
    numerical_rank,
    per_sample_gradients,
    saturation_fraction,
    small_gradient_fraction,
    srank,
    weight_norm,
)
from tests.zoo.state import differences, take

CHANGE = {"update_ratio", "policy_churn", "value_churn"}  # which only a learner that was marked has
X = torch.randn(30, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Tanh(), nn.Flatten(), nn.Linear(32, 7), nn.ReLU(), nn.Linear(7, 3)
    )


def learner(module: nn.Module, samples: bool = True) -> Learner:
    def errors(*_: int | None) -> Tensor:
        return module(X).square().mean(-1)

    batches = {"batches": lambda n: iter([errors()])} if samples else {}
    return learner_for(module, probe=lambda: (X,), loss=lambda: errors().mean(), **batches)


@pytest.mark.slow
def test_measured_values_equal_the_functions():
    module = network()
    values = measure(learner(module), costly=True)
    assert values.keys() == METRICS.keys() - CHANGE
    module.eval()
    first = module[:3](X)
    last = module[:6](X)
    weights = [module[i].weight for i in (0, 4, 6)]
    dimensions = 9 * 1 + 7 + 3  # the smaller sides of all matrices: nine taps, and two layers
    slopes = [activation_slopes(module[2], module[:2](X)), activation_slopes(module[5], module[:5](X))]
    gradients = per_sample_gradients(module(X).square().mean(-1), module.parameters())
    of_weights = torch.autograd.grad(module(X).square().mean(), weights[:2])  # the head has no hidden units
    expected = {
        "dfi": sum(map(dfi, weights)),
        "dfi_per_dim": sum(map(dfi, weights)) / dimensions,
        "dfi_unscaled": sum(dfi_unscaled(weight, per_dimension=False) for weight in weights) / dimensions,
        "weight_norm": weight_norm(module),
        "gradient_norm": float(gradients.mean(0).norm()),
        "small_gradient_fraction": float(small_gradient_fraction(*(g.flatten(1) for g in of_weights))),
        "dormant_fraction": dormant_fraction([first, last]),
        "saturated_fraction": saturation_fraction(slopes),
        "srank": srank(last),
        "effective_rank": effective_rank(last),
        "feature_rank": feature_rank(last),
        "numerical_rank": numerical_rank(last),
        "feature_norm": float(last.detach().square().sum(1).mean().sqrt()),
        "lambda_max": float(hessian_eigenvalues(lambda: module(X).square().mean(), module.parameters())),
        "gradient_effective_rank": int(gradient_effective_rank(gradients)),
    }
    for name, value in expected.items():
        assert values[name] == pytest.approx(value, rel=1e-5), name
    assert 0 < values["saturated_fraction"] < 1


def test_costly_metrics_are_taken_only_when_asked_for():
    target = learner(network())
    assert METRICS.keys() - cheap_metrics().keys() == {"lambda_max", "gradient_effective_rank"}
    assert measure(target).keys() == cheap_metrics().keys() - CHANGE


@pytest.mark.slow
@pytest.mark.parametrize("costly", [False, True])
def test_a_registered_metric_is_measured(costly):
    module = network()
    metrics.register("largest")(Metric("largest weight", "weights", lambda view: module[0].weight.detach().max()[None],
                                       costly=costly))  # fmt: skip
    try:
        assert ("largest" in cheap_metrics()) is not costly
        assert measure(learner(module), costly=True)["largest"] == module[0].weight.max()
        assert ("largest" in measure(learner(module))) is not costly
    finally:
        del metrics._entries["largest"]


def test_an_unknown_need_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"needs must be one of \w+, .*'weight'"):
        Metric("mine", "weight", lambda view: torch.zeros(1))


@pytest.mark.slow
def test_without_losses_of_samples_there_is_no_rank_of_their_gradients():
    values = measure(learner(network(), samples=False), costly=True)
    assert values.keys() == METRICS.keys() - CHANGE - {"gradient_effective_rank"}


@pytest.mark.slow
def test_measuring_changes_no_mode_gradient_generator_or_statistic():
    module = network()
    module[1].eval()  # frozen while the rest trains
    target = learner(module)
    draw = target.batches
    target.batches = lambda n: (torch.rand(1, generator=target.generator), draw(n))[1]
    target.loss().backward()
    before = take(module, learner=target)
    first = measure(target, costly=True)
    assert measure(target, costly=True) == first
    assert differences(before, take(module, learner=target)) == []


def test_a_shocked_unit_is_measured_under_one_shock_and_not_two():
    module = network()
    module[2].register_forward_pre_hook(lambda _, args: (10 * args[0],))
    target = learner(module)
    inputs = {name: called.input for name, called in View(target).recording.items()}
    torch.testing.assert_close(inputs["2"], 10 * module.eval()[:2](X))
    slopes = [1 - inputs["2"].tanh().square(), (inputs["5"] > 0).double()]
    assert measure(target)["saturated_fraction"] == pytest.approx(saturation_fraction(slopes), abs=0.01)


def test_a_block_has_units_and_no_slope():
    block = nn.Sequential(nn.Linear(36, 5), nn.ReLU())
    module = nn.Sequential(block, nn.Linear(5, 2))
    x = X.flatten(1)
    target = learner_for(module, units=("0",), probe=lambda: (x,), loss=lambda: module(x).sum())
    values = measure(target)
    assert "saturated_fraction" not in values
    assert values.keys() == cheap_metrics().keys() - CHANGE - {"saturated_fraction"}


def test_a_signal_is_measured_as_an_image_of_one_column():
    torch.manual_seed(0)
    signal = nn.Sequential(nn.Conv1d(1, 6, 5), nn.ReLU(), nn.Flatten(), nn.Linear(192, 3))
    signal[0].bias.data[:3] = -100  # dead channels
    image = nn.Sequential(nn.Conv2d(1, 6, (5, 1)), nn.ReLU(), nn.Flatten(), nn.Linear(192, 3))
    image.load_state_dict({name: p.view(image.get_parameter(name).shape) for name, p in signal.named_parameters()})
    x = X.view(30, 1, 36)
    both = [
        measure(learner_for(net, probe=lambda x=x: (x,), loss=lambda net=net, x=x: net(x).square().mean()), True)
        for net, x in ((signal, x), (image, x[..., None]))
    ]
    assert both[0]["dormant_fraction/1"] == 0.5
    for name in both[0].keys() - {"dfi_per_dim", "dfi_unscaled", "dfi"}:
        assert both[0][name] == pytest.approx(both[1][name], rel=1e-5), name


def test_a_matrix_that_two_layers_share_counts_once():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    module[2].weight = module[0].weight
    values = measure(learner_for(module))
    total = dfi(module[0].weight) + dfi(module[4].weight)
    assert (values["dfi"], values["dfi_per_dim"]) == (pytest.approx(total), pytest.approx(total / 6))
