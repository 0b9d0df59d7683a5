"""Agents on earlier and later tasks: the returns of a stream of bandits, whose tasks exchange the arms, are known."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents import returns_by_task
from supple.agents.evaluate import play, uniform
from supple.agents.ppo.work import PPOWork
from supple.agents.returns_by_task import returns_on
from supple.agents.trained import Trained
from supple.agents.work import AgentWork
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.experiments.results import load
from supple.registry.errors import UsageError
from tests.agents.small import lines, settings

pytestmark = pytest.mark.slow

PULLS = 4  # in an episode
TASK = 240  # steps


class Bandit(gym.Env):
    """One arm pays 1, the other 0; a Box of actions pays what lies above 0."""

    def __init__(self, size: int = 2, box: bool = False) -> None:
        self.observation_space = spaces.Box(0, 1, (size,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32) if box else spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.pulls = 0
        return np.ones(self.observation_space.shape, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.pulls += 1
        assert self.action_space.contains(np.asarray(action, self.action_space.dtype)[()])
        return (
            np.ones(self.observation_space.shape, np.float32),
            float(np.max(action) > 0),
            self.pulls == PULLS,
            False,
            {},
        )


@pytest.fixture(scope="module", autouse=True)
def bandits() -> None:
    gym.register("Endless-v0", Bandit)
    for name, kwargs in {"Bandit-v0": {}, "Wide-v0": {"size": 3}, "Box-v0": {"box": True}}.items():
        gym.register(name, Bandit, max_episode_steps=PULLS, kwargs=kwargs)


COMMON: dict[str, Any] = {
    "env": "Bandit-v0", "cycles": 3, "steps_per_task": TASK, "shift": "flip_actions", "eval_episodes": 5,
    "measure_every": 1000, "checkpoint_every": 160, "eval_tasks": "past", "hidden": (8,),
}  # fmt: skip
MEMORY: dict[str, Any] = {"learning_starts": 8, "replay_size": 40, "batch_size": 16}
OWN: dict[str, dict[str, Any]] = {
    "ppo": {
        "epochs": 4, "learning_rate": 0.01, "entropy_coefficient": 0.5, "gamma": 0.0, "normalize_observations": False,
        "adapter": 4,
    },
    "dqn": MEMORY | {
        "learning_rate": 0.03, "gamma": 0.1, "target_period": 4, "exploration": 0.3, "exploration_steps": 10,
        "replay_ratio": 0.5,
    },
    "sac": MEMORY | {"env": "Box-v0", "replay_ratio": 0.1},
}  # fmt: skip


def made(kind: str, **own: Any) -> Any:
    return settings(kind, **COMMON | OWN[kind] | own)


def train(path: Path, kind: str, **own: Any) -> Path:
    prepare(RunSpec(kind, made(kind, **own)), path, lambda line: None).train(lambda step: None)
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`whole(kind, *seeds)` is a run that is evaluated on all tasks or, if it is a stack, on past ones; made once."""

    @cache
    def run(kind: str, *seeds: int) -> Path:
        own: dict[str, Any] = {"seed": seeds[0], "seeds": seeds} if seeds else {"eval_tasks": "all"}
        return train(tmp_path_factory.mktemp("whole") / "run", kind, **own)

    return run


def events(path: Path, *kinds: str) -> list[dict[str, Any]]:
    return [row for row in lines(path, "events") if row["event"] in kinds]


def matrix(path: Path, seed: int = 0) -> list[list[float]]:
    table = load(path).performance().query("seed == @seed").pivot_table("value", "after", "on", dropna=False)
    return np.where(np.isnan(table.to_numpy()), -1, table.to_numpy()).tolist()


@pytest.mark.parametrize("kind", ["ppo", "dqn"])
def test_what_an_agent_forgets_is_known(kind: str, whole: Any) -> None:
    """It has learned the arms of the last task, which are those of every second task."""
    path = whole(kind)
    assert matrix(path) == [[4, 0, 4], [0, 4, 0], [4, 0, 4]]
    assert [(row["step"], row["task"], row["evaluated"]) for row in events(path, "evaluation")] == [
        (TASK * (after + 1), after, on) for after in range(3) for on in range(3)
    ]


