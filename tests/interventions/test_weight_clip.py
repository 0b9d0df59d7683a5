import pytest
import torch
from torch import nn

from supple.interventions import Learner, StackedLinear, learner_for, make


def learner(*parts: nn.Module) -> Learner:
    torch.manual_seed(0)
    return learner_for(
        nn.Sequential(*parts) if parts else nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    )


@torch.no_grad()
def grow(target: Learner, factor: float) -> None:
    for parameter in target.module.parameters():
        parameter.add_(torch.randn_like(parameter), alpha=factor)


def test_weights_and_biases_are_clamped_to_kappa_over_the_root_of_the_fan_in_of_their_layer():
    target, clip = learner(), make("weight_clip", kappa=1.5)
    clip.attach(target)
    grow(target, 1.0)
    wanted = {}
    for layer, fan_in in zip(target.layers, (4, 8), strict=True):
        bound = 1.5 / fan_in**0.5
        for name in ("weight", "bias"):
            wanted[f"{layer.name}.{name}"] = getattr(layer.module, name).detach().clone().clamp(-bound, bound)
    norm = target.module[1].weight.detach().clone()
    where = [parameter.data_ptr() for parameter in target.module.parameters()]
    clip.after_update(target)
    for name, value in wanted.items():
        assert torch.equal(target.module.get_parameter(name), value), name
    assert torch.equal(target.module[1].weight, norm)
    assert [parameter.data_ptr() for parameter in target.module.parameters()] == where


@pytest.mark.parametrize(
    "layer", [nn.Linear(100, 300), nn.Conv2d(8, 300, (3, 5), groups=2), StackedLinear(2, 100, 300)], ids=str
)
def test_the_bound_is_that_of_pytorchs_own_initialisation(layer):
    largest = layer.weight.abs().max().item()
    before = [parameter.detach().clone() for parameter in layer.parameters()]
    target, clip = learner_for(nn.Sequential(layer, nn.ReLU())), make("weight_clip", kappa=1.0)
    clip.after_update(target)
    assert all(map(torch.equal, layer.parameters(), before))
    grow(target, 1.0)
    clip.after_update(target)
    assert layer.weight.abs().max().item() == pytest.approx(largest, rel=1e-2)
    assert layer.bias.abs().max().item() == pytest.approx(largest, rel=1e-2)


def test_a_layer_that_starts_at_zero_may_grow():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    nn.init.zeros_(module[2].weight)
    target, clip = learner_for(module), make("weight_clip", kappa=1.0)
    clip.attach(target)
    grow(target, 10.0)
    clip.after_update(target)
    assert module[2].weight.abs().max().item() == pytest.approx(8**-0.5)


def test_layers_outside_the_scope_are_unchanged():
    target, clip = learner(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), make("weight_clip", scope="encoder")
    clip.attach(target)
    grow(target, 10.0)
    head = target.module[2].weight.detach().clone()
    clip.after_update(target)
    assert torch.equal(target.module[2].weight, head)
    assert target.module[0].weight.abs().max() == 1.0
