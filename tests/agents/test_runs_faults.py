"""Environments that misbehave: each ends the run in one line that names it, the step and what it did, and the run can
go on when the environment does better."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from supple.agents import evaluate
from supple.agents.ppo import PPOSettings
from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import RunError
from tests.agents.small import lines, settings

pytestmark = pytest.mark.slow

ID = "Wrong-v0"
FAIL_AT = 40  # steps of each of the two copies: a checkpoint lies behind
COMMON: dict[str, Any] = {
    "env": ID, "cycles": 1, "steps_per_task": 100, "checkpoint_every": 40, "measure_every": 100, "eval_episodes": 0,
}  # fmt: skip


class Wrong(gym.Env):
    """An environment with one fault at its step `FAIL_AT`, or in its first reset afterwards."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
    wrong: Callable[..., Any] | None = None
    where = "step"
    discrete = False

    def __init__(self) -> None:
        self.count = 0
        self.action_space = gym.spaces.Discrete(2) if Wrong.discrete else gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        if Wrong.where == "__init__" and Wrong.wrong:
            Wrong.wrong()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        right = self.np_random.uniform(-1, 1, 3).astype(np.float32), {}
        return Wrong.wrong(*right) if Wrong.where == "reset" and Wrong.wrong and self.count >= FAIL_AT else right

    def step(self, action):
        self.count += 1
        right = self.np_random.uniform(-1, 1, 3).astype(np.float32), 1.0, False, self.count % 5 == 0, {}
        return Wrong.wrong(*right) if Wrong.where == "step" and Wrong.wrong and self.count == FAIL_AT else right

    def close(self):
        if Wrong.where == "close" and Wrong.wrong and self.count:
            Wrong.wrong()


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> type[Wrong]:
    monkeypatch.setitem(gym.registry, ID, gym.envs.registration.EnvSpec(ID, Wrong))
    for name in ("wrong", "where", "discrete"):  # put back as they are here
        monkeypatch.setattr(Wrong, name, getattr(Wrong, name))
    return Wrong


def raising(error: BaseException) -> Callable[..., Any]:
    def wrong(*right: Any) -> Any:
        raise error

    return wrong


def giving(**parts: Any) -> Callable[..., Any]:
    """Return a correct result with some parts replaced."""

    def wrong(*right: Any) -> Any:
        names = ("observation", "reward", "terminated", "truncated", "info")
        return tuple((dict(zip(names, right, strict=False)) | parts).values())

    return wrong


FAULTS: dict[str, tuple[str, Callable[..., Any], str]] = {
    "step raises": ("step", raising(ValueError("a\nb")), "step() raised ValueError: a"),
    "reset raises": ("reset", raising(RuntimeError("no")), "reset() raised RuntimeError: no"),
    "close raises": ("close", raising(RuntimeError("stuck")), "close() raised RuntimeError: stuck"),
    "first observation NaN": (
        "reset", giving(observation=np.full(3, np.nan, np.float32)),
        "reset() returned an observation that is not finite",
    ),
    "four values": (
        "step", lambda o, r, t, u, i: (o, r, t, i),
        "step() raised ValueError: not enough values to unpack (expected 5, got 4)",
    ),
}  # fmt: skip


def begin(folder: Path, agent: str, **own: Any) -> Path:
    Wrong.discrete = agent == "dqn"
    more = {"action_repeat": 1} if agent == "sac" else {}
    prepare(RunSpec(agent, settings(agent, **COMMON | more | own)), folder / "run").close()
    return folder / "run"


def go_on(run: Path) -> None:
    open_run(run, lambda line: None).train(lambda step: None)


def steps_of(run: Path) -> list[int]:
    return [row["step"] for row in lines(run, "episodes")]


