"""Runs that forget old transitions, or draw them by age or from a reservoir: paused, resumed, forked, refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.engine.hooks.driver import HookDriver
from supple.envs import StepResult
from supple.interventions import parse_hook
from supple.registry.errors import UsageError
from tests.agents.offpolicy.test_experience import dqn, sac
from tests.agents.small import SEEDS, lines, train
from tests.agents.test_runs_stacked import rows

SMALL: dict[str, Any] = {"eval_episodes": 0, "steps_per_task": 120, "checkpoint_every": 60, "measure_every": 60}


def events(run: Path) -> list[dict[str, Any]]:
    return [event for event in lines(run, "events") if event["event"] == "intervention"]


@pytest.mark.parametrize("make", [dqn, sac])
def test_learning_pauses_until_a_batch_is_new_and_leaves_its_steps_out(make: Any) -> None:
    agent = make(learning_starts=4, batch_size=6, priming_updates=3)
    (hook,) = [parse_hook("replay@start")]
    logged: list[dict[str, Any]] = []
    assert hook is not None
    hooks = HookDriver([hook], agent.learners, lambda **event: logged.append(event), 100)
    rng, no = np.random.default_rng(0), np.zeros(2, bool)
    agent.begin_episodes(rng.normal(size=(2, 3)).astype(np.float32))
    made = []
    for number in range(10):
        agent.act()
        obs = rng.normal(size=(2, 3)).astype(np.float32)
        agent.remember(StepResult(obs, rng.normal(size=2), no, no, obs, []))
        agent.experience.updates = 0
        agent.update(hooks, last=False)
        made.append(agent.experience.updates)
        if number == 4:
            hooks.after_steps(-1, 0)
    each = int(2 * agent.settings.replay_ratio)
    assert agent.experience.oldest == agent.experience.forgotten == 10
    assert made == [0, 3, each, each, each, 0, 0, each, each, each]
    assert [(event["before"]["replay/size"], event["after"]["replay/size"]) for event in logged] == [(10.0, 0.0)]
    assert agent.numbers()["replay/size"] == 10.0


def test_priming_waits_for_the_end_of_a_pause() -> None:
    agent = dqn(learning_starts=4, batch_size=6, priming_updates=3)
    agent.experience.resumes = 6
    agent.experience.decisions = 4
    assert list(agent.experience.due()) == []
    assert agent.experience.taken == 0


CASES = {
    "dqn": ("recency(horizon=100,low=.2)", ("replay(keep=0.3)@every:60", "replay@task", "reset(what=head)@task")),
    "sac": ("reservoir", ("replay@task", "critic/replay(keep=0)@every:60")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_member_forgets_as_its_run_alone(name: str, tmp_path: Path) -> None:
    sampling, hooks = CASES[name]
    both = (
        train(name, tmp_path / str(len(seeds)), seeds, **SMALL, hook=hooks[:1], replay_sampling=sampling)
        for seeds in (SEEDS, SEEDS[1:2])
    )
    stack, alone = both
    for ours, own in zip(rows(stack, "metrics", SEEDS[1]), rows(alone, "metrics"), strict=True):
        assert ours["replay/size"] == own["replay/size"]
    ours, own = (events(run)[0]["after"]["replay/size"] for run in (stack, alone))
    assert ours[1] == own


@pytest.mark.parametrize(
    ("name", "own", "says"),
    [
        ("ppo", {"hook": ("replay@task",)}, "replay@task: 'agent' has no replay memory that can forget (supple's"),

        (
            "dqn", {"hook": ("replay(keep=0.01)@task",)},
            "keep=0.01 of --replay-size 300 is less than one batch (8 transitions): raise it, or use keep=0",
        ),
        (
            "dqn", {"hook": ("replay(keep=0.5)@task",), "replay_sampling": "reservoir"},
            "--replay-sampling reservoir does not have the newest transitions: use keep=0",
        ),

    ],
)  # fmt: skip
def test_what_cannot_be_forgotten_is_refused_before_training(
    name: str, own: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as found:
        train(name, tmp_path / "run", SEEDS[:1], **SMALL, **own)
    assert "\n" not in str(found.value)
    assert not (tmp_path / "run/metrics.jsonl").exists()


def test_seeds_of_a_stack_pause_together_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="replay pauses the learning of all seeds of a stack, so it cannot wait for a"):
        train("dqn", tmp_path / "run", SEEDS, **SMALL, hook=("replay@when:q/weight_norm>0",))