def test_members_of_a_stack_have_rows_of_their_own_on_past_tasks(whole: Any) -> None:
    path = whole("ppo", 0, 3)
    for seed in (0, 3):
        assert matrix(path, seed) == [[4, -1, -1], [0, 4, -1], [4, 0, 4]]
    assert [row["seed"] for row in events(path, "evaluation")] == 6 * [0, 3]
    logged = load(path).metrics.query("seed == 3 and step == 480").filter(like="eval/return").dropna(how="all")
    numbers = {"eval/return": 4, "eval/return/0-Bandit-v0": 0, "eval/return/1-Bandit-v0": 4}
    assert logged.dropna(axis=1).to_dict("records") == [numbers]


def test_equal_tasks_are_evaluated_once_and_known_returns_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []

    def noting(policy: Any, env: str, envs: Any, seeds: Any) -> list[list[float]]:
        played.append(len(seeds))
        return play(policy, env, envs, seeds)

    monkeypatch.setattr(returns_by_task, "play", noting)
    work = PPOWork(made("ppo"))
    assert returns_on(work, work.tasks)[0] == returns_on(work, work.tasks[2:])[2]
    assert returns_on(work, work.tasks, {2: [7.0]})[0] == [7.0]
    assert played == [10, 5, 5]  # episodes: on two tasks of which the third is the first, on one, and on the other one


def test_the_returns_of_random_actions_are_logged_before_anything_is_learned(whole: Any) -> None:
    alone, stack = whole("ppo"), whole("ppo", 0, 3)
    found = events(alone, "random")
    assert [(row["step"], row["task"]) for row in found] == [(0, 0), (0, 1), (0, 2)]
    assert events(alone, "random", "evaluation")[:3] == found
    assert all(row["return"] == pytest.approx(PULLS / 2, abs=0.3) for row in found)  # sd .07; of 5 episodes, .45
    assert found[0]["return"] == found[2]["return"]  # the same task
    of_stack = [{k: v for k, v in row.items() if k != "seed"} for row in events(stack, "random") if row["seed"] == 0]
    assert of_stack == found


@pytest.mark.parametrize(("most", "steps", "counted"), [(10, 1_000, 10), (40, 9, 3), (1, 0, 1), (40, 8, 2)])
def test_a_copy_plays_so_many_episodes_or_those_that_begin_within_so_many_steps(
    most: int, steps: int, counted: int
) -> None:
    work = PPOWork(made("ppo"))
    envs = work.envs(work.settings, "Bandit-v0", work.worlds(work.tasks[0], 5))
    played = play(uniform(envs.single_action_space, 5, (0,)), "Bandit-v0", envs, range(5), most, steps)
    assert list(map(len, played)) == 5 * [counted]


@pytest.mark.parametrize("kind", OWN)
def test_training_and_other_numbers_do_not_depend_on_it(kind: str, same: Any, whole: Any, tmp_path: Path) -> None:
    plain, other = train(tmp_path / "run", kind, eval_tasks="current"), whole(kind)
    assert same.last_state(plain) == same.last_state(other)
    assert same.log(plain, "episodes") == same.log(other, "episodes")
    assert not events(plain, "evaluation", "random")
    ends = load(plain).performance()
    assert ends["after"].tolist() == ends["on"].tolist() == [0, 1, 2]
    assert ends["value"].tolist() == load(other).performance().query("after == on")["value"].tolist()


