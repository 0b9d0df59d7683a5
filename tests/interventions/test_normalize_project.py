import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple.interventions import Learner, learner_for, make, restructure, snapshot
from supple.networks.unit_vectors import project_, unit_linear
from tests.interventions.common import changed, refused, slots, update
from tests.interventions.common import learner as learner_of

X = torch.randn(16, 2, 6, 6, generator=torch.Generator().manual_seed(1))


def learner() -> Learner:
    target = learner_of(
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8), nn.PReLU(), nn.Linear(8, 3)
        ),
        torch.optim.Adam,
        X,
    )
    target.followers = (copy.deepcopy(target.module).requires_grad_(False),)
    return target


def norms(target: Learner) -> list[torch.Tensor]:
    return [layer.weight.detach().norm() for layer in target.layers]


def test_after_every_update_each_weight_has_its_norm_of_step_0_and_its_direction():
    target, nap = learner(), make("nap")
    start = norms(target)
    update(target, nap, 2)  # not yet applied: nothing happens
    assert not torch.allclose(norms(target)[0], start[0])
    nap.apply(target)
    update(target, count=3)
    before = snapshot(target.module)
    nap.after_update(target)
    torch.testing.assert_close(norms(target), start)
    for name, value in snapshot(target.module).items():
        if name.endswith("bias"):
            assert torch.equal(value, before[name])
        else:
            torch.testing.assert_close(*(F.normalize(each.flatten(), dim=0) for each in (value, before[name])))


def test_per_row_the_norm_of_each_unit_is_kept_by_the_projection_of_networks_with_unit_rows():
    target, nap = learner(), make("nap", normalize=False, per="row")
    start = [layer.weight.detach().flatten(1).norm(dim=1) for layer in target.layers]
    nap.apply(target)
    update(target, nap, 2)
    torch.testing.assert_close([layer.weight.detach().flatten(1).norm(dim=1) for layer in target.layers], start)
    unit = learner_for(nn.Sequential(unit_linear(3, 4, 0, nn.init.orthogonal_)))
    nap.apply(unit)
    unit.module[0].weight.data.add_(torch.randn(4, 3))
    other = copy.deepcopy(unit.module)
    nap.after_update(unit)
    project_(other)
    torch.testing.assert_close(unit.module[0].weight, other[0].weight)


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
    for module in (rebuilt.module, copy.deepcopy(target.module)):
        assert torch.equal(module(X), target.module(X))


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
    update(target, count=2)
    written = nap.apply(target)
    assert written == ["0.weight", "3.weight", "5.weight"]
    for name, state in slots(target).items():
        assert bool(state["exp_avg"].any()) == (name not in written)
    assert not changed(target.followers[0], snapshot(target.module))


def test_with_its_own_normalization_a_network_is_only_projected():
    target, nap = learner(), make("nap", normalize=False, scope="encoder")
    before, start = target.module(X), norms(target)
    nap.apply(target)
    assert torch.equal(target.module(X), before)
    assert target.changes == []
    update(target, nap, 2)
    assert [torch.allclose(*pair) for pair in zip(norms(target), start, strict=True)] == [True, False, False]


def test_without_projection_a_network_is_only_normalized_and_its_weights_are_left_alone():
    target, both, nap = learner(), learner(), make("nap", project=False)
    target.initial["5.weight"].zero_()  # no norm to keep
    with refused("nap: '5' starts at zero"):
        make("nap").attach(target)
    nap.attach(target)
    nap.apply(target)
    make("nap").apply(both)
    torch.testing.assert_close(target.module(X), both.module(X))
    update(target, nap, 2)
    before = snapshot(target.module)
    nap.after_update(target)
    assert not changed(target.module, before)


@pytest.mark.slow
def test_compiled_code_runs_the_inserted_normalization():
    target = learner()
    compiled = torch.compile(target.module, backend="eager")
    plain = compiled(X)
    make("nap").apply(target)
    assert not torch.allclose(compiled(X), plain)
    torch.testing.assert_close(compiled(X), target.module(X))
