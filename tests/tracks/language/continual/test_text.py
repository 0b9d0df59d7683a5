"""Text as a stream of tasks: batches, losses, scores."""

import json

import pytest
import torch

from supple.tracks.language.chat import IGNORED, collate

pytestmark = pytest.mark.slow


def test_a_pass_shows_every_example_once_in_an_order_of_its_own(trials):
    stream = trials.work().stream
    assert stream.updates_per_epoch(0) == 3  # 10 examples, 4 at a time
    passes = []
    for epoch in range(2):
        rows = [tuple(row.tolist()) for i in range(3) for row in stream.inputs(0, 3 * epoch + i)[0]]
        assert len(rows) == len(set(rows)) == 10
        passes.append(rows)
    assert sorted(passes[0]) == sorted(passes[1])
    assert passes[0] != passes[1]


def test_batches_depend_on_seed_task_and_update_alone(trials):
    stream, again, other = (trials.work(seed=seed).stream for seed in (0, 0, 1))
    stream.inputs(2, 7)
    assert torch.equal(stream.inputs(1, 2)[0], again.inputs(1, 2)[0])
    assert not torch.equal(stream.inputs(1, 0)[0], other.inputs(1, 0)[0])


def test_the_loss_is_that_of_transformers_on_the_answers(trials):
    stream = trials.work("full").stream
    tokens, labels, _ = collate(stream._rows(0, 0), stream.language_model.pad)
    expected = stream.model(tokens, labels=labels).loss
    assert float(stream.loss(0, 0).detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert (labels != IGNORED).sum(1).unique().tolist() == [2]  # a character, and the end of the turn
    assert float(stream.losses(0, 0).mean().detach()) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_a_learned_task_is_scored_by_its_answers(trials):
    work = trials.work("full", updates_per_task=40, batch_size=10, learning_rate=1e-2)
    assert work.scores()[1] < 1
    trials.learn(work, 1)
    work.model.eval()
    assert work.stream.score(1) == 1.0
    assert work.stream.score(1, examples=1) == 1.0


@pytest.fixture
def uneven(trials, tmp_path):
    """A stream of questions of different lengths."""
    lines = [json.dumps({"prompt": "?" * (1 + i % 4), "answer": "x" * (1 + i // 4)}) for i in range(10)]
    for split in ("train", "test"):
        (tmp_path / f"d_{split}.jsonl").write_text("\n".join(lines))
    return trials.work(tasks=(str(tmp_path / "d_train.jsonl"),)).stream


def test_no_padding_is_measured(uneven):
    (tokens,) = uneven.inputs(0, 0)
    assert not (tokens == uneven.language_model.pad).any()
    assert len({len(example.ids) for example in uneven._rows(0, 0)}) > 1


def test_a_pass_without_padding_has_every_example_whole_and_once(uneven):
    seen = [row for (tokens,) in uneven.passes(0) for row in tokens.tolist()]
    assert sorted(seen) == sorted(example.ids for example in uneven.encoded[0])


def test_other_contents_of_a_file_are_another_source(trials, tmp_path):
    sources = set()
    for answer in "ab":
        for split in ("train", "test"):
            (tmp_path / f"d_{split}.jsonl").write_text(json.dumps({"prompt": "p", "answer": answer}))
        sources.add(trials.work(tasks=(str(tmp_path / "d_train.jsonl"),)).sources["task 0"])
    assert len(sources) == 2
