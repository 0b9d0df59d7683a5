"""Units and the columns that read them: only a real flattening couples channels to the columns of a Linear layer."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from supple.interventions import make
from supple.networks import learner_for
from tests.zoo.networks import Calls

SIGNAL = torch.randn(5, 3, 6, generator=torch.Generator().manual_seed(0))  # (rows, channels, positions)
IMAGES = torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(0))
ROWS = torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(0))  # (rows, tokens, inputs)


def net(first: nn.Module, second: nn.Module, between) -> Calls:
    """A layer, an activation and a layer; `between` is what lies before the second layer."""
    parts = {"between": between} if isinstance(between, nn.Module) else {}
    forward = lambda self, x: self.second(between(self.act(self.first(x))))  # noqa: E731
    return Calls(forward, first=first, act=nn.ReLU(), second=second, **parts)


def conv(out: int = 4) -> nn.Conv2d:
    return nn.Conv2d(3, out, 3)  # (5, 4, 4, 4) of IMAGES


FLAT = {
    "nn.Flatten": nn.Flatten(),
    "flatten(1)": lambda h: h.flatten(1),
    "torch.flatten": lambda h: torch.flatten(h, start_dim=1),
    "view(rows, -1)": lambda h: h.view(h.size(0), -1),
    "view(-1, 64)": lambda h: h.view(-1, 64),
    "view((rows, 64))": lambda h: h.view((h.size(0), 64)),
}
RIGHT = {
    **{name: (conv(), nn.Linear(64, 2), between, IMAGES) for name, between in FLAT.items()},
    "pooling": (conv(), nn.Linear(16, 2), lambda h: F.max_pool2d(h, 2).flatten(1), IMAGES),
    "to one position": (conv(), nn.Linear(4, 2), nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), IMAGES),
    "convolution": (conv(), nn.Conv2d(4, 2, 3), nn.Dropout(), IMAGES),
    "signal": (nn.Conv1d(3, 4, 3), nn.Linear(16, 2), nn.Flatten(), SIGNAL),
    "tokens": (nn.Linear(3, 4), nn.Linear(4, 2), nn.Identity(), ROWS),
    "rows of tokens": (nn.Linear(3, 4), nn.Linear(4, 2), lambda h: h.reshape(-1, 4), ROWS),
    "to an image": (nn.Linear(3, 4), nn.Conv2d(4, 2, 1), nn.Unflatten(1, (4, 1, 1)), ROWS[:, 0]),
}
WRONG = {
    "Conv1d to Linear": (nn.Conv1d(3, 4, 3), nn.Linear(4, 2), nn.Identity(), SIGNAL),
    "Linear to Conv1d": (nn.Linear(3, 7), nn.Conv1d(7, 2, 1), nn.Identity(), ROWS),
    "wrong view": (conv(), nn.Linear(4, 2), lambda h: h.view(-1, 4), IMAGES),
    "wrong view of other rows": (conv(), nn.Linear(8, 2), lambda h: h.view(-1, 8), IMAGES),
    "rows and channels joined": (conv(), nn.Linear(16, 2), lambda h: h.flatten(0, 1).flatten(1), IMAGES),
    "positions joined": (conv(), nn.Linear(16, 2), lambda h: h.flatten(2), IMAGES),
    "pooling over units": (nn.Linear(3, 4), nn.Linear(2, 2), nn.AvgPool1d(2), ROWS),
    "units divided": (nn.Linear(3, 16), nn.Conv2d(4, 2, 1), nn.Unflatten(1, (4, 2, 2)), ROWS[:, 0]),
}


def learner(parts):
    torch.manual_seed(0)
    first, second, between, inputs = parts
    for layer in (first, second):
        layer.reset_parameters()
    with torch.no_grad():
        first.bias[1] = -100.0  # a silent unit
    module = net(first, second, between)
    return learner_for(module, probe=lambda: (inputs,), loss=lambda: module(inputs).square().mean()), module, inputs


@pytest.mark.parametrize("name", RIGHT)
def test_silent_units_are_renewed_and_the_outputs_stay(name):
    subject, module, inputs = learner(RIGHT[name])
    module.eval()
    before = module(inputs).detach()
    written = make("redo", tau=0.0).apply(subject)
    assert set(written) == {"first.weight", "first.bias", "second.weight"}
    assert module.first.bias[1] == 0
    torch.testing.assert_close(module(inputs).detach(), before)


@pytest.mark.parametrize("name", WRONG)
def test_units_without_columns_of_their_own_have_no_wiring(name):
    subject, *_ = learner(WRONG[name])
    assert not subject.wiring
    assert "has no private outgoing weights: 'second' reads" in subject.unwired["act"]


def test_shapes_are_looked_at_when_there_are_inputs():
    first, second, between, inputs = WRONG["wrong view of other rows"]
    module, data = net(first, second, between), []
    subject = learner_for(module, probe=lambda: data[0] if data else None, loss=lambda: module(inputs).mean())
    make("redo").attach(subject)  # the view may be right
    data.append((inputs,))
    with pytest.raises(ValueError, match=r"'act' has no private outgoing weights: 'second' reads \(40, 8\)"):
        make("redo", tau=0.0).apply(subject)


def test_calibrated_partial_resets_look_at_the_shapes_before_they_write():
    first, second, between, inputs = WRONG["wrong view of other rows"]
    module, data = net(first, second, between), []
    subject = learner_for(module, probe=lambda: data[0] if data else None, loss=lambda: module(inputs).mean())
    cpr = make("cpr", period=1)
    cpr.attach(subject)
    data.append((inputs,))
    module(inputs).mean().backward()
    cpr.before_update(subject)
    with pytest.raises(ValueError, match="'act' has no private outgoing weights"):
        cpr.after_update(subject)
