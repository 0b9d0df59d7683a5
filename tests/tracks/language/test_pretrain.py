"""`supple train pretrain`: two phases, hooks between them, states that are kept, what all processes have in common."""

import os
from functools import partial
from itertools import combinations, product
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import torch

from supple.engine.kinds import find_kind
from supple.engine.runs import build, prepare
from supple.engine.spec import RunSpec, read_spec
from supple.experiments.comparisons.comparison import Comparison
from supple.experiments.comparisons.folder import create, open_comparison
from supple.experiments.comparisons.grid import Point
from supple.experiments.results import load
from supple.experiments.sweeps import estimate
from supple.experiments.sweeps.space import Space
from supple.experiments.sweeps.study import Study
from supple.experiments.sweeps.sweep import Sweep, open_sweep
from supple.scripts import compare
from supple.scripts.cli.options import parse_request
from supple.scripts.main import dispatch
from supple.tracks.language.corpora import train_bpe
from supple.tracks.language.pretrain.data import prepare_texts
from supple.tracks.language.pretrain.settings import PretrainSettings
from supple.tracks.language.schedule import cosine_rate, linear_rate
from tests.processes import ended
from tests.tracks.logs import state

pytestmark = pytest.mark.slow


def tiny(bench: Any, **changes: Any) -> PretrainSettings:
    small = {"layers": 1, "width": 16, "heads": 2, "block_size": 8, "batch_size": 4, "micro_batch": 2, "warmup": 0}
    return PretrainSettings(first=(str(bench.texts["first"]),), **(small | {"tokenizer": "bytes"} | changes))


def losses_of(bench: Any, run: Path, name: str = "val_loss") -> dict[int, float]:
    """A number by step, the later one of two."""
    return {line["step"]: line[name] for line in bench.log(run, "metrics") if name in line}


def test_both_phases_are_learned_and_logged_and_fire_comes_between_them(bench: Any, tmp_path: Path) -> None:
    run, hooks = tmp_path / "run", ("fire(steps=5)@task", "l2_init(strength=1e-3)", "ewc(samples=4)")
    dispatch(bench.command(run, *(word for hook in hooks for word in ("--hook", hook)), "--dropout", "0.1"))
    tasks = bench.log(run, "tasks")
    assert [(line["step"], line["updates"]) for line in tasks] == [(12, 12), (20, 8)]
    lines = [line for line in bench.log(run, "metrics") if "val_loss" in line]
    assert [line["step"] for line in lines] == [0, 5, 10, 12, 12, 15, 20]
    first, second = (f"val_loss/{path}" for path in bench.texts.values())
    assert lines[3]["val_loss"] == lines[3][first]
    assert lines[-1]["val_loss"] == pytest.approx((lines[-1][first] + lines[-1][second]) / 2)
    assert lines[3]["val_loss"] < lines[0]["val_loss"] - 0.5
    assert lines[-1][second] < lines[4][second]
    event = next(e for e in bench.log(run, "events") if e["event"] == "intervention")
    assert event["step"] == 12
    assert event["written"] == 2 * 4 + 1  # four layers of each block, and the head, which is the embedding
    assert event["after"]["dfi_unscaled"] < event["before"]["dfi_unscaled"]


def test_methods_that_act_at_every_update_act_on_a_gpt(bench: Any, tmp_path: Path) -> None:
    always = ("spectral", "wasserstein", "soft_snp(epsilon=1e-3)", "cpr(period=2)", "l2_er(period=2)")
    once, second = ("regrama@3", "adam_rel@task"), (str(bench.texts["second"]),)
    settings = tiny(bench, hook=always + once, second=second, pretrain_steps=4, steps=2, device="cpu", val_sequences=2)
    prepare(RunSpec("pretrain", settings), tmp_path / "run", print).train(lambda *_: None)
    done = [event["hook"] for event in bench.log(tmp_path / "run", "events") if event["event"] == "intervention"]
    assert done == list(once)


def test_the_learning_rate_rises_and_falls() -> None:
    rates = [linear_rate(update, 100, 10, 0.1) for update in range(100)]
    assert rates == sorted(rates[:10]) + sorted(rates[10:], reverse=True)
    assert (rates[0], rates[10], rates[55], rates[-1]) == pytest.approx((1 / 11, 1.0, 1 - 0.9 * 45 / 89, 0.1))
    rates = [cosine_rate(update, 100, 19, 50, 0.1) for update in range(100)]
    assert rates[:19] == [(update + 1) / 20 for update in range(19)]
    assert (rates[19], rates[29], rates[34]) == pytest.approx((1.0, 0.775, 0.55))  # a cosine of 0, π/3 and π/2
    assert rates[49:] == pytest.approx([0.1] * 51)


