"""The states of a first phase that are kept, and what all processes and arms of a run have in common."""

from pathlib import Path
from typing import Any

import pytest
import torch

from supple.engine.kinds import find_kind
from supple.engine.runs import build
from supple.experiments.comparisons.folder import create, open_comparison
from supple.scripts import compare
from supple.scripts.cli.options import parse_request
from supple.scripts.main import dispatch
from supple.tracks.language.pretrain.settings import PretrainSettings
from supple.tracks.language.pretrain.work import PretrainWork
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

PRETRAIN = find_kind("pretrain")


def settings(bench: Any, **changes: Any) -> PretrainSettings:
    small = {"layers": 1, "width": 16, "heads": 2, "block_size": 8, "batch_size": 8, "micro_batch": 2, "warmup": 0}
    first, second = (str(path) for path in bench.texts.values())
    return PretrainSettings(**({"first": (first,), "second": (second,), "tokenizer": "bytes"} | small | changes))


def test_start_best_is_refused_in_a_single_run_before_any_corpus_is_read(bench: Any, tmp_path: Path) -> None:
    words = bench.command(tmp_path / "run", "--start", "best", "--first", "no-such-file")
    assert "known in comparisons only" in refusal(dispatch, words)


def kept(run: Path, kind: str) -> list[int]:
    return sorted(int(folder.name) for folder in (run / kind).glob("*"))


def test_the_untrained_network_is_no_best_state(bench: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    dispatch(bench.command(run, "--keep-best", "True", "--learning-rate", "3", "--pretrain-steps", "4"))
    losses = {line["step"]: line["val_loss"] for line in bench.log(run, "metrics") if "val_loss" in line}
    assert losses[0] < losses[4], "it learned something after all"
    assert kept(run, "best") == [4]


def test_states_are_kept_in_the_first_phase_only(bench: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    dispatch(bench.command(run, "--start", "6", "--keep-at", "6", "10"))
    assert kept(run, "kept") == [6]


def test_interventions_see_the_same_data_in_every_process(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the weights of the processes would differ without any message."""
    seen = []
    for rank, world in ((0, 1), (0, 2), (1, 2)):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world))
        learner = build(PRETRAIN, settings(bench)).learner
        (tokens,) = learner.probe() or ()
        seen.append((tokens, learner.loss().detach(), torch.stack([losses.detach() for losses in learner.batches(3)])))
    for other in seen[1:]:
        torch.testing.assert_close(seen[0], other, rtol=0, atol=0)


def test_batches_of_a_task_are_different_ones(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work = build(PRETRAIN, settings(bench))
    assert isinstance(work, PretrainWork)
    work.place = work.tasks[0], 5
    recent_updates: list[int] = []
    recent = work._recent_batch
    monkeypatch.setattr(work, "_recent_batch", lambda update: recent_updates.append(update) or recent(update))
    assert len(list(work.learner.batches(9))) == 9
    assert recent_updates == [5, 4, 3, 2, 1, 0, 6, 7, 8]


def test_the_vocabulary_is_filled_up_to_a_multiple_of_64(bench: Any) -> None:
    work = build(PRETRAIN, settings(bench, tokenizer="bpe:300"))
    assert isinstance(work, PretrainWork)
    assert work.corpora.vocab_size % 64
    assert 0 < work.model.config.vocab_size - work.corpora.vocab_size < 64
    assert work.model.config.vocab_size % 64 == 0


def plan_comparison(bench: Any, *more: str, kind: str = "") -> Any:
    words = bench.command(Path("out"), *more)
    what = parse_request("compare", [kind, *more, "--out", "out"] if kind else words[1:])
    return compare.ask(what, compare.parse_options(what)).comparison("test")


def test_commas_in_quotes_and_brackets_do_not_separate_values(bench: Any) -> None:
    comparison = plan_comparison(
        bench, "--vary", 'order="2,0,1","0,1,2"', "--vary", "targets=q_proj v_proj,all-linear", kind="continual"
    )
    orders, targets = ("2,0,1", "0,1,2"), (("q_proj", "v_proj"), ("all-linear",))
    assert comparison.variants == [{"order": order, "targets": target} for order in orders for target in targets]
    first = str(bench.texts["first"])
    activations = "activation=swish(beta=2),rand_smooth_leaky(c=0.8, p=1)"
    comparison = plan_comparison(bench, "--first", first, "--vary", activations, kind="pretrain")
    assert [variant["activation"] for variant in comparison.variants] == [
        "swish(beta=2)",
        "rand_smooth_leaky(c=0.8, p=1)",
    ]


def test_variants_survive_writing_and_reading(bench: Any, tmp_path: Path) -> None:
    second = ",".join(str(path) for path in bench.texts.values())
    comparison = plan_comparison(bench, "--vary", f"second={second}", "--vary", "clip=None,1", "--vary", "start=best,6")
    create(tmp_path / "out", comparison, 1)
    again = open_comparison(tmp_path / "out")
    assert again.variants == comparison.variants
    assert isinstance(again.variants[0]["second"], tuple)


def test_variants_have_folders_of_their_own(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a_b.txt", "a b.txt"):
        Path(name).write_text(bench.texts["first"].read_text())
    comparison = plan_comparison(bench, "--vary", "second='a b.txt',a_b.txt")
    assert len({point.folder for point in comparison.points}) == 2
