"""Complete runs of every method: what they log and export, and that they resume bit for bit."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from supple.reports import load
from supple.tracks.language.adapters import adapters, load_adapters
from supple.tracks.language.models import load_model
from supple.tracks.language.presets import METHODS
from supple.tracks.language.report.atom_maps import draw_stored_maps
from tests.tracks.logs import refusal, require_same

pytestmark = pytest.mark.slow

RUNS: dict[str, dict[str, Any]] = {
    **{method: {} for method in METHODS},
    "moram pruned": {"prune": 0.8, "activation_maps": True},
    "external-router pruned": {"prune": 0.8},
}


@pytest.fixture(scope="module")
def finished(trials: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: trials.run(folder / name, name.split()[0], **changes) for name, changes in RUNS.items()}


@pytest.mark.parametrize("name", RUNS)
def test_each_task_leaves_a_row_of_scores_of_all_tasks(trials: Any, finished: dict[str, Path], name: str) -> None:
    lines = trials.log(finished[name], "tasks")
    assert [line["name"] for line in lines] == ["a", "b", "c"]
    assert [len(line["scores"]) for line in lines] == [3, 3, 3]
    assert all(0 <= score <= 1 for line in lines for score in [*line["scores"], line["score"]])
    assert len(lines[0]["before"]) == 3
    assert ["pruned" in line for line in lines] == ["pruned" in name] * 3


@pytest.mark.parametrize("name", RUNS)
def test_a_run_resumes_bit_for_bit_in_the_middle_of_the_third_task(
    trials: Any, finished: dict[str, Path], tmp_path: Path, name: str
) -> None:
    run = shutil.copytree(finished[name], tmp_path / "run")
    last, before = sorted((run / "checkpoints").iterdir(), reverse=True)
    assert int(before.name) == 10  # of tasks of four updates
    shutil.rmtree(last)
    shutil.rmtree(run / "model")
    trials.resume(run)
    require_same(run, finished[name])


@pytest.mark.parametrize("name", [name for name in RUNS if name != "full"])
@pytest.mark.parametrize("file", ["checkpoints/000000000012/state.safetensors", "model/adapters.safetensors"])
def test_checkpoints_and_exported_adapters_do_not_contain_the_frozen_model(
    finished: dict[str, Path], name: str, file: str
) -> None:
    names = list(load_file(finished[name] / file))
    assert any(entry.endswith("frozen_A") for entry in names)
    assert not [entry for entry in names if "embed_tokens" in entry or entry.endswith("linear.weight")]


def test_exported_adapters_and_models_can_be_loaded(trials: Any, finished: dict[str, Path]) -> None:
    work = trials.work()
    model = load_model("llama:32x1").model
    load_adapters(model, finished["moram"] / "model")
    tokens = work.stream.inputs(0, 0)
    assert sum(adapter.atoms for adapter in adapters(model).values()) == 7 * 3 * 2  # layers × tasks × r
    assert model(*tokens).logits.isfinite().all()
    assert load_model(str(finished["full"] / "model")).model(*tokens).logits.isfinite().all()


def test_maps_say_how_much_each_task_uses_each_atom_and_are_drawn(finished: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished["moram pruned"], tmp_path / "run"))
    file = run / "model" / "activation_maps.safetensors"
    maps = load_file(file)
    assert {len(rows) for rows in maps.values()} == {3}
    assert all(0 <= row.min() <= row.sum() <= 1 + 1e-5 for rows in maps.values() for row in rows)
    plot = draw_stored_maps(load(run))
    panels = {axes.get_title(loc="left"): axes for axes in plot.figure.axes if axes.get_title(loc="left")}
    assert panels
    assert all(axes.images[0].get_array().shape == maps[name].shape for name, axes in panels.items())
    assert draw_stored_maps(load(finished["seqlora"])) is None
    save_file(maps, file, {"maps": '{"tasks": [], "atoms": {}}'})
    assert "activation_maps.safetensors: damaged" in refusal(draw_stored_maps, load(run))
