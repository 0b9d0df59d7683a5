import pytest
import torch
from torch import nn

from supple.interventions import Learner, fire_, learner_for, make, snapshot


def learner() -> Learner:
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(96, 12), nn.LayerNorm(12), nn.Tanh(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3),
    )  # fmt: skip
    module.register_parameter("log_std", nn.Parameter(torch.zeros(3)))
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-2)
    learner = learner_for(module, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        (module(torch.randn(8, 1, 8, 8)) * module.log_std.exp()).square().sum().backward()
        optimizer.step()
    return learner


@pytest.mark.parametrize(
    ("scope", "written"),
    [
        ("all", ["0", "2", "5", "8", "10"]),
        ("conv", ["0", "2"]),
        ("head", ["10"]),
        (("encoder", "head"), ["0", "10"]),
    ],
    ids=str,
)
def test_fire_writes_the_matrices_in_scope_and_nothing_else(scope, written):
    target = learner()
    before = snapshot(target.module)
    names = [f"{name}.weight" for name in written]
    assert make("fire", scope=scope).apply(target) == names
    changed = [name for name, p in target.module.named_parameters() if not torch.equal(p, before[name])]
    assert changed == names


@pytest.mark.slow
def test_the_intervention_equals_the_function_with_the_same_settings():
    one, other = learner(), learner()
    make("fire", method="polar_express", steps=4).apply(one)
    fire_(other.module, method="polar_express", steps=4)
    for a, b in zip(one.module.parameters(), other.module.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"method": "polr"}, "unknown method 'polr': did you mean 'polar'"),
        ({"steps": 0}, "at least 1"),
        ({"tolerance": 0.0}, "above 0"),
        ({"method": "muon", "tolerance": 1e-3}, "use steps"),
        ({"contract": "as_relased"}, "did you mean 'as_released'"),
    ],
)
def test_wrong_settings_are_refused_at_construction(params, message):
    with pytest.raises(ValueError, match=message) as refusal:
        make("fire", **params)
    assert "\n" not in str(refusal.value)


def test_an_unknown_scope_is_refused_at_attach_with_a_near_name():
    with pytest.raises(ValueError, match=r"^unknown scope 'cnov': did you mean 'conv'\?"):
        make("fire", scope=("head", "cnov")).attach(learner())
