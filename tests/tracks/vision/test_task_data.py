"""Streams of tasks: each member's are those of Lillo & Cheney (2025, Table E1) and FIRE (Section 4.1)."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from supple.engine.kinds import presets_of
from supple.registry.errors import UsageError
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.settings import VisionSettings
from supple.tracks.vision.task_data import Images, Stream

STREAMS: dict[str, dict[str, Any]] = {
    "permuted": {"images": 48},
    "random-labels": {"images": 48},
    "pairs": {"tasks": 5, "images_per_class": 10},
    "alternating": {"classes_per_task": 2, "images_per_class": 10, "tasks": 5},
    "split": {"classes_per_task": 3},
    "chunks": {"shares": (0.1, 0.5, 1.0)},
    "classes": {"classes_per_task": 3, "images_per_class": 7},
}


def stream(data: DataSet, kind: str, **changes: Any) -> Stream:
    settings: dict[str, Any] = {"stream": kind, "tasks": 3, "seeds": (0, 1, 2), "batch_size": 8, **STREAMS[kind]}
    settings = {**settings, **changes}
    VisionSettings(**settings).check()
    return Stream(VisionSettings(**settings), data)


def everything(images: Images) -> tuple[Tensor, Tensor]:
    return images.read(images.chosen)


def unbalanced_data(data: DataSet) -> DataSet:
    """Classes of 12, 11, … 3 training and 4, 4, … 1 test images."""
    keep = torch.arange(len(data.train_labels)) // 10 + data.train_labels < 12
    kept = torch.arange(len(data.test_labels)) // 10 + data.test_labels // 3 < 4
    return replace(
        data,
        train_images=data.train_images[keep], train_labels=data.train_labels[keep],
        test_images=data.test_images[kept], test_labels=data.test_labels[kept],
    )  # fmt: skip


# -- of every stream -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STREAMS)
def test_tasks_follow_each_other_and_can_be_opened_at_any_time(data: DataSet, kind: str) -> None:
    once, again = (stream(data, kind, epochs=2.5, first_epochs=1.5) for _ in range(2))
    backwards = [again.train(task) for task in reversed(again.tasks)][::-1]
    ends = 0
    for task, images in zip(once.tasks, backwards, strict=True):
        assert all(map(torch.equal, everything(once.train(task)), everything(images)))
        assert (task.start, task.size) == (ends, images.size)
        assert task.steps == round((2.5 if task.index else 1.5) * task.size / 8)
        ends = task.end
    first = once.tasks[0]
    assert torch.equal(once.order(first, 3), again.order(first, 3))
    for other in (once.order(first, 4), once.order(once.tasks[-1], 3)):
        assert not torch.equal(once.order(first, 3)[:, :8], other[:, :8])


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("kind", STREAMS)
def test_a_member_of_a_stack_sees_the_same_data_as_a_single_run(data: DataSet, kind: str, balanced: bool) -> None:
    data = data if balanced else unbalanced_data(data)
    changes = {} if balanced else {"images_per_class": None, "batch_size": 1}
    stack = stream(data, kind, **changes)
    for member, seed in enumerate(stack.settings.seeds):
        alone = stream(data, kind, **changes, seeds=(seed,))
        assert alone.tasks == stack.tasks
        for task in stack.tasks:
            for ours, theirs in ((stack.train(task), alone.train(task)), (stack.test(task), alone.test(task))):
                for part, other in zip(everything(ours), everything(theirs), strict=True):
                    assert torch.equal(part[member], other[0])
            assert torch.equal(stack.order(task, 1)[member], alone.order(task, 1)[0])
    for part in everything(stack.train(stack.tasks[0])):
        assert len({own.numpy().tobytes() for own in part}) == 3, "it differs from that of other members"


# -- kind by kind --------------------------------------------------------------------------------------------------


def test_permuted_pixels_are_those_of_a_fixed_subset_in_one_order_for_each_task(data: DataSet) -> None:
    opened = stream(data, "permuted")
    first, second = (opened.train(task) for task in opened.tasks[:2])
    assert torch.equal(first.chosen[0], second.chosen[0])
    assert torch.equal(first.chosen[1], data.train_labels[first.chosen[0]])
    assert not torch.equal(first.permutation, second.permutation)
    for images, rows, order in zip(everything(first)[0], first.chosen[0], first.permutation, strict=True):
        assert torch.equal(images.flatten(1), data.train_images[rows].flatten(1)[:, order])
        assert (rows.unique().numel(), order.unique().numel()) == (48, 256)
    test = opened.test(opened.tasks[0])
    assert torch.equal(test.permutation, first.permutation)
    assert test.size == len(data.test_labels)


def test_random_labels_are_new_with_each_task_and_the_images_are_not(data: DataSet) -> None:
    opened = stream(data, "random-labels", images=120)
    first, second = (opened.train(task) for task in opened.tasks[:2])
    assert torch.equal(everything(first)[0], everything(second)[0])
    assert not torch.equal(first.chosen[1], second.chosen[1])
    assert set(first.chosen[1].flatten().tolist()) == set(range(10))
    assert (first.chosen[1] == data.train_labels[first.chosen[0]]).float().mean() < 0.3
    assert torch.equal(opened.test(opened.tasks[0]).chosen[1], first.chosen[1])  # nothing else has these labels


@pytest.mark.parametrize(
    ("kind", "counts"), [("pairs", [2] * 5), ("alternating", [2, 1] * 2 + [2]), ("split", [3] * 3)]
)
def test_classes_do_not_repeat(data: DataSet, kind: str, counts: list[int]) -> None:
    opened = stream(data, kind)
    for member in range(3):
        seen: list[int] = []
        for task, count in zip(opened.tasks, counts, strict=True):
            train, test = opened.train(task), opened.test(task)
            own = set(data.train_labels[train.chosen[0][member]].tolist())
            assert len(own) == count
            assert own == set(data.test_labels[test.chosen[0][member]].tolist())
            seen += own
        assert len(set(seen)) == len(seen)


def test_the_two_classes_of_a_pair_are_called_0_and_1(data: DataSet) -> None:
    opened = stream(data, "pairs")
    assert opened.classes == 2
    task = opened.tasks[1]
    for images, labels in ((opened.train(task), data.train_labels), (opened.test(task), data.test_labels)):
        for rows, own in zip(*images.chosen, strict=True):
            assert sorted(label for _, label in set(zip(labels[rows].tolist(), own.tolist(), strict=True))) == [0, 1]


def test_each_class_gives_the_same_number_of_images_always_the_same_ones(data: DataSet) -> None:
    opened = stream(data, "classes")
    tasks = [opened.train(task) for task in opened.tasks]
    for number, images in enumerate(tasks, 1):
        assert sorted(images.chosen[1][0].bincount(minlength=10).tolist()) == [0] * (10 - 3 * number) + [7] * 3 * number
        assert (images.chosen[1][0].diff() != 0).sum() > 4, "classes are shuffled among each other"
    first, second, third = (set(images.chosen[0][0].tolist()) for images in tasks)
    assert first < second < third


def test_growing_chunks_contain_the_earlier_ones_and_are_tested_on_all_test_images(data: DataSet) -> None:
    opened = stream(data, "chunks", batch_size=4)
    rows = [set(opened.train(task).chosen[0][1].tolist()) for task in opened.tasks]
    assert [len(own) for own in rows] == [12, 60, 120]
    assert rows[0] < rows[1] < rows[2]
    assert all(opened.test(task).size == len(data.test_labels) for task in opened.tasks)


# -- published numbers, and what cannot be -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "tasks", "size", "updates"),
    [
        ("permuted-mnist", 500, 10_000, 625),
        ("random-label-mnist", 50, 1200, 30_000),
        ("random-label-cifar", 50, 1200, 30_000),
        ("cifar-5+1", 30, 2500, 780),
        ("continual-imagenet", 500, 1200, 120),
    ],
)
def test_benchmarks_have_the_tasks_of_table_e1(data: DataSet, name: str, tasks: int, size: int, updates: int) -> None:
    settings = VisionSettings(**presets_of("vision")[name].settings)
    many = {"cifar-100": 100, "imagenet-32": 1000}.get(settings.dataset, 10)
    each = {"cifar-100": 500, "imagenet-32": 700}.get(settings.dataset, 1000)
    labels = torch.arange(many).repeat_interleave(each)
    pixels = torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8)
    full = DataSet(name, "", pixels, labels, pixels, labels, many)
    opened = Stream(replace(settings, tasks=2) if many == 1000 else settings, full)
    assert settings.tasks == tasks
    assert (opened.tasks[0].size, opened.tasks[0].steps) == (size, updates)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("split", {"tasks": 4}, "4 tasks need 12 classes that do not repeat, and mnist has 10"),
        ("alternating", {"tasks": 7}, "7 tasks need 11 classes"),
        ("permuted", {"images": 121}, "--images 121: mnist has 120 training images"),
        ("split", {"images_per_class": 13}, "--images-per-class 13: mnist has a class of 12 training images"),
        ("chunks", {"batch_size": 13}, "task 0 has 12 images, fewer than --batch-size 13"),
    ],
)
def test_more_classes_or_images_than_the_data_has_are_refused(
    data: DataSet, kind: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        stream(data, kind, **changes)
