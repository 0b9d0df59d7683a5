"""The model over a sequence of tasks: which weights a task trains, and which stay; settings, and tasks of text."""

import json
from dataclasses import fields
from types import SimpleNamespace

import pytest
import torch

from supple.engine.runs import attach_hooks
from supple.tracks.language import presets
from supple.tracks.language.adapters import adapters, maker
from supple.tracks.language.chat import IGNORED, collate
from supple.tracks.language.continual.atom_mass import Masses
from supple.tracks.language.continual.settings import ContinualSettings
from supple.tracks.language.continual.work import is_image_model
from supple.tracks.language.presets import METHODS
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

ADDING = ("moram", "inclora", "moe-lora", "external-router", "o-lora")


@pytest.mark.parametrize("method", ADDING)
def test_later_tasks_leave_earlier_atoms_and_the_model_as_they_were(trials, method):
    work = trials.work(method)
    plain = {name: tensor.clone() for name, tensor in work.model.state_dict().items() if name in work.unwritten}
    trials.learn(work, 0)
    first = {
        name: {bank: a.bank(bank).detach().clone() for bank in a.banks} for name, a in adapters(work.model).items()
    }
    trials.learn(work, 1)
    trials.learn(work, 2)
    for name, adapter in adapters(work.model).items():
        for bank, rows in first[name].items():
            assert torch.equal(adapter.bank(bank)[: len(rows)], rows)
            assert len(adapter.bank(bank)) == 3 * len(rows)
    now = work.model.state_dict()
    assert all(torch.equal(now[name], tensor) for name, tensor in plain.items())


def test_seqlora_goes_on_with_the_same_atoms_and_a_new_optimizer(trials):
    work = trials.work("seqlora")
    trials.learn(work, 0)
    before = [p for p in work.model.parameters() if p.requires_grad]
    optimizer = work.learner.optimizer
    work.enter(work.tasks[1])
    assert [p for p in work.model.parameters() if p.requires_grad] == before
    assert work.learner.optimizer is not optimizer
    assert not work.learner.optimizer.state


def test_method_full_trains_every_weight(trials):
    work = trials.work("full")
    before = {name: p.detach().clone() for name, p in work.model.named_parameters()}
    trials.learn(work, 0)
    assert all(not torch.equal(p, before[name]) for name, p in work.model.named_parameters())
    assert not work.unwritten


@pytest.mark.parametrize("method", METHODS)
def test_the_loss_of_a_task_falls(trials, method):
    work = trials.work(method, updates_per_task=12, batch_size=10, learning_rate=3e-2)
    losses = trials.learn(work, 0)
    assert losses[-1] < 0.99 * losses[0]


def test_the_learner_knows_the_initial_values_of_new_atoms(trials):
    work = trials.work()
    old = dict(work.learner.initial)
    trials.learn(work, 0)
    work.enter(work.tasks[1])
    learner = work.learner
    assert list(learner.initial) == [name for name, _ in learner.module.named_parameters()]
    for name, p in learner.module.named_parameters():
        assert torch.equal(learner.initial[name], p)
        assert (learner.identity(name) != name) == p.requires_grad
        assert torch.equal(learner.initial[name], old[name]) == (not name.endswith(".A"))  # a B begins at 0


def test_the_penalty_of_o_lora_is_in_its_loss_from_the_second_task_on(trials):
    losses = {}
    for strength in (0.0, 3.0):
        work = trials.work("o-lora", o_lora_strength=strength)
        first = float(work.loss(work.tasks[0], 0, 0).detach())
        work.enter(work.tasks[1])
        losses[strength] = first, float(work.loss(work.tasks[1], 0, 0).detach())
    assert losses[0.0][0] == losses[3.0][0]
    penalty = sum(3.0 * float((a.frozen_A @ a.A.detach().T).square().sum()) for a in adapters(work.model).values())
    assert losses[3.0][1] - losses[0.0][1] == pytest.approx(penalty, rel=1e-3)


