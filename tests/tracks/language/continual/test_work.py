"""The model over a sequence of tasks: which weights a task trains, and which stay; settings, and tasks of text."""

import json

import pytest
import torch

from supple.engine.runs import attach_hooks
from supple.tracks.language.adapters import adapters, maker, penalty
from supple.tracks.language.chat import IGNORED, collate
from supple.tracks.language.continual.atom_mass import prune_unused
from supple.tracks.language.continual.settings import ContinualSettings
from supple.tracks.language.continual.work import is_image_model
from supple.tracks.language.presets import METHODS, SMALL, TRACE, X_TAIL
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", METHODS)
def test_each_task_is_learned_and_leaves_earlier_atoms_and_the_frozen_model_as_they_were(trials, method):
    work = trials.work(method, updates_per_task=12, batch_size=10, learning_rate=3e-2)
    before = {name: tensor.clone() for name, tensor in work.model.state_dict().items()}
    losses = trials.learn(work, 0)
    assert losses[-1] < 0.99 * losses[0]
    atoms = {name: {bank: a.bank(bank).detach().clone() for bank in a.banks}
             for name, a in adapters(work.model).items() if method not in ("seqlora", "ewc")}  # fmt: skip
    trials.learn(work, 1)
    trials.learn(work, 2)
    for name, banks in atoms.items():
        for bank, rows in banks.items():
            now = work.model.get_submodule(name).bank(bank)
            assert torch.equal(now[: len(rows)], rows)
            assert len(now) == 3 * len(rows)
    now = work.model.state_dict()
    assert all(torch.equal(now[name], before[name]) for name in work.unwritten)
    assert work.unwritten if method != "full" else not any(torch.equal(now[name], before[name]) for name in before)


def test_seqlora_goes_on_with_the_same_atoms_and_a_new_optimizer(trials):
    work = trials.work("seqlora")
    trials.learn(work, 0)
    before = [p for p in work.model.parameters() if p.requires_grad]
    work.enter(work.tasks[1])
    assert all(a is b for a, b in zip(before, (p for p in work.model.parameters() if p.requires_grad), strict=True))
    assert not work.learner.optimizer.state


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
        losses[strength] = [work.loss(work.tasks[0], 0, 0).item()]
        work.enter(work.tasks[1])
        losses[strength].append(work.loss(work.tasks[1], 0, 0).item())
    assert losses[0.0][0] == losses[3.0][0]
    assert losses[3.0][1] - losses[0.0][1] == pytest.approx(penalty(work.model).item(), rel=1e-3)


def test_method_ewc_adds_its_hook_unless_one_is_given(trials):
    work = trials.work("ewc", hook=(), ewc_strength=7.0)
    (hook,) = attach_hooks(work, ()).hooks
    assert (hook.intervention.name, hook.intervention.strength) == ("ewc", 7.0)
    assert trials.work("ewc", hook=("ewc(strength=1)",)).hooks == ()
    assert trials.work("seqlora").hooks == ()


def test_loras_are_balanced_where_the_hook_says(trials, tmp_path):
    run = trials.run(tmp_path / "run", "inclora", hook=("rebalance(lam=-0.5)@6",))
    (event,) = [event for event in trials.log(run, "events") if event["event"] == "intervention"]
    assert event["after"]["lambda_balance"] == pytest.approx(-0.5, abs=1e-5)
    assert event["after"]["lambda_residual"] < 1e-5 < event["before"]["lambda_residual"]


@pytest.mark.parametrize("hook", ["fire@task", "weight_clip"])
def test_hooks_that_rewrite_frozen_weights_are_refused(trials, hook):
    assert "use it with --method full" in refusal(trials.work, "moram", hook=(hook,))
    trials.work("full", hook=(hook,))
    assert "and so does each task" in refusal(trials.work, "full", hook=("muon@task",))  # changes the network


def test_only_what_is_nearly_unused_by_all_tasks_is_pruned(trials):
    work = trials.work("moram", r=4, k=1, tau=0.01)
    inputs = work.stream.inputs(0, 0)
    atoms = sum(adapter.atoms for adapter in adapters(work.model).values())
    masses, share = prune_unused(work.model, 0.9, {}, [inputs])
    assert 0 < share == pytest.approx(1 - sum(adapter.atoms for adapter in adapters(work.model).values()) / atoms)
    for name, mass in masses.items():
        assert len(mass) == work.model.get_submodule(name).atoms
        assert float(mass.sum()) >= 0.9 * inputs[0].numel() * (1 - 1e-6)
    again, _ = prune_unused(work.model, 0.9, masses, [inputs])
    assert all(again[name].sum() > 1.7 * mass.sum() for name, mass in masses.items())  # of both passes


