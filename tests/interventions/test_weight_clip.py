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


def test_weights_and_biases_are_clamped_to_kappa_times_the_initial_bound_of_their_layer():
    target, clip = learner(), make("weight_clip", kappa=1.5)
    clip.attach(target)
    grow(target, 1.0)
    wanted = {}
    for layer in target.layers:
        bound = 1.5 * target.initial[f"{layer.name}.weight"].abs().max()
        for name in ("weight", "bias"):
            wanted[f"{layer.name}.{name}"] = getattr(layer.module, name).detach().clone().clamp(-bound, bound)
    norm = target.module[1].weight.detach().clone()
    where = [parameter.data_ptr() for parameter in target.module.parameters()]
    clip.after_update(target)
    for name, value in wanted.items():
        assert torch.equal(target.module.get_parameter(name), value), name
    assert torch.equal(target.module[1].weight, norm)
    assert [parameter.data_ptr() for parameter in target.module.parameters()] == where


def test_at_the_start_nothing_is_clipped_and_the_uniform_bound_is_found():
    target, clip = learner(nn.Linear(100, 300), nn.ReLU(), nn.Linear(300, 2)), make("weight_clip", kappa=1.0)
    before = target.module[0].weight.detach().clone()
    clip.after_update(target)
    assert torch.equal(target.module[0].weight, before)
    grow(target, 1.0)
    clip.after_update(target)
    assert target.module[0].weight.abs().max().item() == pytest.approx(0.1, rel=1e-3)  # 1/√100


def test_each_member_of_a_stack_has_a_bound_of_its_own():
    target = learner(StackedLinear(2, 4, 8), nn.ReLU(), StackedLinear(2, 8, 2))
    with torch.no_grad():
        target.initial["0.weight"][1].mul_(10)
    grow(target, 10.0)
    make("weight_clip", kappa=2.0).after_update(target)
    for name in ("0.weight", "0.bias"):
        limits = 2 * target.initial["0.weight"].abs().amax((1, 2))
        torch.testing.assert_close(target.module.get_parameter(name).abs().flatten(1).amax(1), limits)


def test_where_the_step_0_values_are_replaced_the_bounds_follow():
    target, clip = learner(), make("weight_clip", kappa=1.0)
    clip.after_update(target)
    target.initial = {name: 3 * value for name, value in target.initial.items()}
    grow(target, 10.0)
    clip.after_update(target)
    assert torch.equal(target.module[3].weight.abs().max(), target.initial["3.weight"].abs().max())


def test_a_layer_that_starts_at_zero_is_refused_unless_it_is_left_out():
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    nn.init.zeros_(module[2].weight)
    target = learner_for(module)
    with pytest.raises(ValueError, match="weight_clip: '2' starts at zero"):
        make("weight_clip").attach(target)
    clip = make("weight_clip", scope="encoder")
    clip.attach(target)
    grow(target, 10.0)
    head = module[2].weight.detach().clone()
    clip.after_update(target)
    assert torch.equal(module[2].weight, head)


@pytest.mark.parametrize("kappa", [0.0, -1.0, float("nan"), float("inf")])
def test_a_kappa_that_makes_no_sense_is_refused(kappa):
    with pytest.raises(ValueError, match="weight_clip: kappa must be finite and > 0"):
        make("weight_clip", kappa=kappa)
