import pytest
import torch
from torch import nn

from supple.interventions import fire_, make, snapshot
from tests.interventions.common import changed, exact, learner, update


def network() -> nn.Module:
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(96, 12), nn.LayerNorm(12), nn.Tanh(), nn.Linear(12, 12), nn.ReLU(), nn.Linear(12, 3),
    )  # fmt: skip
    module.register_parameter("log_std", nn.Parameter(torch.ones(3, 2)))
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scope", "written"),
    [("all", "0 2 5 8 10"), ("conv", "0 2"), ("head", "10"), (("encoder", "head"), "0 10")],
    ids=str,
)
def test_fire_writes_the_matrices_in_scope_as_the_function_with_the_same_settings_and_nothing_else(scope, written):
    one, other = (learner(network, x=torch.ones(2, 1, 8, 8)) for _ in range(2))
    update(one)
    other.module.load_state_dict(before := snapshot(one.module))
    names = [f"{name}.weight" for name in written.split()]
    assert make("fire", method="polar_express", steps=4, scope=scope).apply(one) == names
    assert changed(one.module, before) == set(names)
    fire_(other.module, method="polar_express", steps=4, names=names)
    exact(snapshot(one.module), snapshot(other.module))
