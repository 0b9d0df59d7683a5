import json
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.interventions import RetainLoss
from supple.tracks.language.answers import answer_nll
from supple.tracks.language.finetune.settings import SFTSettings
from supple.tracks.language.finetune.work import FinetuneWork, build
from supple.tracks.language.models import load_model, save_model
from supple.tracks.language.schedule import cosine_rate
from tests.tracks.logs import read_log

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


def built(folder: Path, **changes: Any) -> FinetuneWork:
    settings = small(folder, **changes)
    settings.check()
    return build(settings)


def test_every_example_is_seen_once_an_epoch_in_an_order_of_its_own(folder: Path) -> None:
    work = built(folder, epochs=4)  # 44 examples: 11 batches
    assert work.tasks[0].steps == 11 + 3
    seen = [[tuple(example.ids) for example in work._rows(update)] for update in range(11)]
    assert Counter(chain(*seen)) == {tuple(example.ids): 4 for example in work.train}
    assert seen[3] == [tuple(example.ids) for example in built(folder)._rows(3)]
    other = {tuple(e.ids) for e in built(folder, seed=1)._rows(0)}
    assert other != set(seen[0]) != set(seen[10])
    assert work.rate(work.tasks[0], 6) == cosine_rate(6, 14, 2, 3, 0.1)


def test_micro_batches_add_up_to_the_loss_of_the_batch(folder: Path) -> None:
    parts, whole = (built(folder, learn=str(folder / "sums_train.jsonl"), micro_batch=size) for size in (2, 4))
    losses = [parts.loss(parts.tasks[0], 2, part) / parts.parts for part in range(2)]  # answers of unlike lengths
    assert torch.allclose(torch.stack(losses).sum(), whole.loss(whole.tasks[0], 2, 0), rtol=1e-5)


def test_hooks_see_the_training_data_without_padding(folder: Path) -> None:
    work = built(folder)
    learner = work.learner
    (tokens,) = learner.probe()
    assert tokens.shape[0] == 2
    assert not (tokens == work.language_model.pad).any()
    assert [len(each) for each in learner.batches(None)] == [2] * 6  # one pass over 11 examples
    retain = learner.offers(RetainLoss)
    alone = [answer_nll(work.language_model, [each]).item() for each in work.retained]
    assert len(alone) == 5
    tokens = sum(len(each.answer) for each in work.retained)
    assert retain.loss().item() == pytest.approx(sum(alone) / tokens, rel=1e-5)
    assert built(folder, retain="").learner.offers(RetainLoss) is None


def test_a_run_learns_reports_both_tasks_and_leaves_its_model(folder: Path, tmp_path: Path) -> None:
    run, settings = tmp_path / "run", small(folder, epochs=4, hook=("sib@start", "l2_init(strength=1e-4)"))
    prepare(RunSpec("sft", settings), run, lambda line: None).train(lambda _: None)
    lines = [line for line in read_log(run, "metrics") if "learn_loss" in line]
    assert [line["step"] for line in lines] == [0, 14]
    for line in lines:
        assert {"learn_loss", "learn_accuracy", "retain_loss", "retain_accuracy"} <= line.keys()
        assert 0 <= line["learn_accuracy"] <= 1
    assert lines[1]["learn_loss"] < lines[0]["learn_loss"] - 1
    assert lines[1]["learn_loss"] == pytest.approx(read_log(run, "tasks")[-1]["learn_loss"])
    assert [event["intervention"] for event in read_log(run, "events") if event["event"] == "intervention"] == ["sib"]
    again = built(folder, model=str(run / "model"), examine=False)
    losses = again.evaluate(again.tasks[0])
    assert losses.keys() == {"learn_loss", "retain_loss"}
    assert losses["learn_loss"] == pytest.approx(lines[1]["learn_loss"], rel=1e-6)


@pytest.mark.filterwarnings("ignore:.*are longer than 12 tokens")
def test_a_warning_counts_the_prompts_that_are_too_long(folder: Path) -> None:
    with pytest.warns(UserWarning, match=r"choice: \d+ of 11 train examples are longer than 12 tokens"):
        built(folder, max_length=12)
