"""Settings of classifiers: impossible ones are refused, all presets work, and every option has an effect."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from supple.engine.kinds import find_kind, presets_of
from supple.engine.runs import build, resolved
from supple.engine.spec import RunSpec, read_spec, start_run
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.settings import VisionSettings
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", presets_of("vision"))
def test_benchmarks_pass_their_own_checks(name: str) -> None:
    settings = VisionSettings(**presets_of("vision")[name].settings)
    settings.check()
    replace(settings, seeds=(3,), hook=("fire@task",)).check()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": float("inf")}, "--epochs must be a finite number, got inf"),
        ({"shocks": (1.5, float("nan"))}, "--shocks must be a finite number"),
        ({"shocks": ()}, "--shocks is empty"),
        ({"warmup": 1.0}, "--warmup must lie in"),
        ({"seed": 2, "seeds": (0, 1)}, "--seed 2 and --seeds 0 1 both say which seeds"),
        ({"seeds": (1, 1)}, "--seeds must be different numbers"),
        ({"seeds": (0, 1), "network": "resnet18"}, "--network resnet18 trains one seed at a time"),
        ({"stream": "chunks", "tasks": 3}, "--shares must be 3 growing numbers"),
        ({"stream": "chunks", "tasks": 2, "shares": (0.5, 0.1)}, "--shares must be 2 growing numbers"),
        ({"stream": "chunks", "tasks": 2, "shares": (0.5, 1.5)}, r"--shares must lie in \(0, 1\]"),
        ({"replay": 10}, "--replay goes with tasks of their own classes"),
        ({"stream": "split", "tasks": 20, "replay": 18}, "--replay 18 holds no image of each of 19 earlier tasks"),
        ({"stream": "split", "images": 10}, "--images goes with permuted pixels and random labels"),
        ({"images_per_class": 10}, "--images-per-class goes with tasks made of classes"),
        ({"first_epochs": 2.0, "updates_per_task": 5}, "--first-epochs goes with --epochs"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    assert re.search(message, refusal(VisionSettings(**changes).check))


OTHER: dict[str, Any] = {
    "stream": "random-labels", "tasks": 3, "images": 40, "epochs": 1.0, "first_epochs": 1.0, "updates_per_task": 5,
    "network": "cnn", "width": 7, "activation": "tanh", "init_lambda": 1.0, "seeds": (1,), "seed": 1,
    "hook": ("l2_init(strength=0.1)",), "batch_size": 12, "learning_rate": 1e-2, "warmup": 0.5, "max_grad_norm": 0.01,
    "fresh_optimizer": True, "standardize": True, "shock_every": 1, "shocks": (3.0,), "eval_every": 5,
    "eval_epochs": 1.0, "keep_best": True, "keep_at": (5,), "measure_every": 5, "curvature": True,
    "trainability_every": 100, "checkpoint_every": 7, "keep_checkpoints": 3, "images_per_class": 6,
    "classes_per_task": 2, "shares": (0.2, 0.4), "replay": 10, "replay_per_task": 2,
}  # fmt: skip
SPLIT = {"stream": "split"}
WITH: dict[str, dict[str, Any]] = {  # what an option belongs to
    "trainability_every": {"tasks": 1}, "images_per_class": SPLIT, "classes_per_task": SPLIT, "replay": SPLIT,
    "replay_per_task": {**SPLIT, "replay": 10}, "shares": {"stream": "chunks"}, "shocks": {"shock_every": 1},
    "keep_best": {"eval_every": 5}, "keep_checkpoints": {"checkpoint_every": 7},
}  # fmt: skip
ELSEWHERE = {"dataset", "data", "compile", "threads", "device", "log_to"}  # what is read, how fast, who is shown it


@pytest.fixture(scope="module")
def plain(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lab.run(tmp_path_factory.mktemp("plain") / "run", width=6)


def results_of(lab: Any, run: Path) -> tuple[Any, ...]:
    """Return what a run logged, and the names of its checkpoints."""
    checkpoints = sorted(str(file.parent.relative_to(run)) for file in run.rglob("state.json"))
    return *(lab.log(run, name) for name in ("metrics", "tasks", "events")), checkpoints


@pytest.mark.parametrize("name", [field.name for field in fields(VisionSettings) if field.name not in ELSEWHERE])
def test_every_option_changes_the_run(lab: Any, tmp_path: Path, plain: Path, name: str) -> None:
    given = {"width": 6, **WITH.get(name, {})}
    run = lab.run(tmp_path / "with", **{**given, name: OTHER[name]})
    if name in WITH:
        plain = lab.run(tmp_path / "without", **given)
    assert results_of(lab, run) != results_of(lab, plain)


def test_a_saved_configuration_has_absolute_paths_and_reads_back_unchanged(
    lab: Any, data: DataSet, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder.parent)
    settings = lab.settings(data=Path(folder.name), seeds=(0, 4), hook=("fire@task",), shares=(0.5, 1.0))
    kind = find_kind("vision")
    start_run(folder.parent / "run", spec := resolved(RunSpec(kind.name, settings), build(kind, settings)))
    assert read_spec(folder.parent / "run") == replace(spec, settings=replace(spec.settings, data=folder))


def test_compilation_is_for_long_runs_of_small_networks(lab: Any) -> None:
    for changes in ({}, {"epochs": 5000.0, "shock_every": 10}, {"epochs": 5000.0, "network": "resnet18", "width": 4}):
        settings = lab.settings(compile="auto", **changes)
        assert build(find_kind("vision"), settings).settings.compile == "off"