def test_a_run_that_ends_within_or_behind_evaluations_resumes_to_the_same_lines(
    same: Any, whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, reference, calls = tmp_path / "run", whole("dqn"), iter(range(100))  # whose evaluations draw
    prepare(RunSpec("dqn", made("dqn", eval_tasks="all")), path, lambda line: None).close()

    def dying(*played: Any) -> list[list[float]]:
        returns = play(*played)
        if next(calls) in (0, 2, 5):
            raise KeyboardInterrupt
        return returns

    check, checks = AgentWork.check, iter(range(100))

    def dying_behind(work: AgentWork, closely: bool = False) -> None:  # before the checkpoint at the end of a task
        if closely and next(checks) in (1, 5):
            raise KeyboardInterrupt
        check(work, closely)

    monkeypatch.setattr(returns_by_task, "play", dying)
    monkeypatch.setattr(AgentWork, "check", dying_behind)
    deaths = 0
    while True:
        try:
            open_run(path, lambda line: None).train(lambda step: None)
            break
        except KeyboardInterrupt:
            deaths += 1
    assert deaths == 5
    same.assert_runs(path, reference)


def test_every_environment_has_its_own_head_and_statistics(tmp_path: Path) -> None:
    path = train(tmp_path / "run", "ppo", env=None, sequence="Bandit-v0,Wide-v0", cycles=1, shift=None)
    assert matrix(path) == [[4, -1], [4, 4]]  # what the second environment teaches is not forgetting of the first head


def test_a_trained_agent_is_evaluated_on_any_task(whole: Any) -> None:
    agent = Trained(whole("ppo"))
    assert [agent.evaluate(episodes=2, task=i) for i in range(3)] == [[4, 4], [0, 0], [4, 4]]
    with pytest.raises(UsageError, match="there is no task 3"):
        agent.evaluate(task=3)
    with pytest.raises(UsageError, match="task 1 is in Bandit-v0"):
        agent.evaluate("Wide-v0", task=1)


@pytest.mark.parametrize(
    ("own", "chosen"),
    [
        # 5 episodes of 4 steps: on 0 + 1 + 2 past tasks, and random ones on 3; that is 120 steps of 3 × 2,000
        ({"steps_per_task": 2000}, "past"),
        ({"steps_per_task": 1998}, "current"),
        ({"steps_per_task": 1998, "max_episode_steps": 3}, "past"),
        ({"env": "Endless-v0", "steps_per_task": 200_000}, "current"),
        ({"steps_per_task": 2000, "shift": None}, "current"),  # all tasks are the same
        ({"steps_per_task": 2000, "eval_episodes": 0}, "current"),
        ({"eval_tasks": "all", "fresh": True}, "current"),
        # two environments by turns: 0 + 1 + 1 + 1 past tasks, and random ones on 2, that is 100 steps of 4 × 1,250
        ({"env": None, "sequence": "Bandit-v0,Wide-v0", "cycles": 2, "shift": None, "steps_per_task": 1250}, "past"),
        ({"env": None, "sequence": "Bandit-v0,Wide-v0", "cycles": 2, "shift": None, "steps_per_task": 1248}, "current"),
    ],
)
def test_by_default_past_tasks_are_evaluated_where_that_is_cheap(own: dict[str, Any], chosen: str) -> None:
    found = made("ppo", **{"eval_tasks": "auto", **own})
    found.resolve()
    assert found.eval_tasks == chosen


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3), spaces.MultiDiscrete([2, 4]), spaces.MultiBinary(3),
        spaces.Box(np.array([-2, 0], np.float32), np.array([1, 5], np.float32)),
    ],
)  # fmt: skip
def test_random_actions_lie_in_their_space_and_depend_on_the_seed_alone(space: spaces.Space) -> None:
    drawn, alone = uniform(space, 40, (7, 8)), uniform(space, 40, (8,))
    for _ in range(3):
        actions = drawn(np.empty(0))
        assert len(actions) == 80
        assert all(space.contains(action) or space.contains(int(action)) for action in actions)
        np.testing.assert_array_equal(actions[40:], alone(np.empty(0)))
        assert (actions[:40] != actions[40:]).any()


@pytest.mark.parametrize("over", [0, 300])
def test_tasks_side_by_side_have_the_returns_of_each_alone_at_its_end(over: int) -> None:
    """Whether the change is gradual or not, and the copies are stepped in one batch."""
    own = {"env": "CartPole-v1", "num_envs": 8, "max_episode_steps": 40, "steps_per_task": 320}
    settled = made("ppo", shift=f"offset(scale=2,over={over})", **own)
    settled.resolve()
    assert settled.physics == "batched"
    found = []
    for work in (PPOWork(settled), PPOWork(replace(settled, shift="offset(scale=2)"))):
        work.enter(work.tasks[0])
        work.begin_segment(0, 0)
        found += [returns_on(work, work.tasks), {i: returns_on(work, [work.tasks[i]])[i] for i in range(3)}]
    assert all(returns == found[0] for returns in found)
    assert len({values for (values,) in found[0].values()}) > 1
