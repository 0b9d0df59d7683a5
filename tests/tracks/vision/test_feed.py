"""The batches of a task: how often each image occurs, the replay memory, and reading ahead."""

from typing import Any

import pytest
import torch
from torch import Tensor

from supple.tracks.vision.data import DataSet
from supple.tracks.vision.feed import ImageFeed


def feed(data: DataSet, lab: Any, task: int = 0, **changes: Any) -> ImageFeed:
    return lab.model(data, task, **changes).feed


def rows_of(data: DataSet, images: Tensor) -> list[list[int]]:
    """Which training images these are, (members, n, 1, h, w); all of them differ."""
    return [[int((data.train_images == image).flatten(1).all(1).nonzero()) for image in own] for own in images]


@pytest.mark.parametrize("images", [50, 20])
def test_batches_cross_the_ends_of_epochs_and_every_image_comes_as_often(data: DataSet, lab: Any, images: int) -> None:
    opened = feed(data, lab, stream="random-labels", images=images, batch_size=20)
    seen = rows_of(data, torch.cat([opened.batch()[0] for _ in range(15)], 1))
    for own, rows in zip(seen, opened.images.chosen[0].tolist(), strict=True):
        passes = [own[start : start + images] for start in range(0, 300, images)]
        assert all(sorted(each) == sorted(rows) for each in passes)
        assert len(set(map(tuple, passes))) == len(passes)


def test_a_feed_opened_in_the_middle_of_a_task_continues_from_there(data: DataSet, lab: Any) -> None:
    through, later = (feed(data, lab, batch_size=20) for _ in range(2))
    batches = [through.batch() for _ in range(9)]
    later.update = 7
    for batch in batches[7:]:
        ahead, _ = later.batches(2)  # which does not advance it
        assert all(map(torch.equal, batch, ahead))
        assert all(map(torch.equal, batch, later.batch()))
        assert all(map(torch.equal, batch, later.last()))


def test_metrics_look_at_the_first_images_all_along_and_without_a_number_batches_are_one_pass_over_the_task(
    data: DataSet, lab: Any
) -> None:
    opened = feed(data, lab, stream="random-labels", images=50, batch_size=20)
    before, passed = opened.probe(), list(opened.batches(None))
    assert [labels.shape[1] for _, labels in passed] == [20, 20, 10]
    assert rows_of(data, torch.cat([images for images, _ in passed], 1)) == opened.images.chosen[0].tolist()
    assert before[1].shape == (2, 50)
    opened.batch()
    assert all(map(torch.equal, before, opened.probe()))


# -- memory --------------------------------------------------------------------------------------------------------

SPLIT = {"stream": "split", "tasks": 5, "classes_per_task": 2, "batch_size": 6}


@pytest.mark.parametrize(("replay", "most", "kept"), [(1000, 500, 24), (1000, 7, 7), (31, 500, 10)])
def test_the_memory_holds_as_much_of_each_earlier_task_and_no_more_than_its_size(
    data: DataSet, lab: Any, replay: int, most: int, kept: int
) -> None:
    opened = feed(data, lab, task=3, replay=replay, replay_per_task=most, **SPLIT)
    assert opened._memory.size == 3 * kept <= replay
    for task in opened.stream.tasks[:3]:
        for own, rows in zip(opened.stream.train(task).chosen[0], opened._memory.chosen[0], strict=True):
            assert len({*own.tolist()} & {*rows.tolist()}) == kept


def test_half_of_each_batch_is_replayed_with_the_labels_of_its_task(data: DataSet, lab: Any) -> None:
    opened = feed(data, lab, task=2, replay=20, **SPLIT)
    drawn: list[set[int]] = [set(), set()]
    for _ in range(8):
        images, labels = opened.batch()
        assert labels.shape == (2, 12)
        for member, rows in enumerate(rows_of(data, images)):
            assert set(rows[:6]) <= set(opened.images.chosen[0][member].tolist())
            assert set(rows[6:]) <= set(opened._memory.chosen[0][member].tolist())
            assert data.train_labels[rows].tolist() == labels[member].tolist()
            drawn[member] |= set(rows[6:])
    assert all(len(own) > 10 for own in drawn)  # drawn anew each time
    assert opened.last()[1].shape == (2, 6)  # what interventions see is the task's own
    assert feed(data, lab, replay=20, **SPLIT).batch()[1].shape == (2, 6)  # in the first task there is no memory


def test_members_of_a_stack_have_their_own_replay_memories(data: DataSet, lab: Any) -> None:
    stack, alone = (feed(data, lab, 2, replay=20, **SPLIT, **more) for more in ({}, {"seeds": (1,)}))
    for ours, theirs in zip(stack.batch(), alone.batch(), strict=True):
        assert torch.equal(ours[1], theirs[0])