def test_the_second_phase_starts_at_the_given_update_of_the_whole_first_schedule(bench: Any) -> None:
    second = (str(bench.texts["second"]),)
    work = build(PRETRAIN, tiny(bench, second=second, pretrain_steps=100, start="40", steps=10))
    assert [(task.start, task.end) for task in work.tasks] == [(0, 40), (40, 50)]
    assert work.rate(work.tasks[0], 39) == linear_rate(39, 100, 0, 0.1)
    assert work.rate(work.tasks[1], 0) == linear_rate(0, 10, 1, 0.1)


def test_a_batch_is_the_same_in_one_pass_and_in_several(bench: Any, tmp_path: Path) -> None:
    for size in ("4", "8"):
        dispatch(bench.command(tmp_path / size, "--pretrain-steps", "6", "--micro-batch", size))
    assert losses_of(bench, tmp_path / "4") == pytest.approx(losses_of(bench, tmp_path / "8"), rel=1e-4)


def test_two_processes_learn_as_one_does(bench: Any, process: Any, tmp_path: Path) -> None:
    """The environment of `torchrun`, with gloo: the losses of one process, to 1e-4."""
    one, two = (bench.command(tmp_path / name, "--hook", "fire@task") for name in ("one", "two"))
    dispatch(one)
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    errors = {rank: tmp_path / f"errors {rank}" for rank in "01"}
    both = [process(two, file, partial(os.environ.update, shared, RANK=rank)) for rank, file in errors.items()]
    assert [ended(child) for child in both] == [0, 0], [file.read_text() for file in errors.values()]
    for name in ("val_loss", "train_loss"):
        found, expected = (losses_of(bench, tmp_path / run, name) for run in ("two", "one"))
        assert found == pytest.approx(expected, rel=1e-4), name
    assert len(bench.log(tmp_path / "two", "tasks")) == 2, "only the first process writes"


def test_bfloat16_products_train_float32_weights(bench: Any) -> None:
    half, exact = (build(PRETRAIN, tiny(bench, precision=name)) for name in ("bfloat16", "float32"))
    losses = [work.loss(work.tasks[0], 0, 0) for work in (half, exact)]
    losses[0].backward()
    assert 0 < abs(losses[0].item() - losses[1].item()) < 0.05
    assert {(p.dtype, p.grad.dtype) for p in half.model.parameters()} == {(torch.float32, torch.float32)}


PRETRAIN = find_kind("pretrain")


def test_states_are_kept_of_the_first_phase_and_the_untrained_network_is_no_best_one(
    bench: Any, tmp_path: Path
) -> None:
    words = ("--start", "6", "--keep-at", "6", "--keep-best", "True", "--learning-rate", "3")
    dispatch(bench.command(tmp_path / "run", *words, "--second-warmup", "0.5"))
    losses = losses_of(bench, tmp_path / "run")
    assert losses[0] < losses[5], "it learned something after all"
    kept = {kind: [int(folder.name) for folder in (tmp_path / "run" / kind).glob("*")] for kind in ("best", "kept")}
    assert kept == {"best": [min((5, 6), key=losses.get)], "kept": [6]}


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


