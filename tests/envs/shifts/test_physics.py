"""Shifts that change MuJoCo's model."""

import gymnasium as gym
import numpy as np
import pytest

from supple.envs import Shifted, make_env


def parts(env: gym.Env) -> dict[str, np.ndarray]:
    model = env.unwrapped.model
    return {
        "friction": model.geom_friction.copy(),
        "gravity": model.opt.gravity.copy(),
        "actuators": model.actuator_gear.copy(),
    }


@pytest.mark.parametrize("name", ["friction", "gravity", "actuators"])
def test_a_factor_changes_only_its_part_of_the_model_and_is_undone_by_1(name: str) -> None:
    inner = make_env("ant")
    own = parts(inner)
    env = Shifted(inner, f"{name}(low=0.2,high=0.4)", seed=1)
    for task in (1, 2, 0):
        env.task = task
        env.reset(seed=0)
        factor = np.array(env.shifts.values(inner, 1, task)[name]["factor"])
        expected = {key: value.copy() for key, value in own.items()}
        if name == "friction":
            expected["friction"][:, 0] *= factor
        else:
            expected[name] *= factor if name == "gravity" else factor[:, None]
        now = parts(env)
        for key in own:
            np.testing.assert_allclose(now[key], expected[key], rtol=1e-15)
    np.testing.assert_equal(parts(env), own)


def test_a_factor_multiplies_the_friction_that_the_environment_was_made_with() -> None:
    env = make_env("ant", friction=0.5, shifts="friction(low=3,high=3)", task=1)
    env.reset(seed=0)
    np.testing.assert_allclose(env.unwrapped.model.geom_friction[:, 0], 1.5)
