"""Arguments that an environment refuses are described in one line, which says what would be right."""

from typing import Any

import pytest

from supple.envs import EnvironmentFault, make_env
from supple.envs.arguments import describe_refusal


@pytest.mark.parametrize(
    ("name", "kwargs", "says"),
    [
        ("CartPole-v1", {"colour": 3}, "CartPole-v1 has no argument 'colour' (it has sutton_barto_reward)"),
        ("CartPole-v1", {"sutton_barto": 3}, "did you mean 'sutton_barto_reward'?"),
        ("Hopper-v5", {"colour": 3}, "Hopper-v5 has no argument 'colour' (it has camera_id, "),  # its base refuses it
        ("Hopper-v5", {"frame_skip": "x"}, 'Hopper-v5: frame_skip should be an integer, but is "x"'),
        ("FrozenLake-v1", {"map_name": "9x9"}, 'FrozenLake-v1 fails with {"map_name": "9x9"}: making it raised KeyErr'),
        (
            "minigrid:DoorKey-5x5",
            {"size": 1},
            'fails with {"size": 1}: making it raised AssertionError',
        ),
    ],
)
def test_what_is_wrong_with_arguments_is_one_line(name: str, kwargs: dict[str, Any], says: str) -> None:
    if name.startswith("minigrid"):
        pytest.importorskip("minigrid")
    with pytest.raises(EnvironmentFault) as fault:
        make_env(name, kwargs=kwargs)
    line = describe_refusal(name, kwargs, fault.value)
    assert says in line
    assert "\n" not in line
    assert "environment creator" not in line
