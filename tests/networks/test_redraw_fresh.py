"""New values are drawn as at step 0, or not at all: never a trained value in their place."""

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import learner_for, make, redraw, snapshot
from supple.metrics import diagnose
from supple.networks import restore_

X = torch.randn(12, 8, generator=torch.Generator().manual_seed(0))


class Tokens(nn.Module):
    """A class token and an own layer, whose parameters are made in `__init__`, and attention."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 8))
        self.gain = nn.Parameter(torch.ones(8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.first, self.act, self.head = nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.stack([x * self.gain, self.token.expand_as(x)], 1)
        return self.head(self.act(self.first(self.attention(h, h, h)[0][:, 0])))


def orthogonal() -> nn.Sequential:
    """As CleanRL initialises its layers."""
    module = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    for layer in module[::2]:
        nn.init.orthogonal_(layer.weight, 2**0.5)
        nn.init.zeros_(layer.bias)
    return module


def learner(module: nn.Module, **more):
    return learner_for(module, probe=lambda: (X,), loss=lambda: (module(X) - 1).square().mean(), **more)


def test_what_no_layer_draws_is_left_out_of_a_redraw_and_constants_are_not_missed():
    module = Tokens()
    drawn = redraw(module)
    assert {"token", "gain"}.isdisjoint(drawn)
    assert "attention.in_proj_weight" in drawn
    assert learner(module).undrawn() == ["token"]  # the gain is 1 at step 0, and so is a new one


def test_a_parametrized_weight_is_not_redrawn_in_silence():
    module = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), nn.ReLU(), nn.Linear(8, 2))
    drawn = redraw(module)
    assert {"2.weight", "2.bias", "0.bias"} <= drawn.keys()
    assert not any("parametrizations" in name for name in drawn)


def test_a_reset_toward_new_values_names_what_cannot_be_drawn():
    with pytest.raises(ValueError, match=r"^reset: no new values of 'token' can be drawn.*fresh="):
        make("reset", toward="fresh").attach(learner(Tokens()))


def test_with_a_function_that_makes_it_the_values_are_those_of_a_new_network():
    torch.manual_seed(0)
    module = orthogonal()
    subject = learner(module, fresh=orthogonal)
    make("reset", toward="fresh").apply(subject)
    gram = module[2].weight @ module[2].weight.T
    torch.testing.assert_close(gram, 2 * torch.eye(32), atol=1e-4, rtol=1e-4)
    assert not module[2].bias.any()


def test_an_initialisation_of_its_own_is_not_replaced_by_that_of_the_layers():
    subject = learner(orthogonal())
    assert subject.undrawn() == ["0.weight", "2.weight", "4.weight"]  # the biases are 0 at step 0
    with pytest.raises(ValueError, match=r"'0.weight' cannot be drawn as at step 0 .*fresh="):
        make("redo").attach(subject)
    make("redo").attach(learner(orthogonal(), fresh=orthogonal))


def test_biases_that_are_zero_at_step_0_stay_zero_in_a_new_draw():
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    assert learner(module).undrawn() == []  # a plain network needs nothing
    nn.init.zeros_(module[0].bias)
    subject = learner(module)
    with torch.no_grad():
        module[0].bias.fill_(3.0)
    make("reset", toward="fresh").apply(subject)
    assert not module[0].bias.any()


def test_a_function_that_makes_another_network_or_a_trained_one_is_told_apart():
    with pytest.raises(ValueError, match=r"fresh= makes another network: '0.weight' is \(4, 8\) there"):
        learner(nn.Sequential(nn.Linear(8, 8)), fresh=lambda: nn.Sequential(nn.Linear(8, 4)))
    trained = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
    assert learner(trained, fresh=lambda: trained).undrawn() == [name for name, _ in trained.named_parameters()]


def test_a_copy_is_made_of_a_network_that_stores_its_features():
    class Stores(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            self.last = super().forward(x)
            return self.last

    module = Stores(nn.Linear(8, 2))
    module(X)
    assert redraw(module).keys() == {"0.weight", "0.bias"}


def batch_norm() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))


def test_a_snapshot_brings_back_the_running_statistics():
    module = batch_norm()
    module.register_buffer("mask", torch.ones(3), persistent=False)
    start = snapshot(module)
    assert "mask" not in start  # as in checkpoints
    module(X * 5)
    restore_(module, start)
    assert torch.equal(module.eval()(X), batch_norm().eval()(X))


def test_the_network_of_step_0_has_the_statistics_of_step_0():
    module = batch_norm()
    subject = learner(module)
    with torch.no_grad():
        for _ in range(50):
            module(X * 3 + 7)  # training mode: only the statistics move
    found, new = diagnose(subject, 2), diagnose(learner(batch_norm()), 2)
    assert found.new.units == new.new.units != found.now.units
    assert found.new_loss == pytest.approx(new.new_loss)
    assert found.loss != pytest.approx(found.new_loss, rel=1e-4)
