"""When DQN learns, explores and is stacked by default, and runs in which it would learn nothing."""

from importlib.util import find_spec
from typing import Any

import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.sac import SACSettings
from supple.registry.errors import UsageError
from tests.agents.ppo import pictured

CART: dict[str, Any] = {"env": "CartPole-v1"}
TWO: dict[str, Any] = {"cycles": 2, "steps_per_task": 50_000}
GAME = pytest.mark.skipif(not find_spec("ale_py"), reason="needs ale-py")


@pytest.fixture(scope="module", autouse=True)
def _columns() -> None:
    pictured.register()


@pytest.mark.parametrize(
    ("own", "starts", "over"),
    [
        ({**CART, "steps": 100_000}, 1_000, 10_000),
        ({**CART, **TWO}, 1_000, 10_000),
        ({**CART, **TWO, "fresh": True}, 500, 5_000),
        ({"sequence": "CartPole-v1,CartPole-v1", **TWO}, 2_000, 20_000),
        ({**CART, "steps": 800}, 32, 80),
        ({**CART, "steps": 800, "learning_starts": 7, "exploration_steps": 9}, 7, 9),
        pytest.param({"env": "ALE/Asterix-v5", "steps": 100_000}, 20_000, 250_000, marks=GAME),
    ],
)
def test_learning_and_exploration_follow_the_whole_run_of_an_agent(own: Any, starts: int, over: int) -> None:
    settings = DQNSettings(**own)
    settings.resolve()
    if settings.steps:
        settings = settings.lengthen(2 * settings.steps)
        settings.resolve()
    assert (settings.learning_starts, settings.exploration_steps) == (starts, over)


@pytest.mark.parametrize(
    ("kind", "own"),
    [
        (DQNSettings, {**CART, "cycles": 2, "steps_per_task": 1_500, "learning_starts": 3_000}),
        (DQNSettings, {**CART, "cycles": 2, "steps_per_task": 1_500, "learning_starts": 1_500, "fresh": True}),
        (DQNSettings, {**CART, "steps": 1_600, "replay_ratio": 5e-4}),
        (SACSettings, {"env": "Pendulum-v1", "cycles": 2, "steps_per_task": 5_000}),
        pytest.param(DQNSettings, {"env": "ALE/Asterix-v5", **TWO, "steps_per_task": 8_000}, marks=GAME),
    ],
)
def test_a_run_in_which_nothing_would_be_learned_is_refused(kind: Any, own: Any) -> None:
    with pytest.raises(UsageError, match=r"^--learning-starts is [\d]+, but .* it would learn nothing$"):
        kind(**own).check()


def test_a_run_says_that_it_will_explore_to_its_end() -> None:
    assert "ε = 0.60" in (DQNSettings(**CART, steps=2_000, learning_starts=0, exploration_steps=4_950).resolve() or "")
    assert DQNSettings(**CART, steps=2_000, learning_starts=0, exploration_steps=3_960).resolve() is None


@pytest.mark.parametrize(
    ("start", "end", "found"), [(1.0, 0.2, [1.0, 1.0, 0.6, 0.2]), (0.0, 0.5, [0.0, 0.0, 0.25, 0.5])]
)
def test_epsilon_stays_until_learning_starts_and_then_falls_linearly(
    start: float, end: float, found: list[float]
) -> None:
    own: dict[str, Any] = {"learning_starts": 40, "exploration_start": start, "exploration": end}
    settings = DQNSettings(**CART, steps=1_000, exploration_steps=100, **own)
    assert [settings.epsilon_after(steps) for steps in (0, 40, 90, 10_000)] == pytest.approx(found)


@pytest.mark.parametrize(
    ("changes", "together"),
    [
        ({}, True),
        ({"stack": "off"}, False),
        ({"hidden": (1024, 1024)}, False),  # a stack saves nothing
        ({"hidden": (1024, 1024), "stack": 3}, True),
        ({"env": "Column-v0"}, False),  # of convolutions, either
        pytest.param({"env": "ALE/Asterix-v5"}, False, marks=GAME),
    ],
)
def test_seeds_are_stacked_where_that_saves_time(changes: dict[str, Any], together: bool) -> None:
    settings = DQNSettings(**{**CART, "steps": 40_000, "device": "cpu", **changes})
    assert settings.group((0, 1, 2)) == (((0, 1, 2),) if together else ((0,), (1,), (2,)))


def test_stacks_of_atari_games_on_a_cpu_are_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match=r"^--stack 2: on a CPU, .* Atari games are no faster in a stack$"):
        DQNSettings(env="asterix", steps=40_000, device="cpu", stack=2).group((0, 1))
