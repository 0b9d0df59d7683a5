"""The observation and action spaces that each agent supports."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.spaces import RowSpace, row_space
from supple.envs import Picture


class Switches(gym.Env):
    observation_space = spaces.MultiBinary(4)
    action_space = spaces.MultiBinary(4)


class Seen(gym.Env):
    """An environment that shows images."""

    observation_space = spaces.Box(0, 255, (10, 10, 3), np.uint8)
    action_space = spaces.Discrete(2)


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    gym.register("Switches-v0", Switches)
    gym.register("Seen-v0", Seen)


@pytest.mark.parametrize(
    ("name", "agent", "found"),
    [
        ("CartPole-v1", "ppo", RowSpace(4, spaces.Discrete(2))),
        ("Blackjack-v1", "ppo", RowSpace(32 + 11 + 2, spaces.Discrete(2))),
        ("Pendulum-v1", "sac", RowSpace(3, spaces.Box(-2, 2, (1,), np.float32))),
        ("Switches-v0", "ppo", RowSpace(4, spaces.MultiBinary(4))),
    ],
)
def test_an_agent_gets_the_length_of_observations_and_the_space_of_actions(
    name: str, agent: str, found: RowSpace
) -> None:
    assert row_space(name, agent) == found


def test_an_agent_of_a_plug_in_says_itself_which_actions_it_supports() -> None:
    found = row_space("CartPole-v1", "mine", actions=(spaces.Discrete,))
    assert found == RowSpace(4, spaces.Discrete(2))
    with pytest.raises(ValueError, match=r"^Switches-v0: mine needs Discrete actions, .*: use ppo$"):
        row_space("Switches-v0", "mine", actions=(spaces.Discrete,))


def test_an_agent_without_convolutions_refuses_images_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^Seen-v0: mine reads no images, .* --observations vector$"):
        row_space("Seen-v0", "mine", actions=(spaces.Discrete,))
    assert row_space("Seen-v0", "mine", actions=(spaces.Discrete,), observations="vector").picture is None
    assert row_space("Seen-v0", "ppo", images=True)[2:] == ("uint8", Picture(3, 10, 10, last=True))