@pytest.mark.parametrize(
    ("agent", "name"), [*(("ppo", name) for name in FAULTS), ("sac", "step raises"), ("dqn", "step raises")]
)
def test_a_fault_ends_the_run_in_one_line_and_the_run_can_go_on(
    tmp_path: Path, wrong: type[Wrong], agent: str, name: str
) -> None:
    wrong.where, wrong.wrong, message = FAULTS[name]
    run = begin(tmp_path, agent)
    with pytest.raises(RunError) as error:
        go_on(run)
    text = str(error.value)
    assert text.startswith(f"{ID}: ")
    assert text.endswith(message)
    assert "\n" not in text
    wrong.wrong = None
    go_on(run)
    assert max(steps_of(run)) == 100


def test_an_environment_that_cannot_be_made_is_named(tmp_path: Path, wrong: type[Wrong]) -> None:
    wrong.where, wrong.wrong = "__init__", raising(OSError("no port"))
    with pytest.raises(RunError, match=f"^{ID}: making it raised OSError: no port"):
        begin(tmp_path, "ppo")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("agent", "part", "value"), [
    ("ppo", "reward", np.nan), ("dqn", "reward", np.nan), ("sac", "observation", np.full(3, np.inf, np.float32)),
])  # fmt: skip
def test_explosions_are_counted_and_reported(
    tmp_path: Path, wrong: type[Wrong], agent: str, part: str, value: Any
) -> None:
    wrong.wrong = giving(**{part: value})
    run = begin(tmp_path, agent)
    with pytest.warns(UserWarning, match=rf"{ID} after \d+ steps of the run: .*not finite") as said:
        go_on(run)
    assert sum(each.category is UserWarning for each in said) == 1
    explosions = [event for event in lines(run, "events") if event["event"] == "explosion"]
    assert [event["reward"] for event in explosions] == ["nan" if part == "reward" else 1.0] * 2  # each copy once
    ends = [row for row in lines(run, "episodes") if row.get("exploded")]
    assert [(row["step"], row["length"], row["return"]) for row in ends] == [
        (event["step"], 5, 4.0) for event in explosions
    ]
    assert all(math.isfinite(value) for row in lines(run, "metrics") for value in row.values())


def test_a_network_that_diverges_stops_the_run_in_one_line(tmp_path: Path) -> None:
    settings = PPOSettings(env="inverted_pendulum", steps=256, num_envs=2, rollout_steps=32, learning_rate=1e30)
    run = prepare(RunSpec("ppo", settings), tmp_path / "run", lambda line: None)
    with pytest.raises(RunError, match=r"diverged by step \d+: on InvertedPendulum-v5 the loss is not finite; "):
        run.train(lambda step: None)


def test_an_episode_that_never_ends_does_not_hold_up_an_evaluation(
    tmp_path: Path, wrong: type[Wrong], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "LONGEST", 30)
    monkeypatch.setattr(wrong, "step", lambda self, action: (np.zeros(3, np.float32), 0.5, False, False, {}))
    run = begin(tmp_path, "ppo", eval_episodes=2)
    with pytest.warns(UserWarning, match=f"{ID}: 2 of 2 .* 30 decisions .*--max-episode-steps"):
        go_on(run)
    assert [row["eval/return"] for row in lines(run, "metrics") if "eval/return" in row] == [15.0]


def test_the_command_line_shows_the_traceback_of_an_environment_after_one_line(
    tmp_path: Path, wrong: type[Wrong], process: Any
) -> None:
    run, errors = begin(tmp_path, "ppo"), tmp_path / "errors"
    wrong.wrong = raising(OSError(28, "no space"))
    _, status = os.waitpid(process(["resume", str(run)], errors), 0)
    resume, first, second, *_ = said = errors.read_text().splitlines()
    assert f"once that is mended, `supple resume {run}` continues from step 40" in resume
    assert first.startswith(f"supple: after step 40: {ID}: step() raised OSError: [Errno 28]")
    assert second == "Traceback (most recent call last):"
    assert any("test_runs_faults.py" in line for line in said)
    assert os.waitstatus_to_exitcode(status) == 1
