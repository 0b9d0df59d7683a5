"""The network of PPO that reads images, and how it is set up."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from supple.agents.ppo import PPOSettings
from supple.agents.ppo.network import MultiHead, PolicySpace
from supple.agents.ppo.normalizers import Normalizers
from supple.agents.ppo.policies import Categorical, Gaussian
from supple.agents.ppo.update import ppo_loss
from supple.envs import Picture
from supple.interventions import Wiring

from .test_network import require_balance

SMALL, LARGE = Picture(2, 6, 5), Picture(3, 40, 36)
ENCODERS = {"minatar(channels=[4,3])": SMALL, "impala(channels=[3,2])": SMALL, "nature(channels=[4,3,2])": LARGE}


def space(picture: Picture, joined: int = 0, actions: int = 3) -> PolicySpace:
    return PolicySpace(picture.size + joined, Categorical(actions), "float32" if joined else "uint8", picture)


def network(encoder: str, joined: int = 0, share_value: bool = True, **own: Any) -> MultiHead:
    picture = ENCODERS[encoder]
    spaces = {"a": space(picture, joined), "b": PolicySpace(picture.size + joined, Gaussian(2), "uint8", picture)}
    draws = torch.Generator().manual_seed(0)
    return MultiHead(spaces, (8, 7), 0, "relu", share_value, draws, encoder=encoder, **own)


def pixels(picture: Picture, n: int = 6) -> Tensor:
    return torch.randint(256, (n, picture.size), dtype=torch.uint8)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("share_value", [True, False])
def test_acting_computes_the_same_bits_as_learning(encoder: str, share_value: bool) -> None:
    net, rows = network(encoder, share_value=share_value), pixels(ENCODERS[encoder])
    for key in ("a", "b"):
        outputs, values = net(rows, key)
        assert torch.equal(outputs, net.make_policy(key)(rows))
        assert torch.equal(values, net.values(rows, key))


@pytest.mark.parametrize("encoder", ENCODERS)
def test_channels_first_and_last_have_the_same_loss_and_gradients(encoder: str) -> None:
    first, losses = ENCODERS[encoder], []
    last = first._replace(last=True)
    rows, others = pixels(first), [torch.randn(6) for _ in range(4)]
    swapped = rows.view(-1, first.channels, first.height, first.width).movedim(1, -1).flatten(1)
    for picture, seen in ((first, rows), (last, swapped)):
        draws = torch.Generator().manual_seed(0)
        net = MultiHead({"a": space(picture)}, (8,), 0, "relu", True, draws, encoder=encoder)
        batch = (seen, torch.arange(6) % 3, *others)
        loss, _ = ppo_loss(net, "a", batch, PPOSettings(entropy_coefficient=0.01))
        losses.append([loss, *torch.autograd.grad(loss, list(net.parameters()))])
    for ours, theirs in zip(*losses, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("share_value", [True, False])
def test_layers_units_and_wiring_begin_with_the_convolutions(share_value: bool) -> None:
    net = network("minatar(channels=[4,3])", share_value=share_value)
    layers = {layer.name: (layer.role, layer.depth) for layer in net.layers()}
    assert {n: layers[n] for n in ("body.0.0", "body.0.2", "body.1", "body.3", "policy.a", "value.b")} == {
        "body.0.0": ("encoder", 0), "body.0.2": ("encoder", 1), "body.1": ("hidden", 2), "body.3": ("hidden", 3),
        "policy.a": ("head", 4), "value.b": ("head", 4),
    }  # fmt: skip
    assert net.units()[-4:] == ("body.0.1", "body.0.3", "body.2", "body.4")
    wiring = net.wiring()[0]
    assert wiring["body.0.1"] == Wiring(("body.0.0",), ("body.0.2",))
    assert wiring["body.0.3"] == Wiring(("body.0.2",), ("body.1",))
    assert wiring["body.2"] == Wiring(("body.1",), ("body.3",))
    assert set(wiring["body.4"].outgoing) == {f"{head}.{key}" for head in ("policy", "value") for key in "ab"} - (
        set() if share_value else {"value.a", "value.b"}
    )
    assert ("value_body.0.1" in wiring) != share_value
    assert not net.wiring()[1]


@pytest.mark.parametrize(("encoder", "joined"), [("impala(channels=[3,2])", 0), ("minatar(channels=[4,3])", 2)])
def test_units_that_share_weights_say_so(encoder: str, joined: int) -> None:
    net = network(encoder, joined)
    assert net.wiring()[1]
    assert set(net.wiring()[1]) | set(net.wiring()[0]) == set(net.units())


@pytest.mark.parametrize("encoder", ENCODERS)
def test_convolutions_begin_orthogonal_with_gain_root_two(encoder: str) -> None:
    for layer in network(encoder).layers():
        if layer.role == "encoder":
            matrix = layer.weight.detach().flatten(1)
            singular = torch.linalg.svdvals(matrix)
            torch.testing.assert_close(singular, torch.full_like(singular, 2**0.5), rtol=1e-4, atol=1e-6)
            assert not layer.module.bias.any()


def test_units_behind_convolutions_begin_with_the_balance_that_is_asked_for() -> None:
    net = network("minatar(channels=[4,3])", init_lambda=0.5)
    require_balance([[net.body[1]], [net.body[3]], [*net.policy.values(), *net.value.values()]], 0.5)


def test_defaults_depend_on_what_is_shown() -> None:
    settings = PPOSettings(env="a", steps=1)
    names = ("hidden", "activation", "share_value", "adapter")

    def completed(settings: PPOSettings, picture: Picture | None) -> tuple[Any, ...]:
        return tuple(getattr(settings.complete(picture), name) for name in names)

    assert completed(settings, None) == ((64, 64), "tanh", False, 0)
    assert completed(PPOSettings(sequence="a,b", steps_per_task=1), None) == ((64, 64), "tanh", False, 256)
    assert completed(settings, SMALL) == ((128,), "relu", True, 0)
    assert completed(settings, LARGE) == ((512,), "relu", True, 0)
    assert completed(PPOSettings(env="a", value_hidden=(3,), hidden=(5,)), LARGE) == ((5,), "relu", False, 0)


def test_pixels_are_not_normalised_but_the_numbers_after_them_are() -> None:
    settings = PPOSettings(env="a", steps=1, num_envs=4)
    image, joined = (Normalizers(settings, {"a": space(SMALL, extra)}, ()) for extra in (0, 2))
    rows = pixels(SMALL, 4).numpy()
    assert image.observe(rows, "a") is rows
    numbers = np.arange(8.0).reshape(4, 2)
    seen = joined.observe(np.concatenate([rows, numbers], 1).astype(np.float32), "a")
    assert seen.dtype == np.float32
    np.testing.assert_array_equal(seen[:, : SMALL.size], rows)
    np.testing.assert_allclose(seen[:, SMALL.size :], (numbers - numbers.mean(0)) / numbers.std(0), rtol=1e-6)
    assert joined.observations["a"].mean.tolist() == [3.0, 4.0]
    plain = Normalizers(replace(settings, normalize_observations=False), {"a": space(SMALL, 1)}, ())
    large = np.full((2, SMALL.size + 1), 1e6, np.float32)
    plain.begin(large, "a")
    assert plain.observe(large, "a") is large


def test_networks_that_read_images_are_worth_stacking_on_a_gpu_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PPOSettings, "find_picture", lambda self: Picture(10, 10, 10))
    for device in ("cpu", "cuda"):
        assert PPOSettings(env="a", steps=1, device=device).worth_stacking() is (device == "cuda")
