"""A seed of a stack of classifiers that diverges ends alone."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.experiments.api import compare
from supple.experiments.comparisons.folder import open_comparison
from supple.experiments.history.collect import load
from supple.experiments.sweeps.search import WORST, load_finished, score_runs
from supple.tracks.vision.update import Update

SEEDS, BAD, UPDATE = (5, 6, 7), 6, 7  # the seed that diverges, and the update with which it does
REASON = "the loss is not finite in task 0"


def poison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the network of one seed become NaN."""
    call = Update.__call__

    def poisoned(update: Update, images: Tensor, labels: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        result = call(update, images, labels, rate)
        if update.model.updates == UPDATE:
            with torch.no_grad():
                next(iter(update.model.network.parameters()))[SEEDS.index(BAD)] = torch.nan
        return result

    monkeypatch.setattr(Update, "__call__", poisoned)


HOOKS = [("fire@task", "ewc(samples=16)"), ("cbp(replacement_rate=0.5,maturity=1)",), ("upgd",), ("muon",)]


@pytest.mark.parametrize("hook", HOOKS, ids=str)
def test_the_other_seeds_go_on_as_if_nothing_had_happened(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hook: tuple[str, ...]
) -> None:
    settings = lab.settings(seeds=SEEDS, width=8, checkpoint_every=5, hook=hook)
    told: list[str] = []
    sound, run = tmp_path / "sound", tmp_path / "run"
    prepare(RunSpec("vision", settings), sound).train(lambda _: None)
    poison(monkeypatch)
    prepare(RunSpec("vision", settings), run, told.append).train(lambda _: None)
    (event,) = [line for line in lab.log(run, "events") if line["event"] == "diverged"]
    assert (event["seed"], event["reason"]) == (BAD, REASON)
    assert UPDATE <= event["step"] <= 10
    assert [line for line in told if "seed 6 diverged by step" in line and "the other 2 seeds go on" in line] == told
    for log in ("metrics", "tasks"):
        assert [lab.log(run, log, seed) for seed in (5, 7)] == [lab.log(sound, log, seed) for seed in (5, 7)]
        assert all(line["step"] <= UPDATE for line in lab.log(run, log, BAD))
    for name, value in load_file(run / f"checkpoints/{24:012d}/state.safetensors").items():
        assert "/hooks/" in name or bool(torch.isfinite(value.float()).all()), name


def test_arms_forked_from_a_trunk_with_a_diverged_seed_leave_it_frozen(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch)
    settings = lab.settings(seeds=SEEDS, width=8)
    compare("vision", settings, ["none", "fire"], fork_at_task=1, out=tmp_path / "c", warn=lambda _: None)
    outcomes = [json.loads(file.read_text()) for file in (tmp_path / "c").glob("*/*/outcome.json")]
    diverged = {"6": {"step": 12, "reason": REASON}}
    assert [(each["outcome"], each["diverged"]) for each in outcomes] == [("finished", diverged)] * 3
    trunk, *arms = open_comparison(tmp_path / "c").queue(tmp_path / "c")
    assert trunk.diverged == {"6": f"diverged by step 12: {REASON}"}
    assert score_runs(arms[:1], "test_accuracy")[0] == WORST  # as if the run of this seed alone had failed
    assert [run.seed for run in load_finished(arms[:1])] == [5, 7]
    for runs in load(tmp_path / "c").arms.values():
        assert [run.last_step for run in runs] == [24, 12, 24]
