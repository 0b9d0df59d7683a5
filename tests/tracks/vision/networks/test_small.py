"""The small networks of Lillo & Cheney (2025)."""

import pytest
import torch
from torch import Tensor

from supple.interventions import StackedConv2d
from supple.networks.activations import initial_gain
from supple.tracks.vision.networks import ConvNet


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["relu", "leaky_relu(negative_slope=0.7)", "tanh", "crelu"])
def test_the_case_studies_network_keeps_the_size_of_its_signal(activation: str) -> None:
    """Gains that fit the activation: the second convolution's outputs are as large as the first one's, which are as
    large as the pixels (times the gain)."""
    torch.manual_seed(0)
    net = ConvNet(2, (3, 32, 32), 10, activation)
    gain, sizes = initial_gain(net.encoder[1]), list[Tensor]()
    for part in [part for part in net.encoder if isinstance(part, StackedConv2d)][:2]:
        part.register_forward_hook(lambda _m, _i, out: sizes.append(out.square().mean((1, 2, 3, 4))))
    with torch.no_grad():
        net(torch.randn(2, 64, 3, 32, 32) / gain)
    assert all(0.6 < size < 1.6 for size in torch.cat(sizes).tolist())
