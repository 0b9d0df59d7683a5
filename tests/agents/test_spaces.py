"""The observation and action spaces that each agent supports."""

import numpy as np
import pytest
from gymnasium import spaces

from supple.agents.spaces import RowSpace, row_space
from supple.envs import Picture
from tests.agents.ppo import pictured


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    pictured.register()


@pytest.mark.parametrize(
    ("name", "agent", "found"),
    [
        ("CartPole-v1", "ppo", RowSpace(4, spaces.Discrete(2))),
        ("Blackjack-v1", "ppo", RowSpace(32 + 11 + 2, spaces.Discrete(2))),
        ("Pendulum-v1", "sac", RowSpace(3, spaces.Box(-2, 2, (1,), np.float32))),
    ],
)
def test_an_agent_gets_the_length_of_observations_and_the_space_of_actions(
    name: str, agent: str, found: RowSpace
) -> None:
    assert row_space(name, agent) == found


def test_an_agent_of_a_plug_in_says_itself_which_actions_it_supports() -> None:
    found = row_space("CartPole-v1", "mine", actions=(spaces.Discrete,))
    assert found == RowSpace(4, spaces.Discrete(2))
    with pytest.raises(ValueError, match=r"^Pendulum-v1: mine needs Discrete actions, .*: use ppo or sac$"):
        row_space("Pendulum-v1", "mine", actions=(spaces.Discrete,))


def test_an_agent_without_convolutions_refuses_images_in_one_line() -> None:
    with pytest.raises(ValueError, match=r"^Column-v0: mine reads no images, .* --observations vector$"):
        row_space("Column-v0", "mine", actions=(spaces.Discrete,))
    assert row_space("Column-v0", "mine", actions=(spaces.Discrete,), observations="vector").picture is None
    assert row_space("Column-v0", "ppo", images=True)[2:] == ("uint8", Picture(2, 6, 6, last=True))
