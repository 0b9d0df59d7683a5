"""The model over a sequence of tasks: which weights a task trains, and which stay unchanged."""

import json

import pytest
import torch

from supple.engine.runs import attach_hooks
from supple.tracks.language.adapters import adapters
from supple.tracks.language.continual.atom_mass import Masses
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
    share = masses.prune(lambda: work.model(*inputs))
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
