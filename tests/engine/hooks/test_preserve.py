"""Learners that were given to hooks and taken back: nothing of what attaching did to them is left."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from supple.engine.hooks.preserve import preserve
from supple.engine.kinds import find_kind, settings_with
from supple.engine.runs import attach_hooks, build
from supple.engine.work import Work
from supple.interventions import interventions
from supple.registry.errors import RunError, UsageError

PPO = {"env": "CartPole-v1", "steps": 400, "num_envs": 1, "rollout_steps": 100, "hidden": (8,), "compile": "off"}
SAC = {
    "env": "Pendulum-v1", "steps": 400, "actor_width": 8, "critic_width": 8, "critic_blocks": 1, "replay_size": 100,
    "learning_starts": 10, "batch_size": 8, "device": "cpu", "compile": "off",
}  # fmt: skip
LINEAR = {"tasks": "semantic,reversal", "updates_per_task": 20}
ARGUMENTS = {"swap": "(activation=crelu)", "sib": "@start", "reset": "(what=head)@0.5"}


@pytest.fixture(scope="module", params=[("ppo", PPO), ("sac", SAC), ("linear", LINEAR)], ids=lambda param: param[0])
def work(request: pytest.FixtureRequest) -> Iterator[Work]:
    kind, values = request.param
    made = build(find_kind(kind), settings_with(find_kind(kind), None, values), lambda line: None)
    yield made
    made.close()


def describe(work: Work) -> dict[str, Any]:
    """Return all that can be seen of the learners of a work, with the identities of their parts."""
    seen: dict[str, Any] = {}
    for name, learner in work.learners.items():
        seen[f"{name} attributes"] = {key: id(value) for key, value in vars(learner).items()}
        for i, module in enumerate((learner.module, *learner.followers)):
            seen[f"{name} parts {i}"] = [(key, type(part).__name__, id(part)) for key, part in module.named_modules()]
            seen[f"{name} parameters {i}"] = [(n, id(p), p.requires_grad) for n, p in module.named_parameters()]
            seen[f"{name} values {i}"] = {n: t.clone() for n, t in module.state_dict().items()}
            seen[f"{name} calls {i}"] = [(len(p._forward_hooks), len(p._forward_pre_hooks)) for p in module.modules()]
        if optimizer := learner.optimizer:
            groups = [{**group, "params": [id(p) for p in group["params"]]} for group in optimizer.param_groups]
            seen[f"{name} optimizer"] = str((type(optimizer), groups, len(optimizer.state)))
        seen[f"{name} draws"] = learner.generator.get_state()
    return seen


def assert_same(now: dict[str, Any], before: dict[str, Any]) -> None:
    assert now.keys() == before.keys()
    for name, value in before.items():
        if "values" in name or "draws" in name:
            torch.testing.assert_close(now[name], value, rtol=0, atol=0, msg=name)
        else:
            assert now[name] == value, name


@pytest.mark.parametrize("name", sorted(interventions.entries))
def test_nothing_that_an_intervention_did_when_it_was_attached_is_left(work: Work, name: str) -> None:
    before = describe(work)
    text = name + ARGUMENTS.get(name, "")
    for hook in (text, f"{text}@0.5") if "@" not in text else (text,):
        with preserve(work.learners.values()):
            try:
                driver = attach_hooks(work, (hook,))
                driver.after_steps(-1, 10**6)
            except (UsageError, RunError):  # not for these networks, without such a schedule, or there are no data yet
                continue
    assert_same(describe(work), before)


def ruin(work: Work) -> None:
    with preserve(work.learners.values()):
        for learner in work.learners.values():
            for parameter in learner.trained().values():
                parameter.data.mul_(2)
            learner.followers = (torch.nn.Linear(1, 1),)
        raise ZeroDivisionError


def test_an_exception_leaves_nothing_either(work: Work) -> None:
    before = describe(work)
    with pytest.raises(ZeroDivisionError):
        ruin(work)
    assert_same(describe(work), before)
