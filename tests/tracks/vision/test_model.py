"""The learner of a classifier: it has the data of the task, measuring changes nothing, and it can begin λ-balanced."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close

from supple.metrics import measure, measure_members
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.feed import ImageFeed
from supple.tracks.vision.model import Model
from supple.tracks.vision.networks import make_network
from tests.tracks.logs import refusal

RESNET: dict[str, Any] = {"network": "resnet18", "width": 4, "seeds": (0,)}


def state(model: Model) -> dict[str, Tensor]:
    draws = {f"draws {i}": g.get_state() for i, g in enumerate((*model.generators, model.learner.generator))}
    return {name: value.clone() for name, value in model.network.state_dict().items()} | draws


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"activation": "rand_smooth_leaky"}, RESNET, {"network": "cnn"}], ids=str)
def test_measuring_changes_no_later_result(lab: Any, data: DataSet, changes: dict[str, Any]) -> None:
    model = lab.model(data, **changes)
    before = state(model)
    batch = ImageFeed(model.feed.stream, model.feed.task, "cpu").batch()
    if model.stacked:
        measured, *_ = measure_members(model.learner, True, costly=True)
    else:
        measured = measure(model.learner, True, costly=True)
    model.accuracy(model.feed.images)
    list(model.learner.batches(None))
    assert {"dfi", "srank", "gradient_norm", "lambda_max"} <= measured.keys()
    assert all(torch.equal(value, before[name]) for name, value in state(model).items())
    assert all(map(torch.equal, batch, model.feed.batch()))
    assert all(part.training for part in model.network.modules())


def test_the_loss_is_the_sum_of_the_members_means_on_the_probe(lab: Any, data: DataSet) -> None:
    model = lab.model(data)
    images, labels = model.feed.probe()
    logits = model.network(images.float() / 255)
    expected = sum(F.cross_entropy(logits[member], labels[member]) for member in (0, 1))
    assert_close(model.learner.loss(), expected)
    assert_close(model.learner.probe(), (images.float() / 255,))
    assert_close(model.learner.last_inputs(), (model.feed.last()[0].float() / 255,))


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "shape"), [({}, (2, 8)), (RESNET, (8,))])
def test_batches_are_losses_of_single_images_of_the_next_updates(
    lab: Any, data: DataSet, changes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    model = lab.model(data, **changes)
    ahead = list(model.learner.batches(2))
    model.network.eval()
    for losses in ahead:
        images, labels = model.feed.batch()
        assert_close(losses, model.losses(model.pixels(images), labels)[0].view(shape))
    passed = torch.cat(list(model.learner.batches(None)), -1)
    assert passed.shape[-1] == 48
    passed.mean().backward()
    assert all(p.grad is not None for p in model.network.parameters())


@pytest.mark.parametrize("init_lambda", [None, 1.0])
def test_a_member_of_a_stack_is_initialised_and_redrawn_as_a_single_network(
    lab: Any, data: DataSet, init_lambda: float | None
) -> None:
    stack, alone = (lab.model(data, seeds=seeds, init_lambda=init_lambda) for seeds in ((4, 2), (2,)))
    before, draws = torch.get_rng_state(), list[dict[str, Tensor]]()
    for updates in (0, 5):
        stack.updates = alone.updates = updates
        drawn, single_drawn = stack.learner.redraw(), alone.learner.redraw()
        for name, parameter in alone.network.named_parameters():
            assert torch.equal(stack.network.get_parameter(name)[1], parameter[0])
            assert torch.equal(drawn[name][1], single_drawn[name][0])
            assert not any(torch.equal(single_drawn[name], other[name]) for other in draws)
            assert not torch.equal(single_drawn[name], parameter)
        draws.append(single_drawn)
    assert torch.equal(before, torch.get_rng_state()), "torch's own generator is left alone"


def test_accuracy_is_the_share_of_right_answers_of_each_member(lab: Any, data: DataSet) -> None:
    model = lab.model(data)
    images = model.feed.images
    batch, labels = images.between(0, 48)
    with torch.no_grad():
        right = (model.network(batch.float() / 255).argmax(-1) == labels).float().mean(1)
    for chunk in (7, 48, 1000):
        assert_close(model.accuracy(images, chunk), right)


def test_standardised_pixels_have_mean_0_and_deviation_1_in_each_channel(lab: Any, data: DataSet) -> None:
    colours = torch.randint(0, 256, (120, 3, 16, 16), generator=torch.Generator().manual_seed(0)).byte()
    colours[:, 1] //= 4
    colours[:, 2] = 7  # no deviation at all
    model = lab.model(replace(data, train_images=colours), stream="random-labels", standardize=True, images=120)
    x = model.pixels(model.feed.images.between(0, 120)[0])
    assert_close(x.mean((0, 1, 3, 4)), torch.zeros(3), atol=1e-3, rtol=0)
    deviation = x.transpose(0, 2).flatten(1).std(1, correction=0)
    assert_close(deviation, torch.tensor([1.0, 1.0, 0.0]), atol=1e-3, rtol=0)


@pytest.mark.parametrize("lam", [3.0, 0.0, -2.0])
def test_a_network_and_its_fresh_draws_begin_with_the_balance_for_which_each_unit_is_scaled(
    lab: Any, data: DataSet, lam: float
) -> None:
    drawn, balanced = (lab.model(data, width=8, init_lambda=init) for init in (None, lam))
    before, after = (dict(model.network.named_parameters()) for model in (drawn, balanced))
    factors = after["mlp.0.weight"] / before["mlp.0.weight"]
    assert_close(factors, factors[..., :1].expand_as(factors))
    assert torch.equal(after["mlp.4.bias"], before["mlp.4.bias"])
    for weights in (after, balanced.learner.redraw()):
        balanced.network.load_state_dict(weights)
        for member in measure_members(balanced.learner):
            assert member["lambda_balance"] == pytest.approx(lam, abs=1e-5)
            assert member["lambda_residual"] < 1e-5


def test_other_networks_are_refused(lab: Any, data: DataSet, tmp_path: Path) -> None:
    refused = refusal(lab.run, tmp_path / "run", network="convnet", init_lambda=1.0)
    assert "--network mlp, not convnet" in refused
    assert "not of cnn" in refusal(make_network, "cnn", 1, (1, 16, 16), 10, "relu", None, init_lambda=1.0)
    assert "only units with one feature each" in refusal(lab.model, data, init_lambda=1.0, activation="crelu")
