import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple.interventions import Learner, learner_for, make, parse_hook, restructure

X = torch.randn(16, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.PReLU(), nn.Linear(8, 3))
    follower = copy.deepcopy(module).requires_grad_(False)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    return learner_for(
        module, optimizer, probe=lambda: (X,), loss=lambda: module(X).square().sum(), followers=(follower,)
    )


def train(target: Learner, updates: int, nap: object = None) -> None:
    for _ in range(updates):
        target.optimizer.zero_grad()
        target.loss().backward()
        target.optimizer.step()
        if nap:
            nap.after_update(target)  # type: ignore[attr-defined]


def test_after_every_update_each_weight_has_its_norm_of_step_0_and_its_direction():
    target, nap = learner(), make("nap")
    train(target, 2, nap)  # not yet applied: nothing happens
    assert not torch.allclose(target.module[0].weight.norm(), target.initial["0.weight"].norm())
    nap.apply(target)
    train(target, 3)
    directions = [F.normalize(layer.weight.detach().flatten(), dim=0) for layer in target.layers]
    biases = [layer.module.bias.detach().clone() for layer in target.layers]
    nap.after_update(target)
    for layer, direction, bias in zip(target.layers, directions, biases, strict=True):
        weight = layer.weight.detach().flatten()
        torch.testing.assert_close(weight.norm(), target.initial[f"{layer.name}.weight"].norm())
        torch.testing.assert_close(F.normalize(weight, dim=0), direction)
        assert torch.equal(layer.module.bias, bias)


def test_a_head_tied_to_an_embedding_keeps_its_norm():
    module = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 5))
    module[3].weight = module[0].weight
    target, nap = learner_for(module), make("nap")
    nap.attach(target)
    with torch.no_grad():
        module[3].weight.mul_(2)
    assert nap.apply(target) == ["1.weight", "0.weight"]
    torch.testing.assert_close(module[0].weight.detach(), target.initial["0.weight"])


@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_every_nonlinearity_gets_normalized_inputs_in_the_network_and_in_its_followers(norm):
    target = learner()
    names = [*target.module.state_dict()]
    make("nap", norm=norm).apply(target)
    assert [*target.module.state_dict()] == names
    for network in (target.module, *target.followers):
        h = X
        for part in network:
            if isinstance(part, nn.ReLU | nn.PReLU):
                flat = h.flatten(1)
                centred = flat - flat.mean(1, keepdim=True) * (norm == "layer")
                h = (centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()).view_as(h)
                h = h.relu() if isinstance(part, nn.ReLU) else F.prelu(h, part.weight)
            else:
                h = part(h)
        torch.testing.assert_close(network(X), h)


def test_it_is_inserted_once_and_a_checkpoint_brings_it_back():
    target, nap = learner(), make("nap", norm="rms")
    for _ in range(2):
        nap.apply(target)
    assert target.changes == ["nap(norm=rms)"]
    rebuilt = learner()
    restructure(rebuilt, target.changes)
    rebuilt.module.load_state_dict(target.module.state_dict())
    assert torch.equal(rebuilt.module(X), target.module(X))
    assert torch.equal(copy.deepcopy(target.module)(X), target.module(X))


def test_a_swapped_activation_keeps_the_normalization():
    target = learner()
    make("nap").apply(target)
    make("swap", activation="tanh").apply(target)
    seen = []
    target.module[4].register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0]))
    target.module(X)
    assert isinstance(target.module[4], nn.Tanh)
    torch.testing.assert_close(seen[0].mean(1), torch.zeros(16), rtol=0, atol=1e-5)
    torch.testing.assert_close(seen[0].var(1, correction=0), torch.ones(16), rtol=0, atol=1e-3)


def test_the_reset_contract_is_carried_out_where_it_is_applied():
    target, nap = learner(), make("nap")
    nap.attach(target)
    train(target, 2)
    written = nap.apply(target)
    assert written == ["0.weight", "3.weight", "5.weight"]
    for name, parameter in target.module.named_parameters():
        assert bool(target.optimizer.state[parameter]["exp_avg"].any()) == (name not in written)
        assert torch.equal(target.followers[0].get_parameter(name), parameter)


def test_with_its_own_normalization_a_network_is_only_projected():
    target, nap = learner(), make("nap", normalize=False, scope="encoder")
    before = target.module(X)
    nap.apply(target)
    assert torch.equal(target.module(X), before)
    assert target.changes == []
    train(target, 2, nap)
    torch.testing.assert_close(target.module[0].weight.norm(), target.initial["0.weight"].norm())
    assert not torch.allclose(target.module[3].weight.norm(), target.initial["3.weight"].norm())


def test_without_projection_a_network_is_only_normalized_and_its_weights_are_left_alone():
    target, nap = learner(), make("nap", project=False)
    target.initial["5.weight"].zero_()  # no norm to keep
    nap.attach(target)
    both = learner()
    make("nap").apply(both)
    nap.apply(target)
    torch.testing.assert_close(target.module(X), both.module(X))
    weights = [layer.weight.detach().clone() for layer in target.layers]
    nap.after_update(target)
    assert all(torch.equal(layer.weight, weight) for layer, weight in zip(target.layers, weights, strict=True))
    train(target, 2, nap)
    norms = [(layer.weight.norm(), weight.norm()) for layer, weight in zip(target.layers, weights, strict=True)]
    assert all(abs(now - before) > 1e-3 for now, before in norms)


def test_without_a_schedule_it_begins_at_the_start():
    assert parse_hook("nap").text == "nap@start"
    assert parse_hook("nap@0.5").text == "nap@0.5"


def test_networks_that_it_cannot_treat_are_refused_before_training():
    bare = learner_for(nn.Sequential(nn.Linear(4, 2)))
    with pytest.raises(ValueError, match="nap: 'model' has no hidden units"):
        make("nap").attach(bare)
    make("nap", normalize=False).attach(bare)
    target = learner()
    target.initial["5.weight"].zero_()
    with pytest.raises(ValueError, match="nap: '5' starts at zero"):
        make("nap").attach(target)
    with pytest.raises(ValueError, match="nap: norm should be one of"):
        make("nap", norm="batch")
    with pytest.raises(ValueError, match="nap: it does nothing with normalize=false and project=false"):
        make("nap", normalize=False, project=False)


@pytest.mark.slow
def test_compiled_code_runs_the_inserted_normalization():
    target = learner()
    compiled = torch.compile(target.module, backend="eager")
    plain = compiled(X)
    make("nap").apply(target)
    assert not torch.allclose(compiled(X), plain)
    torch.testing.assert_close(compiled(X), target.module(X))