def test_dropout_masks_are_those_of_a_process_and_micro_batch(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    seen: list[torch.Tensor] = []
    places = list(product((0, 1), (0, 1), (0, 1)))  # rank, update, part
    for rank, update, part in places * 2:
        monkeypatch.setenv("RANK", str(rank))
        work = build(PRETRAIN, tiny(bench, dropout=0.5, batch_size=16))
        work.model.dropout.register_forward_hook(lambda _, __, out: seen.append(out == 0))
        shared = torch.get_rng_state()
        work.loss(work.tasks[0], update, part)
        assert torch.equal(torch.get_rng_state(), shared), "which random activations draw from"
    for one, other in combinations(range(len(seen)), 2):
        assert torch.equal(seen[one], seen[other]) == (other - one == len(places))


def test_batches_of_a_task_are_different_ones(bench: Any) -> None:
    work = build(PRETRAIN, tiny(bench))
    work.place = work.tasks[0], 5
    losses = [tuple(each.tolist()) for each in work.learner.batches(9)]
    assert len(losses) == len(set(losses)) == 9
    assert losses[0] == tuple(work.model.losses(*work._recent_batch()).tolist())


def test_the_vocabulary_is_filled_up_to_a_multiple_of_64(bench: Any) -> None:
    sizes = [build(PRETRAIN, tiny(bench, tokenizer=f"bpe:{size}")).model.config.vocab_size for size in (300, 320)]
    assert sizes == [320, 320]


def test_all_arms_of_all_starts_begin_from_states_of_one_trunk(bench: Any, tmp_path: Path, here: Any) -> None:
    """And an arm equals a single run that starts at the same update."""
    arms, folder = ("none", "fire(steps=5)"), tmp_path / "compared/seed-0"
    words = ("--arm", arms[0], "--arm", arms[1], "--vary", "start=best,6,12")
    with here():
        dispatch(bench.command(folder.parent, *words, command="compare"))
    assert sorted(path.name for path in folder.iterdir()) == ["start=12", "start=6", "start=best", "trunk"]
    losses = losses_of(bench, folder / "trunk")
    for start, step in (("best", min(losses, key=losses.get)), ("6", 6), ("12", 12)):
        for arm in arms:
            run = folder / Point(arm, {"start": start}).folder
            spec = read_spec(run)
            assert (spec.start.step, spec.resolved.tasks[1]["start"], spec.total_steps) == (step, step, step + 8)
            assert spec.labels.variant == {"start": start}
            assert [task["task"] for task in bench.log(run, "tasks")] == [1]
    arm, alone = folder / Point(arms[1], {"start": "6"}).folder, tmp_path / "alone"
    dispatch(bench.command(alone, "--start", "6", "--hook", "fire(steps=5)@task"))
    assert state(arm, 14) == state(alone, 14)
    steps = load(folder.parent).metrics.groupby("arm")["step"]
    assert set(steps.min()) == {0}  # the rows of an arm begin with those of its trunk
    ours, theirs = (losses_of(bench, run) for run in (arm, alone))
    assert ours.items() <= theirs.items()


def test_what_is_left_after_the_first_phase_is_estimated(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECONDS", "LEAST"):
        monkeypatch.setattr(estimate, name, 0.1)
    second = (str(bench.texts["second"]),)
    settings = vars(tiny(bench, second=second, pretrain_steps=4, steps=4, eval_every=2, device="cpu"))
    settings = {name: value for name, value in settings.items() if name != "hook"}
    study = Study("warm", "pretrain", settings=settings, arms=("none",), seeds=(0,), space=Space({"start": ["best"]}))
    trunk, _ = Sweep([study]).begin(tmp_path / "sweep")
    with trunk.lock() as lock:
        trunk.train(lock, lambda *told: None, lambda line: None)
    (left,) = estimate.estimates(open_sweep(tmp_path / "sweep"), lambda line: None)
    assert (left.runs, left.trunks, left.steps) == (1, 0, 4)


def test_texts_are_prepared_anew_if_they_or_the_tokenizer_have_changed(bench: Any, tmp_path: Path) -> None:
    file, text = tmp_path / "tokenizer.json", tmp_path / "text.txt"
    words = bench.texts["first"].read_text()
    found = []
    for vocabulary, part in ((260, words), (270, words), (270, words[:500])):
        file.write_text(train_bpe([words], vocabulary).text)
        text.write_text(part)
        about = prepare_texts((("a", (text,)),), str(file))["a"].train.about
        found.append((about["fingerprint"], about["sha256"]))
    assert len({fingerprint for fingerprint, _ in found}) == 2
    assert len(set(found)) == 3


def plan(*words: str) -> Comparison:
    what = parse_request("compare", [*words, "--out", "out"])
    return compare.ask(what, compare.parse_options(what)).comparison("test")


def test_commas_in_quotes_and_brackets_do_not_separate_values() -> None:
    variants = plan(
        "continual", "--vary", 'order="2,0,1","0,1,2"', "--vary", "targets=q_proj v_proj,all-linear"
    ).variants
    orders, targets = ("2,0,1", "0,1,2"), (("q_proj", "v_proj"), ("all-linear",))
    assert variants == [{"order": order, "targets": target} for order in orders for target in targets]
    activations = ("swish(beta=2)", "rand_smooth_leaky(c=0.8, p=1)")
    variants = plan("pretrain", "--first", "x", "--vary", f"activation={','.join(activations)}").variants
    assert [variant["activation"] for variant in variants] == list(activations)


def test_variants_survive_writing_and_reading(bench: Any, tmp_path: Path) -> None:
    second = f"second={','.join(map(str, bench.texts.values()))}"
    comparison = plan(*bench.command(Path("out"))[1:-2], "--vary", second, "--vary", "max_grad_norm=None,1")
    create(tmp_path / "out", comparison, 1)
    again = open_comparison(tmp_path / "out").variants
    assert again == comparison.variants
    assert isinstance(again[0]["second"], tuple)
