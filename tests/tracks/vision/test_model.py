"""The learner of a classifier: it has the data of the task, measuring changes nothing, and it can begin λ-balanced."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from supple.metrics import measure, measure_members
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.feed import ImageFeed
from supple.tracks.vision.model import Model
from supple.tracks.vision.networks import make_network
from supple.tracks.vision.task_data import Images
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
        measurements = measure_members(model.learner, True, costly=True)
    else:
        measurements = [measure(model.learner, True, costly=True)]
    model.accuracy(model.feed.images)
    list(model.learner.batches(None))
    assert {"dfi", "srank", "gradient_norm", "lambda_max"} <= set(measurements[0])
    assert all(torch.equal(value, before[name]) for name, value in state(model).items())
    assert all(map(torch.equal, batch, model.feed.batch()))
    assert all(part.training for part in model.network.modules())


def test_the_loss_is_the_sum_of_the_members_means_on_the_probe(lab: Any, data: DataSet) -> None:
    model = lab.model(data)
    images, labels = model.feed.probe()
    logits = model.network(images.float() / 255)
    expected = sum(F.cross_entropy(logits[member], labels[member]) for member in (0, 1))
    torch.testing.assert_close(model.learner.loss(), expected)
    (x,) = model.learner.probe() or ()
    torch.testing.assert_close(x, images.float() / 255)
    (last,) = model.learner.last_inputs() if model.learner.last_inputs else ()
    torch.testing.assert_close(last, model.feed.last()[0].float() / 255)


@pytest.mark.slow
@pytest.mark.parametrize(("changes", "shape"), [({}, (2, 8)), (RESNET, (8,))])
def test_batches_are_losses_of_single_images_of_the_next_updates(
    lab: Any, data: DataSet, changes: dict[str, Any], shape: tuple[int, ...]
) -> None:
    model = lab.model(data, **changes)
    ahead = list(model.learner.batches(2))
    assert [losses.shape for losses in ahead] == [shape, shape]
    model.network.eval()
    for losses in ahead:
        images, labels = model.feed.batch()
        torch.testing.assert_close(losses, model.losses(model.pixels(images), labels)[0].view(shape))
    passed = torch.cat(list(model.learner.batches(None)), -1)
    assert passed.shape[-1] == 48
    passed.mean().backward()
    assert all(p.grad is not None for p in model.network.parameters())


def test_before_the_first_task_there_is_nothing_to_look_at(lab: Any, data: DataSet) -> None:
    model = lab.model(data)
    model.feed = None
    assert model.learner.probe() is None
    assert set(measure(model.learner)) >= {"dfi", "weight_norm"}
    with pytest.raises(ValueError, match="no task has begun yet"):
        next(model.learner.batches(1))


def test_a_member_of_a_stack_is_initialised_and_redrawn_as_a_single_network(lab: Any, data: DataSet) -> None:
    stack, alone = lab.model(data, seeds=(4, 2)), lab.model(data, seeds=(2,))
    for updates in (0, 5):
        stack.updates = alone.updates = updates
        drawn, single_drawn = stack.learner.redraw(), alone.learner.redraw()
        for name, parameter in alone.network.named_parameters():
            assert torch.equal(stack.network.get_parameter(name)[1], parameter[0])
            assert torch.equal(drawn[name][1], single_drawn[name][0])
            assert not torch.equal(single_drawn[name], parameter)
    later = alone.learner.redraw()
    alone.updates += 1
    assert not any(torch.equal(later[name], value) for name, value in alone.learner.redraw().items())


def test_drawing_leaves_torchs_own_generator_alone(lab: Any, data: DataSet) -> None:
    model = lab.model(data)
    before = torch.get_rng_state()
    model.learner.redraw()
    assert torch.equal(before, torch.get_rng_state())


def test_accuracy_is_the_share_of_right_answers_of_each_member(lab: Any, data: DataSet) -> None:
    model = lab.model(data)
    images = model.feed.images
    batch, labels = images.batch(torch.arange(48).expand(2, -1))
    with torch.no_grad():
        right = (model.network(batch.float() / 255).argmax(-1) == labels).float().mean(1)
    for chunk in (7, 48, 1000):
        torch.testing.assert_close(model.accuracy(images, chunk), right)


def test_standardised_pixels_have_mean_0_and_deviation_1_in_each_channel(lab: Any, data: DataSet) -> None:
    colours = torch.randint(0, 256, (120, 3, 16, 16), generator=torch.Generator().manual_seed(0)).byte()
    colours[:, 1] //= 4
    colours[:, 2] = 7  # no deviation at all
    coloured = replace(data, train_images=colours, test_images=colours[:40])
    model = lab.model(coloured, standardize=True)
    everything = Images(colours, torch.arange(120).expand(2, -1), data.train_labels.expand(2, -1))
    x = model.pixels(everything.batch(torch.arange(120).expand(2, -1))[0])
    torch.testing.assert_close(x.mean((0, 1, 3, 4)), torch.zeros(3), atol=1e-3, rtol=0)
    deviation = x.transpose(0, 2).flatten(1).std(1, correction=0)
    torch.testing.assert_close(deviation, torch.tensor([1.0, 1.0, 0.0]), atol=1e-3, rtol=0)


def off_balance(weights: dict[str, torch.Tensor], lam: float) -> float:
    """The largest deviation of a hidden unit's balance from λ."""
    layers = [(weights[f"mlp.{i}.weight"], weights[f"mlp.{i}.bias"]) for i in (0, 2, 4)]
    return max(
        float((second.square().sum(1) - first.square().sum(2) - bias.square() - lam).detach().abs().max())
        for (first, bias), (second, _) in pairwise(layers)
    )


