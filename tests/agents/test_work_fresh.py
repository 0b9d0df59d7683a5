"""A new agent for every task, the reference for plasticity."""

import gc
import weakref
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from torch import Tensor

from supple.agents.work import AgentWork
from supple.engine.spec import read_spec
from supple.engine.storage import checkpoint
from supple.engine.storage.run_directory import CHECKPOINTS
from supple.experiments.api import compare
from supple.experiments.comparisons.folder import read_comparison
from supple.interventions import snapshot
from supple.scripts import compare as compare_script
from tests.agents import small
from tests.agents.small import KINDS, lines

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_figures")]

TASK: dict[str, Any] = {"steps_per_task": 160, "shift": None, "max_episode_steps": 20}


@dataclass
class Made:
    """Two runs of an agent, and what the fresh one had where its tasks began."""

    plain: Path
    fresh: Path
    weights: list[dict[str, Tensor]]


@pytest.fixture(scope="module", params=KINDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    kind: str = request.param
    folder, enter = tmp_path_factory.mktemp("made"), AgentWork.enter
    weights: list[dict[str, Tensor]] = []
    memories: list[weakref.ref] = []  # which are freed before the next agent learns, though nobody comes by to collect

    def noting(work: AgentWork, task: Any) -> None:
        enter(work, task)
        agent: Any = work.agent
        weights.append(
            {f"{name}.{n}": w for name, each in agent.learners.items() for n, w in snapshot(each.module).items()}
        )
        assert not any(slots for learner in agent.learners.values() for slots in learner.optimizer.state.values())
        if kind == "ppo":
            assert agent.normalizers.observations["CartPole-v1"].count < 1
            assert agent.normalizers.rewards["CartPole-v1"].statistics.count < 1
            assert agent.recent.last is None
        else:
            assert agent.experience.decisions == agent.experience.memory.sizes().sum() == 0
            assert not any(memory() for memory in memories)
            memories.append(weakref.ref(agent.experience.memory))
        if kind == "sac":
            assert agent.inputs.statistics["all"].count < 1

    plain = small.train(kind, folder / "plain", cycles=3, **TASK)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AgentWork, "enter", noting)
        gc.disable()
        fresh = small.train(kind, folder / "fresh", cycles=3, fresh=True, **TASK)
        gc.enable()
    return Made(plain, fresh, weights)


def test_the_first_task_is_that_of_any_run(made: Made) -> None:
    for log in ("episodes", "metrics"):
        first = [[timeless(row) for row in lines(run, log) if row["task"] == 0] for run in (made.plain, made.fresh)]
        assert first[0] == first[1]
        later = [[timeless(row) for row in lines(run, log) if row["task"] == 1] for run in (made.plain, made.fresh)]
        assert later[0] != later[1]


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in ("time", "seconds")}


def test_every_task_begins_with_new_weights_and_nothing_learned(made: Made) -> None:
    assert len(made.weights) == 3
    for before, after in pairwise(made.weights):
        drawn = [name for name, value in before.items() if value.ndim > 1 and value.std()]
        assert drawn
        assert not any((before[name] == after[name]).all() for name in drawn)


def test_checkpoints_do_not_mix_the_memories_of_two_agents(tmp_path: Path) -> None:
    """Tasks are told apart by what they show, offsets of about 10,000 and of 0. With states at the ends of tasks alone,
    and no episode cut off, the rows of both memories have the same numbers."""
    own = {"checkpoint_every": 1000, "shift": "offset(scale=10000)", "max_episode_steps": 500}
    run = small.train("dqn", tmp_path / "run", fresh=True, **TASK | own)
    saved = checkpoint.load_newest(run / CHECKPOINTS, read_spec(run).resolved.identity, print)
    assert saved is not None
    memories = saved["work"]["task 1"]["experience"]["memory"]["envs"]
    assert len(memories) == 2  # of two environments
    for memory in memories:
        frames = memory.read(memory.first, memory.end)["frame"]
        assert memory.end > 80
        assert (frames.abs().max(1).values > 1_000).all()


def test_the_return_of_an_untrained_agent_is_logged_once_per_task(made: Made) -> None:
    found = [row for row in lines(made.fresh, "events") if row["event"] == "untrained"]
    assert [row["task"] for row in found] == [0, 1, 2]
    for row in found:
        episodes = [e for e in lines(made.fresh, "episodes") if e["task"] == row["task"] and e["step"] <= row["step"]]
        assert row["episodes"] == len(episodes) > 0
        assert row["return"] == pytest.approx(fmean(episode["return"] for episode in episodes))
        assert row["step"] - 160 * row["task"] >= 40  # the first rollout, or when a memory has enough
    assert not [row for row in lines(made.plain, "events") if row["event"] == "untrained"]


def test_the_reference_is_one_more_arm(here: Any, same: Any, tmp_path: Path) -> None:
    chosen = small.settings("ppo", cycles=3, activation="rand_smooth_leaky", **TASK)
    with here():
        compare("ppo", chosen, ["none", "fire@task"], out=tmp_path / "out", seeds=[0], fork_at=0, reference="fresh")
    arms = tmp_path / "out/seed-0"
    alone = small.train("ppo", tmp_path / "alone", cycles=3, activation="rand_smooth_leaky", fresh=True, **TASK)
    same.assert_runs(arms / "fresh", alone)
    plans = {arm.name: read_spec(arm) for arm in arms.iterdir()}
    assert {name: (plan.settings.fresh, plan.labels.arm) for name, plan in plans.items()} == {
        "fire_task-efebf3": (False, "fire@task"), "fresh": (True, "fresh"), "none": (False, "none"),
    }  # fmt: skip


@pytest.mark.parametrize(("arguments", "arms"), [([], 5), (["--reference", "none"], 4), (["--arm", "none"], 2)])
def test_a_preset_brings_its_reference_unless_none_is_asked_for(
    arguments: list[str], arms: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.scripts.cli.training.finish_queue", lambda *_, **__: None)
    compare_script.main(
        ["ppo", "--preset", "gym-control", *arguments, "--compile", "off", "--out", str(tmp_path / "out")]
    )
    plan = read_comparison(tmp_path / "out")
    assert len(plan.arms) == arms
    assert (plan.arms[-1] == "fresh") == (arguments[:1] != ["--reference"])
    assert plan.fork_step == 0


@pytest.mark.parametrize(("place", "untrained"), [(0.5, [2]), (1 / 3, [1, 2])])
def test_a_forked_reference_begins_with_a_new_agent_in_the_next_task(
    here: Any, tmp_path: Path, place: float, untrained: list[int]
) -> None:
    """Within a task it goes on with the trunk's agent, which is not untrained; where a task begins it is new."""
    chosen = small.settings("ppo", cycles=3, **TASK)
    with here():
        compare("ppo", chosen, ["none"], out=tmp_path / "out", seeds=[0], fork_at=place, reference="fresh")
    events = lines(tmp_path / "out/seed-0/fresh", "events")
    assert [row["task"] for row in events if row["event"] == "untrained"] == untrained
    ends = [
        [row for row in lines(tmp_path / "out/seed-0" / arm, "episodes") if row["task"] == 1]
        for arm in ("none", "fresh")
    ]
    assert (ends[0] == ends[1]) == (untrained == [2])
