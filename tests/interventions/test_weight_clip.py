import pytest
from torch import nn

from supple.interventions import StackedLinear, learner_for, make, snapshot
from tests.interventions.common import changed, disturb, exact, learner, normed


def test_weights_and_biases_in_scope_are_clamped_to_kappa_over_the_root_of_the_fan_in_of_their_layer():
    target = disturb(learner(normed), 1.0)
    before = snapshot(target.module)
    make("weight_clip", kappa=1.5, scope="encoder").after_update(target)
    assert changed(target.module, before) == {"0.weight", "0.bias"}
    make("weight_clip", kappa=1.5).after_update(target)
    for layer, fan_in in (("0", 4), ("3", 8)):
        for name in (f"{layer}.weight", f"{layer}.bias"):
            before[name].clamp_(-1.5 * fan_in**-0.5, 1.5 * fan_in**-0.5)
    exact(snapshot(target.module), before)  # norms are kept


@pytest.mark.parametrize(
    "layer", [nn.Linear(100, 300), nn.Conv2d(8, 300, (3, 5), groups=2), StackedLinear(2, 100, 300)], ids=str
)
def test_the_bound_is_that_of_pytorchs_own_initialisation_also_for_a_layer_that_starts_at_zero(layer):
    largest, before = layer.weight.abs().max().item(), snapshot(layer)
    target, clip = learner_for(nn.Sequential(layer, nn.ReLU())), make("weight_clip", kappa=1.0)
    clip.after_update(target)
    assert not changed(layer, before)
    nn.init.zeros_(layer.weight)
    clip = make("weight_clip", kappa=1.0)
    clip.attach(target)
    disturb(target, 1.0)
    clip.after_update(target)
    for parameter in layer.parameters():
        assert parameter.abs().max().item() == pytest.approx(largest, rel=1e-2)
