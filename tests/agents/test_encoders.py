"""Convolutions that read images in rows of numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from supple.agents.encoders import Convolutions, OwnNetwork, own_networks, parse_encoder
from supple.agents.ppo import PPOSettings
from supple.engine.kinds import find_kind
from supple.engine.runs import build
from supple.engine.storage import files
from supple.engine.user_code import plugins
from supple.envs import Picture, picture_of
from supple.interventions import Units
from supple.networks import stack_networks

NAMES = ("nature", "impala", "minatar", "impala(channels=[8,8])")


def keep(layer: nn.Module) -> None:
    """Leave PyTorch's initial values."""


def convolutions(picture: Picture, encoder: str, joined: int = 0, members: int = 0) -> Convolutions:
    return Convolutions(picture, picture.size + joined, encoder, Units("relu", members), keep)


def picture(*shape: int, high: float = 255.0) -> Picture:
    return picture_of(spaces.Box(0, high, shape, np.uint8 if high == 255 else np.float32))


def make_body(size: int) -> nn.Module:
    """Return a network of a user's, for the test below."""
    return nn.Sequential(nn.Linear(size, 6), nn.Dropout(), nn.ReLU())


def test_a_network_of_the_users_is_drawn_by_the_agents_generator_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_networks, "_entries", {"net.py:make": make_body})
    before = torch.get_rng_state()
    first, again, other = (OwnNetwork("models/net.py:make", 3, torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.features, first(torch.zeros(4, 3, dtype=torch.uint8)).shape) == (6, (4, 6))
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert not torch.equal(first.network[0].weight, other.network[0].weight)


def test_a_function_is_registered_as_that_of_its_file_with_its_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_networks, "_entries", {})
    monkeypatch.setattr(plugins, "_loaded", {})
    assert plugins.load_function(make_body) == plugins.load_function(make_body) == "test_encoders.py:make_body"
    assert own_networks.get("test_encoders.py:make_body") is make_body
    assert plugins.sums() == {"test_encoders.py:make_body": files.sha256(Path(__file__).read_bytes())}


@pytest.mark.parametrize(
    ("returned", "message"),
    {
        lambda size: 3: "must return a torch.nn.Module, but returned 3",
        lambda size: nn.Unflatten(1, (size, 1)): r"must turn rows \(n, 3\) into features",
        lambda size: nn.Flatten(0): r"must turn rows \(n, 3\) into features",
        None: "add --plugin net.py:make",
    }.items(),
)
def test_what_is_no_network_of_features_is_refused(
    returned: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_networks, "_entries", {"net.py:make": returned} if returned else {})
    with pytest.raises(ValueError, match=message):
        OwnNetwork("net.py:make", 3, torch.Generator())


def test_what_the_function_raises_is_no_fault_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(size: int) -> nn.Module:
        raise ValueError("mine")

    monkeypatch.setattr(own_networks, "_entries", {"net.py:make": fail})
    with pytest.raises(ValueError, match="mine") as caught:
        build(find_kind("ppo"), PPOSettings(env="CartPole-v1", steps=512, encoder="net.py:make"))
    assert type(caught.value) is ValueError


@pytest.mark.parametrize("encoder", NAMES)
def test_channels_first_and_last_are_the_same_image(encoder: str) -> None:
    images = torch.randint(256, (5, 40, 44, 3), dtype=torch.uint8)
    last = convolutions(picture(40, 44, 3), encoder)
    first = convolutions(picture(3, 40, 44), encoder)
    first.load_state_dict(last.state_dict())
    torch.testing.assert_close(last(images.flatten(1)), first(images.movedim(-1, 1).flatten(1)), rtol=0, atol=0)


def test_stacked_frames_are_channels_in_their_order() -> None:
    frames = torch.randint(256, (5, 2, 40, 44, 3), dtype=torch.uint8)
    of_frames, of_image = convolutions(picture(2, 40, 44, 3), "nature"), convolutions(picture(6, 40, 44), "nature")
    of_image.load_state_dict(of_frames.state_dict())
    torch.testing.assert_close(of_frames(frames.flatten(1)), of_image(frames.movedim(-1, 2).flatten(1)))


@pytest.mark.parametrize("encoder", NAMES)
def test_the_image_is_scaled_and_other_numbers_are_joined(encoder: str) -> None:
    network = convolutions(picture(40, 40, 3), encoder, joined=2)
    rows = torch.cat([torch.randint(256, (5, 4800)).float(), torch.randn(5, 2)], 1)
    features = network(rows)
    assert features.shape == (5, network.features)
    torch.testing.assert_close(features[:, -2:], rows[:, -2:], rtol=0, atol=0)
    image = rows[:, :4800].view(5, 40, 40, 3).movedim(-1, 1) / 255
    torch.testing.assert_close(features[:, :-2], nn.Sequential(*network)(image))


def test_nature_equals_the_layers_of_the_paper() -> None:
    network = convolutions(picture(4, 84, 84), "nature")
    layers = nn.Sequential(
        nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
        nn.Flatten(),
    )  # fmt: skip
    layers.load_state_dict(network.state_dict())
    images = torch.randint(256, (3, 4, 84, 84), dtype=torch.uint8)
    torch.testing.assert_close(network(images.flatten(1)), layers(images / 255))


@pytest.mark.parametrize("encoder", NAMES)
def test_members_of_a_stack_are_encoders_of_their_own(encoder: str) -> None:
    shape = picture(36, 36, 3)
    alone = [convolutions(shape, encoder, 1) for _ in range(3)]
    stack = stack_networks(alone, lambda members: convolutions(shape, encoder, 1, members))
    rows = torch.rand(3, 4, shape.size + 1) * 255
    wanted = torch.stack([one(own) for one, own in zip(alone, rows, strict=True)])
    torch.testing.assert_close(stack(rows), wanted)


def test_small_images_get_the_small_encoder() -> None:
    assert parse_encoder("auto", picture(36, 36, 3)).hidden == (512,)
    assert parse_encoder("auto", picture(36, 35, 3)).hidden == (128,)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nature", r"^images of 10 × 10 pixels are too small for --encoder nature: it needs 36 × 36 or more$"),
        ("natur", "unknown encoder 'natur': did you mean 'nature'"),
        ("nature(channels=[4])", "channels must be those of three convolutions, got 1"),
        ("impala(channels=[])", "channels must be numbers of 1 or more"),
    ],
)
def test_encoders_that_do_not_fit_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        parse_encoder(text, picture(10, 10, 4))
    assert "\n" not in str(error.value)