@pytest.mark.parametrize("lam", [3.0, 0.0, -2.0])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_a_network_and_its_fresh_draws_begin_with_the_balance(
    lab: Any, data: DataSet, lam: float, activation: str
) -> None:
    balanced = lab.model(data, width=8, init_lambda=lam, activation=activation)
    assert off_balance(dict(balanced.network.named_parameters()), lam) < 1e-5
    fresh = balanced.learner.redraw()
    assert off_balance(dict(fresh), lam) < 1e-5
    assert not torch.equal(fresh["mlp.0.weight"], balanced.network.get_parameter("mlp.0.weight"))
    if activation == "relu":
        assert [one["lambda_balance"] for one in measure_members(balanced.learner)] == pytest.approx(
            [lam] * 2, abs=1e-5
        )


def test_members_of_a_stack_begin_as_they_would_alone(lab: Any, data: DataSet) -> None:
    stack, alone = (lab.model(data, width=8, init_lambda=1.0, seeds=seeds).network for seeds in ((3, 4), (4,)))
    for name, parameter in alone.named_parameters():
        assert torch.equal(parameter[0], stack.get_parameter(name)[1]), name


def test_every_unit_is_scaled_and_nothing_else(lab: Any, data: DataSet) -> None:
    drawn, balanced = (lab.model(data, width=8, init_lambda=lam).network for lam in (None, 2.0))
    before, after = drawn.get_parameter("mlp.0.weight"), balanced.get_parameter("mlp.0.weight")
    factors = after / before
    torch.testing.assert_close(factors, factors[..., :1].expand_as(factors))
    assert torch.equal(drawn.get_parameter("mlp.4.bias"), balanced.get_parameter("mlp.4.bias"))


def test_other_networks_are_refused(lab: Any, data: DataSet, tmp_path: Path) -> None:
    refused = refusal(lab.run, tmp_path / "run", network="convnet", init_lambda=1.0)
    assert "--network mlp, not convnet" in refused
    assert "not of cnn" in refusal(make_network, "cnn", 1, (1, 16, 16), 10, "relu", None, init_lambda=1.0)
    assert "only units with one feature each" in refusal(lab.model, data, init_lambda=1.0, activation="crelu")


@pytest.mark.slow
def test_a_run_begins_balanced_and_is_rebalanced_where_the_task_switches(lab: Any, tmp_path: Path) -> None:
    run = lab.run(tmp_path / "run", hook=("rebalance(lam=-1)@task",), seeds=(0, 1), width=8, init_lambda=2.0)
    assert json.loads((run / "config.json").read_text())["settings"]["init_lambda"] == 2.0
    events = [event for event in lab.log(run, "events") if event["event"] == "intervention"]
    assert {event["hook"] for event in events} == {"rebalance(lam=-1)@task"}
    for event in events:
        assert min(event["before"]["lambda_balance"]) > 1.5  # training moves it little
        assert event["after"]["lambda_balance"] == pytest.approx([-1.0, -1.0], abs=1e-5)
        assert max(event["after"]["lambda_residual"]) < 1e-5
        assert min(event["change"]["sfe"]) > 0
