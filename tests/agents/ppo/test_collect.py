"""Steps that an agent takes in C have the bits of those that it takes in Python."""

from typing import Any

import numpy as np
import pytest

from supple.agents.ppo.settings import PPOSettings
from supple.agents.ppo.work import PPOWork
from supple.envs import ArrayVector
from supple.envs.compiled import is_exact

STEPS = 100  # of a rollout
Arrays = list[np.ndarray]


def rollouts(collects: bool, members: int, **others: Any) -> tuple[list[Arrays], dict[str, Any], int]:
    """Return the arrays of three rollouts, the state of the statistics, and the number of steps that C took."""
    seeds = {"seeds": tuple(range(members)), "stack": members} if members > 1 else {}
    made = {"env": "CartPole-v1", "hidden": (16, 16), "num_envs": 1, **others, **seeds}
    settings = PPOSettings(steps=3 * STEPS * made["num_envs"], rollout_steps=STEPS, minibatch_size=10, **made)
    settings.resolve()
    settings.compile = "on"  # of which this test only needs how agents act
    work = PPOWork(settings)
    work.enter(work.tasks[0])
    work.begin_segment(0, 0)
    envs, agent, taken, found = work._envs, work.agent, 0, []
    assert envs is not None
    while len(found) < 3:
        taken += agent.collect(envs, 1000) if collects and isinstance(envs, ArrayVector) else 0
        agent.remember(envs.step(agent.act()))
        kept = agent.rollout
        if kept.filled == STEPS:
            arrays = kept.observations, kept.outputs, kept.actions, kept.rewards, kept.terminated, kept.truncated
            found.append([array.copy() for array in arrays] + [observations.copy() for _, _, observations in kept.cuts])
            kept.clear()
    state = agent.normalizers.state_dict()
    work.close()
    return found, state, taken


@pytest.mark.parametrize(
    ("members", "others"),
    [
        (1, {}),
        (3, {"num_envs": 2, "max_episode_steps": 15}),
        (1, {"env": "Pendulum-v1", "num_envs": 8}),
        (2, {"env": "Acrobot-v1", "shift": "permute_actions(from_task=0)", "activation": "relu"}),
        (
            3,
            {
                "env": "NineRooms-v0",
                "shift": "goal(from_task=0) + permute(from_task=0)",
                "normalize_observations": False,
            },
        ),
        (2, {"env": "MountainCar-v0", "normalize_rewards": False, "reward_scale": 0.05}),
    ],
)
def test_collected_steps_are_those_of_python_to_the_bit(members: int, others: dict[str, Any]) -> None:
    if not is_exact(others.get("env", "CartPole-v1")):
        pytest.skip("without a compiler, or with other bits of a cosine, there are none")
    (ours, state, taken), (theirs, expected, _) = (rollouts(collects, members, **others) for collects in (True, False))
    assert taken > 50
    np.testing.assert_equal(ours, theirs)
    np.testing.assert_equal(state, expected)


@pytest.mark.parametrize(
    "others", [{"num_envs": 9}, {"activation": "elu"}, {"shift": "noise(from_task=0)"}, {"normalization": "layer"}]
)
def test_what_c_does_not_know_python_does(others: dict[str, Any]) -> None:
    assert rollouts(True, 1, **others)[2] == 0