def test_method_ewc_adds_its_hook_unless_one_is_given(trials):
    work = trials.work("ewc", hook=(), ewc_strength=7.0)
    (hook,) = attach_hooks(work, ()).hooks
    assert (hook.intervention.name, hook.intervention.strength) == ("ewc", 7.0)
    assert trials.work("ewc", hook=("ewc(strength=1)",)).hooks == ()
    assert trials.work("seqlora").hooks == ()


@pytest.mark.parametrize("method", ["inclora", "seqlora"])
def test_loras_are_balanced_where_the_hook_says(trials, tmp_path, method):
    run = trials.run(tmp_path / "run", method, hook=("rebalance(lam=-0.5)@6",))
    (event,) = [event for event in trials.log(run, "events") if event["event"] == "intervention"]
    assert event["after"]["lambda_balance"] == pytest.approx(-0.5, abs=1e-5)
    assert event["after"]["lambda_residual"] < 1e-5 < event["before"]["lambda_residual"]
    assert event["after"]["gradient_norm"] > 0
    assert event["change"]["feature_covariance_distance"] < 1e-5


def test_routed_adapters_and_a_fresh_lora_cannot_be_balanced(trials, tmp_path):
    refused = refusal(trials.run, tmp_path / "routed", "moram", hook=("rebalance@task",))
    assert "'model' has no two consecutive linear maps" in refused
    # B is zero, so A would have to be zero at λ = 0 too, and the gradients of both would vanish
    assert "is zero, so lam=0" in refusal(trials.run, tmp_path / "fresh", "seqlora", hook=("rebalance@start",))


@pytest.mark.parametrize("hook", ["fire@task", "weight_clip", "redo@every:2", "snp@0.5"])
def test_hooks_that_rewrite_frozen_weights_are_refused(trials, hook):
    assert "use it with --method full" in refusal(trials.work, "moram", hook=(hook,))
    trials.work("full", hook=(hook,))
    assert "and so does each task" in refusal(trials.work, "full", hook=("muon@task",))  # changes the network


def test_only_what_is_nearly_unused_by_all_tasks_is_pruned(trials):
    work = trials.work("moram", r=4, k=1, tau=0.01)
    masses = Masses(work.model, 0.9)
    inputs = work.stream.inputs(0, 0)
    atoms = {name: adapter.A.detach().clone() for name, adapter in adapters(work.model).items()}
    share = masses.prune([inputs])
    kept = {name: adapter.A for name, adapter in adapters(work.model).items()}
    assert 0 < share == pytest.approx(1 - sum(map(len, kept.values())) / sum(map(len, atoms.values())))
    for name, total in masses.total.items():
        assert len(total) == len(kept[name])
        rows = [(kept[name] == row).all(1).any() for row in atoms[name]]
        assert sum(rows) == len(kept[name])
        assert float(total.sum()) >= 0.9 * inputs[0].numel() * (1 - 1e-6)


def test_in_bfloat16_the_weights_stay_float32(trials):
    work = trials.work("moram", precision="bfloat16")
    with work.accumulating(0):
        loss = work.loss(work.tasks[0], 0, 0)
    loss.backward()
    exact = trials.work("moram").loss(work.tasks[0], 0, 0)
    assert {p.dtype for p in work.model.parameters()} == {torch.float32}
    assert 0 < abs(float(loss.detach() - exact.detach())) < 0.05


def test_a_run_continues_when_pruning_removes_a_whole_task(trials, tmp_path):
    trials.run(tmp_path / "run", "moram", prune=0.01, r=4, k=1, tau=0.01, targets=("v_proj",))
    assert len(trials.log(tmp_path / "run", "tasks")) == 3
    (layer,) = json.loads((tmp_path / "run" / "model" / "adapters.json").read_text())["layers"].values()
    assert sum(layer["atoms"]) == 1
    assert 0 in layer["atoms"][1:]  # a later task has left nothing


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
