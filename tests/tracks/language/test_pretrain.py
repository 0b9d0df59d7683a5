"""`supple train pretrain`: two phases, hooks between them, states that are kept, what all processes have in common."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from supple.engine.kinds import find_kind
from supple.engine.runs import build, prepare
from supple.engine.spec import RunSpec
from supple.experiments.comparisons.folder import create, open_comparison
from supple.scripts import compare
from supple.scripts.cli.options import parse_request
from supple.scripts.main import dispatch
from supple.tracks.language.gpt import GPT
from supple.tracks.language.pretrain.settings import PretrainSettings
from supple.tracks.language.pretrain.work import PretrainWork
from supple.tracks.language.schedule import cosine_rate, linear_rate
from tests.processes import LONG
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


def tiny(bench: Any, **changes: Any) -> PretrainSettings:
    small = {"layers": 1, "width": 16, "heads": 2, "block_size": 8, "batch_size": 4, "micro_batch": 2, "warmup": 0}
    return PretrainSettings(first=(str(bench.texts["first"]),), **(small | {"tokenizer": "bytes"} | changes))


HOOKS = ("--hook", "fire(steps=5)@task", "--hook", "l2_init(strength=1e-3)", "--hook", "ewc(samples=4)")


@pytest.fixture(scope="module")
def whole(bench: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pretrain") / "whole"
    dispatch(bench.command(out, *HOOKS, "--dropout", "0.1"))
    return out


def test_both_phases_are_learned_and_logged(bench: Any, whole: Path) -> None:
    tasks = bench.log(whole, "tasks")
    assert [(line["step"], line["updates"]) for line in tasks] == [(12, 12), (20, 8)]
    lines = [line for line in bench.log(whole, "metrics") if "val_loss" in line]
    assert [line["step"] for line in lines] == [0, 5, 10, 12, 12, 15, 20]
    first, second = (f"val_loss/{path}" for path in bench.texts.values())
    assert lines[3]["val_loss"] == lines[3][first]
    assert lines[-1]["val_loss"] == pytest.approx((lines[-1][first] + lines[-1][second]) / 2)
    assert lines[3]["val_loss"] < lines[0]["val_loss"] - 0.5
    assert lines[-1][second] < lines[4][second]


def test_methods_that_act_at_every_update_act_on_a_gpt(bench: Any, tmp_path: Path) -> None:
    hooks = (
        "spectral",
        "wasserstein",
        "soft_snp(epsilon=1e-3)",
        "cpr(period=2)",
        "l2_er(period=2)",
        "regrama@3",
        "adam_rel@task",
    )
    second = (str(bench.texts["second"]),)
    settings = tiny(bench, hook=hooks, second=second, pretrain_steps=4, steps=2, device="cpu", val_sequences=2)
    prepare(RunSpec("pretrain", settings), tmp_path / "run", print).train(lambda *_: None)
    done = [event["hook"] for event in bench.log(tmp_path / "run", "events") if event["event"] == "intervention"]
    assert done == ["regrama@3", "adam_rel@task"]


def test_fire_comes_between_the_phases(bench: Any, whole: Path) -> None:
    event = next(e for e in bench.log(whole, "events") if e["event"] == "intervention")
    assert event["step"] == 12
    assert event["written"] == 2 * 4 + 1  # four layers of each block, and the head, which is the embedding
    assert event["change"]["sfe"] > 0
    assert event["after"]["dfi_unscaled"] < event["before"]["dfi_unscaled"]


def test_the_learning_rate_rises_and_falls_in_both_phases() -> None:
    rates = [linear_rate(update, 100, 10, 0.1) for update in range(100)]
    assert rates == sorted(rates[:10]) + sorted(rates[10:], reverse=True)
    assert (max(rates), rates[10], rates[-1]) == (1.0, 1.0, pytest.approx(0.1))
    assert rates[0] == pytest.approx(1 / 11)
    rates = [cosine_rate(update, 100, 20, 50, 0.1) for update in range(100)]
    assert rates[20] == 1.0
    assert rates[49:] == [pytest.approx(0.1)] * 51
    assert rates[40] < linear_rate(40, 50, 20, 0.1)  # in its second half a cosine is below the line
    assert rates[24] > linear_rate(24, 50, 20, 0.1)


def test_the_second_phase_starts_at_the_given_update_of_the_whole_first_schedule(bench: Any) -> None:
    second = (str(bench.texts["second"]),)
    work = build(PRETRAIN, tiny(bench, second=second, pretrain_steps=100, start="40", steps=10))
    assert [(task.start, task.end) for task in work.tasks] == [(0, 40), (40, 50)]
    assert work.rate(work.tasks[0], 39) == linear_rate(39, 100, 0, 0.1)
    assert work.rate(work.tasks[1], 0) == linear_rate(0, 10, 1, 0.1)


def test_a_batch_is_the_same_in_one_pass_and_in_several(bench: Any, tmp_path: Path) -> None:
    runs = [tmp_path / "several", tmp_path / "one"]
    dispatch(bench.command(runs[0], "--pretrain-steps", "6"))
    dispatch(bench.command(runs[1], "--pretrain-steps", "6", "--micro-batch", "8"))
    losses = [[line["val_loss"] for line in bench.log(run, "metrics") if "val_loss" in line] for run in runs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_two_processes_learn_as_one_does(bench: Any, tmp_path: Path) -> None:
    """`torchrun` with gloo: the losses of one process, to 1e-4."""
    one, two = tmp_path / "one", tmp_path / "two"
    hooks = ("--hook", "fire@task")
    dispatch(bench.command(one, *hooks))
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    words += ["-m", "supple.scripts.train", *bench.command(two, *hooks)[1:]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONG, env=environment)
    assert done.returncode == 0, done.stderr
    ours, theirs = ([line for line in bench.log(run, "metrics") if "val_loss" in line] for run in (two, one))
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    for key in ("val_loss", "train_loss"):
        values = [[line[key] for line in lines if key in line] for lines in (ours, theirs)]
        assert values[0] == pytest.approx(values[1], rel=1e-4), key
    assert len(bench.log(two, "tasks")) == 2, "only the first process writes"


def test_bfloat16_products_train_float32_weights(bench: Any, tmp_path: Path) -> None:
    run = tmp_path / "run"
    dispatch(bench.command(run, "--precision", "bfloat16"))
    losses = [line["val_loss"] for line in bench.log(run, "metrics") if "val_loss" in line]
    assert losses[3] < losses[0] - 0.5
    work = build(PRETRAIN, tiny(bench))
    assert isinstance(work.learner.module, GPT)
    assert {p.dtype for p in work.learner.module.parameters()} == {torch.float32}


PRETRAIN = find_kind("pretrain")


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
        learner = build(PRETRAIN, tiny(bench)).learner
        (tokens,) = learner.probe() or ()
        seen.append((tokens, learner.loss().detach(), torch.stack([losses.detach() for losses in learner.batches(3)])))
    for other in seen[1:]:
        torch.testing.assert_close(seen[0], other, rtol=0, atol=0)


def test_batches_of_a_task_are_different_ones(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    work = build(PRETRAIN, tiny(bench))
    assert isinstance(work, PretrainWork)
    work.place = work.tasks[0], 5
    recent_updates: list[int] = []
    recent = work._recent_batch
    monkeypatch.setattr(work, "_recent_batch", lambda update: recent_updates.append(update) or recent(update))
    assert len(list(work.learner.batches(9))) == 9
    assert recent_updates == [5, 4, 3, 2, 1, 0, 6, 7, 8]


def test_the_vocabulary_is_filled_up_to_a_multiple_of_64(bench: Any) -> None:
    work = build(PRETRAIN, tiny(bench, tokenizer="bpe:300"))
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
    comparison = plan_comparison(
        bench, "--vary", f"second={second}", "--vary", "max_grad_norm=None,1", "--vary", "start=best,6"
    )
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
