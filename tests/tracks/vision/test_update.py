"""Gradient steps: a stack equals separate runs, compiled steps equal eager ones, and clipping is by member."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from supple.engine.compile import can_compile
from supple.engine.hooks.parsing import read_hooks
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.model import Model
from supple.tracks.vision.update import Update

ALONE = [
    {"activation": "rand_smooth_leaky"},
    {"activation": "rrelu", "network": "cnn", "images": 24},
    {"activation": "prelu(granularity=neuron)", "max_grad_norm": 0.5, "warmup": 0.5},
    {"activation": "prelu(granularity=global)", "standardize": True, "fresh_optimizer": True},
    {"activation": "crelu", "stream": "pairs", "network": "cnn", "width": 10},
    {"stream": "classes", "classes_per_task": 3},
    {"network": "convnet", "width": 4, "stream": "split", "classes_per_task": 3, "replay": 10},
    {"network": "convnet", "width": 4, "shock_every": 1, "eval_epochs": 1, "images": 24, "epochs": 3},
    {"hook": ("ewc(strength=10,samples=16)", "parseval"), "stream": "random-labels"},
    {"hook": ("snp(lam=0.5,toward=fresh,noise=0.1)@task", "redo(tau=0.5)@every:5")},
    {"hook": ("fire@task", "swap(activation=rand_smooth_leaky)@9"), "activation": "tanh"},
    {"hook": ("muon", "upgd"), "network": "cnn", "width": 10, "images": 24},
    {"hook": ("dash@task", "injection@20"), "stream": "chunks", "shares": (0.5, 1.0)},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("changes", ALONE, ids=str)
def test_a_seed_in_a_stack_logs_the_same_as_a_single_run(lab: Any, tmp_path: Path, changes: dict[str, Any]) -> None:
    stack = lab.run(tmp_path / "stack", seeds=(3, 0, 7), **changes)
    alone = lab.run(tmp_path / "alone", seeds=(7,), **changes)
    for name in ("metrics", "tasks"):
        for own, other in zip(lab.log(stack, name, seed=7), lab.log(alone, name), strict=True):
            expected = {  # numbers to float tolerance, all else exactly
                key: pytest.approx(value, rel=2e-3, abs=1e-4) if isinstance(value, (float, list)) else value
                for key, value in other.items()
            }
            assert own == expected
    assert len({row["online_loss"] for row in lab.log(stack, "tasks") if row["task"] == 1}) == 3


def update_of(model: Model, compiled: bool = False) -> Update:
    hooks = read_hooks(model.settings.hook, model.feed.stream.tasks, {"model": model.learner})
    return Update(model, hooks, compiled)


def run_updates(model: Model, compiled: bool, anew: bool = False) -> list[Tensor]:
    """What four updates returned, and parameters. A task ends after the second, after which `anew` is as on resume."""
    update = update_of(model, compiled)
    numbers = [number for _ in range(2) for number in update(*model.feed.batch(), 1.0)]
    update.hooks.finish_task()
    if anew:
        update = Update(model, update.hooks, compiled)
    numbers += [number for _ in range(2) for number in update(*model.feed.batch(), 1.0)]
    return [*numbers, *model.network.parameters()]


@pytest.mark.slow
@pytest.mark.skipif(not can_compile(), reason="needs a C++ compiler")
def test_compiled_updates_are_the_eager_ones_and_the_same_after_a_resume(lab: Any, data: DataSet) -> None:
    penalties = ("ewc(samples=4)", "l2_init(strength=1e-2)")
    models = [lab.model(data, 1, activation="rand_smooth_leaky", hook=penalties, width=10) for _ in range(3)]
    compiled = run_updates(models[0], True)
    assert_close(compiled, run_updates(models[1], False), rtol=1e-4, atol=1e-6)
    assert all(map(torch.equal, compiled, run_updates(models[2], True, anew=True)))


@pytest.mark.slow
def test_a_large_network_takes_the_steps_of_plain_adam(lab: Any, data: DataSet) -> None:
    """Its kernels lie channels last in memory, which fused steps do not look at."""
    model = lab.model(data, network="resnet18", width=4, max_grad_norm=0.5, seeds=(0,))
    twin = copy.deepcopy(model.network)
    adam = torch.optim.Adam(twin.parameters(), model.settings.learning_rate / 2, foreach=False)
    update = update_of(model)
    for _ in range(3):
        images, labels = model.feed.batch()
        adam.zero_grad()
        nn.functional.cross_entropy(twin(images[0].float() / 255), labels[0]).backward()
        nn.utils.clip_grad_norm_(twin.parameters(), 0.5)
        adam.step()
        update(images, labels, 0.5)
        assert all(p.grad.stride() == p.stride() for p in model.network.parameters())
    assert_close([*model.network.parameters()], [*twin.parameters()], rtol=1e-3, atol=1e-5)


def test_loss_and_hits_are_those_of_the_tasks_own_images_before_the_step(lab: Any, data: DataSet) -> None:
    model = lab.model(data, task=1, stream="split", classes_per_task=5, replay=10)
    images, labels = model.feed.batch()
    assert images.shape[1] == 16
    with torch.no_grad():
        logits = model.network(images.float() / 255)[:, :8]
    expected = nn.functional.cross_entropy(logits.transpose(1, 2), labels[:, :8], reduction="none").mean(1)
    loss, hits = update_of(model)(images, labels, 1.0)
    assert_close(loss, expected)
    assert hits.tolist() == (logits.argmax(-1) == labels[:, :8]).sum(1).tolist()
