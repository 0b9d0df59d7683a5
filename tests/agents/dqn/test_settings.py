"""When DQN begins to learn and stops exploring by default, and runs in which it would not."""

from importlib.util import find_spec
from typing import Any

import pytest

from supple.agents.dqn import DQNSettings
from supple.agents.sac import SACSettings
from supple.registry.errors import UsageError

CART: dict[str, Any] = {"env": "CartPole-v1"}
TWO: dict[str, Any] = {"cycles": 2, "steps_per_task": 50_000}
GAME = pytest.mark.skipif(not find_spec("ale_py"), reason="needs ale-py")


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
