import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.interventions import RetainLoss
from supple.tracks.language.examples import TaskData, load_task
from supple.tracks.language.finetune.settings import SFTSettings
from supple.tracks.language.finetune.work import FinetuneWork, build
from supple.tracks.language.models import load_model, save_model
from tests.tracks.logs import read_log, refusal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, one with choices, and a model of 2 layers of width 32 whose head is its embedding."""
    torch.set_num_threads(1)
    home = tmp_path_factory.mktemp("sft")
    for split, count in (("train", 11), ("test", 3)):
        choice = [{"prompt": f"{i}: A or B?", "answer": "AB"[i % 2], "choices": ["A", "B"]} for i in range(count)]
        sums = [{"question": f"{i} + 1?", "answer": f"so\n#### {i + 1}"} for i in range(count)]
        for name, lines in (("choice", choice), ("sums", sums)):
            (home / f"{name}_{split}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    language_model = load_model("llama:32x2")
    language_model.model.config.tie_word_embeddings = True
    language_model.model.tie_weights()  # as SmolLM2's are
    save_model(language_model, home / "model")
    return home


def small(folder: Path, **changes: Any) -> SFTSettings:
    """11 examples in batches of 4 for 2 epochs, then 3 updates: 5 + 3."""
    plain = SFTSettings(
        model=str(folder / "model"),
        learn=str(folder / "choice_train.jsonl"),
        retain=str(folder / "sums_train.jsonl"),
        epochs=2,
        batch_size=4,
        micro_batch=2,
        warmup=2,
        cooldown=3,
        learning_rate=3e-3,
        retain_batch=5,
        max_length=64,
        max_new_tokens=4,
        measure_every=8,
        device="cpu",
        precision="float32",
    )
    return replace(plain, **changes)


def built(settings: SFTSettings) -> FinetuneWork:
    settings.check()
    return build(settings)


def go(out: Path, settings: SFTSettings) -> Path:
    prepare(RunSpec("sft", settings), out, lambda line: None).train(lambda _: None)
    return out


def test_every_example_is_seen_once_an_epoch_in_an_order_of_its_own(folder: Path) -> None:
    work = built(small(folder, epochs=4))  # 44 examples: 11 batches
    assert work.tasks[0].steps == 11 + 3
    seen = [tuple(example.ids) for update in range(11) for example in work._rows(update)]
    assert {ids: seen.count(ids) for ids in set(seen)} == {tuple(example.ids): 4 for example in work.train}
    assert [example.ids for example in work._rows(3)] == [example.ids for example in built(small(folder))._rows(3)]
    other = built(small(folder, seed=1))
    assert {tuple(e.ids) for e in work._rows(0)} != {tuple(e.ids) for e in other._rows(0)}
    assert {tuple(e.ids) for e in work._rows(0)} != {tuple(e.ids) for e in work._rows(11 - 1)}


def test_micro_batches_add_up_to_the_loss_of_the_batch(folder: Path) -> None:
    work = built(small(folder, learn=str(folder / "sums_train.jsonl")))  # answers of unlike lengths
    whole = built(small(folder, learn=str(folder / "sums_train.jsonl"), micro_batch=4))
    parts = [work.loss(work.tasks[0], 2, part) / work.parts for part in range(work.parts)]
    assert work.parts == 2
    expected = whole.loss(whole.tasks[0], 2, 0)
    assert torch.allclose(torch.stack(parts).sum(), expected, rtol=1e-5)


def test_the_learning_rate_warms_up_falls_to_a_tenth_and_stays(folder: Path) -> None:
    work = built(small(folder, epochs=8))
    rates = [work.rate(work.tasks[0], update) for update in range(work.tasks[0].steps)]
    assert rates[0] < rates[1] < 1.0 == rates[2]
    assert rates[-4:] == pytest.approx([0.1] * 4)
    assert all(a > b for a, b in pairwise(rates[2:-3]))


def test_hooks_see_the_training_data_without_padding(folder: Path) -> None:
    work = built(small(folder))
    learner = work.learner
    (tokens,) = learner.probe()
    assert tokens.shape[0] == 2
    assert not (tokens == work.language_model.pad).any()
    samples = list(learner.batches(None))
    assert [len(each) for each in samples] == [2] * 6  # one pass over 11 examples
    retain = learner.offers(RetainLoss)
    assert retain is not None
    counts = [len(each.answer) for each in work.retained]
    assert len(counts) == 5
    alone = [float(work._nll([each]).detach()) for each in work.retained]
    assert float(retain.loss().detach()) == pytest.approx(sum(alone) / sum(counts), rel=1e-5)
    assert built(small(folder, retain="")).learner.offers(RetainLoss) is None


def test_a_run_learns_reports_both_tasks_and_leaves_its_model(folder: Path, tmp_path: Path) -> None:
    settings = small(folder, epochs=4, hook=("sib@start", "l2_init(strength=1e-4)"))
    run = go(tmp_path / "run", settings)
    lines = [line for line in read_log(run, "metrics") if "learn_loss" in line]
    assert [line["step"] for line in lines] == [0, 14]
    for line in lines:
        assert {"learn_loss", "learn_accuracy", "retain_loss", "retain_accuracy"} <= line.keys()
        assert 0 <= line["learn_accuracy"] <= 1
    assert lines[1]["learn_loss"] < lines[0]["learn_loss"] - 1
    assert lines[1]["learn_loss"] == pytest.approx(read_log(run, "tasks")[-1]["learn_loss"])
    assert [event["intervention"] for event in read_log(run, "events") if event["event"] == "intervention"] == ["sib"]
    trained = load_model(str(run / "model"))
    again = FinetuneWork(small(folder), trained, *_tasks(folder))
    assert again.evaluate(again.tasks[0])["learn_loss"] == pytest.approx(lines[1]["learn_loss"], rel=1e-6)


def test_losses_alone_are_reported_where_nothing_is_to_be_examined(folder: Path) -> None:
    work = built(small(folder, examine=False))
    assert set(work.evaluate(work.tasks[0])) == {"learn_loss", "retain_loss"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "--model is missing"),
        ({"learn": ""}, "--learn is missing"),
        ({"batch_size": 5}, "multiple of --micro-batch"),
        ({"epochs": 0.1}, "less than one batch of 4"),
        ({"max_length": 1}, "--max-length must be 2 or more"),
        ({"max_length": 2048}, "more than the context"),
        ({"min_rate": 1.5}, "--min-rate must lie in"),
        ({"retain": "nowhere.jsonl"}, "no such task"),
    ],
)
def test_settings_that_cannot_work_are_refused_before_training(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    assert message in refusal(built, small(folder, **changes))


@pytest.mark.filterwarnings("ignore:.*are longer than 12 tokens")
def test_a_warning_counts_the_prompts_that_are_too_long(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"choice: \d+ of 11 train examples are longer than 12 tokens"):
        built(small(folder, max_length=12))


def _tasks(folder: Path) -> list[TaskData]:
    return [load_task(str(folder / f"{name}_train.jsonl"), 0) for name in ("choice", "sums")]