def test_in_bfloat16_the_weights_stay_float32(trials):
    work = trials.work("moram", precision="bfloat16")
    with work.accumulating(0):
        loss = work.loss(work.tasks[0], 0, 0)
    exact = trials.work("moram").loss(work.tasks[0], 0, 0)
    assert {p.dtype for p in work.model.parameters()} == {torch.float32}
    assert 0 < abs(loss.item() - exact.item()) < 0.05


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


@pytest.mark.parametrize("method", [method for method in METHODS if method != "full"])
def test_each_method_has_adapters_with_its_own_parameters(method):
    settings = ContinualSettings(model="m", method=method, r=3, k=2, tau=0.5, delta=None, experts=1, lora_alpha=6.0)
    params = maker(settings.kind, **settings.adapter)(torch.nn.Linear(4, 4)).params
    asked = {"r": 3, "k": 1 if method == "moe-lora" else 2, "tau": 0.5, "delta": None, "alpha": 6.0, "strength": 0.5}
    assert params == {name: asked[name] for name in params}


def test_targets_are_endings_an_expression_or_all():
    assert ContinualSettings(model="m").layers == "all-linear"
    assert ContinualSettings(model="m", targets=("q_proj",)).layers == ("q_proj",)
    assert ContinualSettings(model="m", targets=("q_proj", "v_proj")).layers == ("q_proj", "v_proj")
    assert ContinualSettings(model="m", targets=("/.*mlp.*/",)).layers == ".*mlp.*"


@pytest.mark.parametrize("preset", [X_TAIL, TRACE, SMALL])
def test_presets_are_settings_that_pass(preset):
    ContinualSettings(model="m", **preset).check()


def test_a_clip_is_known_by_its_name_or_its_folder(tmp_path):
    assert is_image_model("clip:small")
    assert not is_image_model("llama:32x1")
    assert not is_image_model(str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    assert is_image_model(str(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": "first"}, "each number from 0 to 2 once"),
        ({"updates_per_task": None, "epochs": (1, 2)}, "one for each of 3 tasks"),
        ({"delta": 2.0}, "delta must lie in"),
        ({"activation_maps": True, "method": "full"}, "--activation-maps goes with"),
        ({"max_length": 2048}, "more than the context of llama:32x1, 2048 tokens"),
    ],
)
def test_settings_that_cannot_work_are_refused(trials, changes, message):
    assert message in refusal(trials.work, **changes)


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
    expected = stream.model(tokens, labels=labels).loss.item()
    assert (labels != IGNORED).sum(1).unique().tolist() == [2]  # a character, and the end of the turn
    assert stream.loss(0, 0).item() == pytest.approx(expected, rel=1e-5)
    assert stream.losses(0, 0).mean().item() == pytest.approx(expected, rel=1e-5)


def test_a_learned_task_is_scored_by_its_answers(trials):
    work = trials.work("full", updates_per_task=40, batch_size=10, learning_rate=1e-2)
    assert work.scores()[1] < 1
    trials.learn(work, 1)
    assert work.scores()[1] == work.stream.score(1, examples=1) == 1.0


def test_questions_of_different_lengths_are_measured_without_padding_and_passed_whole_and_once(trials, tmp_path):
    lines = [json.dumps({"prompt": "?" * (1 + i % 4), "answer": "x" * (1 + i // 4)}) for i in range(10)]
    for split in ("train", "test"):
        (tmp_path / f"d_{split}.jsonl").write_text("\n".join(lines))
    stream = trials.work(tasks=(str(tmp_path / "d_train.jsonl"),)).stream
    (tokens,) = stream.inputs(0, 0)
    assert not (tokens == stream.language_model.pad).any()
    assert len({len(example.ids) for example in stream._rows(0, 0)}) > 1
    seen = [row for (tokens,) in stream.passes(0) for row in tokens.tolist()]
    assert sorted(seen) == sorted(example.ids for example in stream.encoded[0])
