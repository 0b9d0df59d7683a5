"""The settings of continual learning: models, methods and orders, and one-line refusals."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from supple.tracks.language import presets
from supple.tracks.language.adapters import maker
from supple.tracks.language.continual.settings import ContinualSettings
from supple.tracks.language.continual.work import is_image_model
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


def test_tasks_are_learned_in_the_order_that_is_asked_for(trials):
    work = trials.work(order="2,0,1", updates_per_task=None, epochs=(1, 2, 3))
    assert [task.name for task in work.tasks] == ["c", "a", "b"]
    assert [task.steps for task in work.tasks] == [9, 3, 6]  # passes go with tasks, of three updates each
    assert [task.steps for task in trials.work(updates_per_task=None).tasks] == [500] * 3
    assert [task.steps for task in trials.work(updates_per_task=None, epochs=(2,)).tasks] == [6] * 3


@pytest.mark.parametrize("method", [m for m in presets.METHODS if m != "full"])
def test_each_method_has_adapters_with_its_own_parameters(method):
    settings = ContinualSettings(model="m", method=method, r=3, k=2, tau=0.5, delta=None, experts=1, lora_alpha=6.0)
    make = maker(settings.kind, **settings.adapter)
    import torch

    params = make(torch.nn.Linear(4, 4)).params
    assert params["r"] == 3
    parameters = {"k": 2, "tau": 0.5, "delta": None, "alpha": 6.0, "strength": settings.o_lora_strength}
    if method == "moe-lora":
        parameters["k"] = 1
    assert {name: params[name] for name in parameters if name in params} == {
        n: v for n, v in parameters.items() if n in params
    }


def test_targets_are_endings_an_expression_or_all():
    assert ContinualSettings(model="m").layers == "all-linear"
    assert ContinualSettings(model="m", targets=("q_proj",)).layers == ("q_proj",)
    assert ContinualSettings(model="m", targets=("q_proj", "v_proj")).layers == ("q_proj", "v_proj")
    assert ContinualSettings(model="m", targets=("/.*mlp.*/",)).layers == ".*mlp.*"


@pytest.mark.parametrize("preset", [presets.X_TAIL, presets.TRACE, presets.SMALL])
def test_presets_are_settings_that_pass(preset):
    assert set(preset) <= {field.name for field in fields(ContinualSettings)}
    ContinualSettings(model="m", **preset).check()


def test_a_clip_is_known_by_its_name_or_its_folder(tmp_path):
    assert is_image_model("clip:small")
    assert not is_image_model("llama:32x1")
    assert not is_image_model(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    assert is_image_model(str(tmp_path))


@pytest.mark.parametrize("kind", ["clip", "llama"])
def test_the_hub_says_whether_a_model_is_an_image_model(kind, monkeypatch):
    from supple.tracks.language import models

    monkeypatch.setattr(models, "read_from_hub", lambda name, read: SimpleNamespace(model_type=kind))
    assert is_image_model("openai/some-model") == (kind == "clip")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "--model is missing"),
        ({"order": "0,1"}, "each number from 0 to 2 once"),
        ({"order": "first"}, "each number from 0 to 2 once"),
        ({"epochs": (1,)}, "do not go together"),
        ({"updates_per_task": None, "epochs": (1, 2)}, "one for each of 3 tasks"),
        ({"updates_per_task": None, "epochs": (0,)}, "--epochs must be a positive number"),
        ({"r": 0}, "--r must be a positive number"),
        ({"tau": -1.0}, "--tau must be a positive number"),
        ({"delta": 2.0}, "delta must lie in"),
        ({"targets": ()}, "--targets is empty"),
        ({"targets": ("q_projj",)}, "did you mean"),
        ({"prune": 1.5}, "--prune must lie in"),
        ({"prune": 0.99, "method": "seqlora"}, "--prune goes with --method moram"),
        ({"activation_maps": True, "method": "full"}, "--activation-maps goes with"),
        ({"ewc_strength": -1.0}, "--ewc-strength must be 0 or more"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
        ({"tasks": ("nowhere.jsonl",)}, "no such task"),
        ({"model": "llama:7"}, "llama:WIDTHxLAYERS"),
        ({"max_length": 2048}, "more than the context of llama:32x1, 2048 tokens"),
    ],
)
def test_settings_that_cannot_work_are_refused(trials, changes, message):
    assert message in refusal(trials.work, **changes)


def test_a_task_given_twice_is_refused(trials):
    one = trials.settings().tasks[0]
    assert "names one twice" in refusal(trials.work, tasks=(one, one))
