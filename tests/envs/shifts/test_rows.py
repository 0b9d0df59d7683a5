"""Shifts of the rows of all copies have the results of each copy's own wrapper, bit for bit."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from supple.envs import Shift, Vector, flatten, make_env, shifts, vectorize
from supple.envs.arrays import ArrayVector
from supple.envs.physics import PhysicsVector
from tests.envs.pairs import COPIES, assert_same, live, pair

SEEDS = [3, 3, 4, 5, 5, 6, 7]  # members with several copies each
OF_VECTORS = ["offset", "rescale", "noise", "permute", "negate_reward", "flip_actions", "permute_actions", "none"]
OF_CELLS = ["goal", "permute", "permute_actions", "flip_actions", "negate_reward", "goal + permute + flip_actions"]


def with_parameters(text: str, parameters: str) -> str:
    """Return shifts with further parameters for each of them."""
    return " + ".join(f"{name}({parameters})" for name in text.split(" + "))


@pytest.mark.parametrize("parameters", ["", "over=600"], ids=["at once", "gradual"])
@pytest.mark.parametrize("text", [*OF_VECTORS, " + ".join(OF_VECTORS)], ids=[*OF_VECTORS, "all"])
def test_shifts_of_cartpole_have_the_results_of_the_wrappers(text: str, parameters: str) -> None:
    world: dict[str, Any] = {"shifts": with_parameters(text, parameters), "task": 1, "seeds": SEEDS}
    assert live(*pair("cartpole", ArrayVector, **world), 120, passed=7) > 3 * COPIES


@pytest.mark.parametrize("parameters", ["", "over=900"], ids=["at once", "gradual"])
@pytest.mark.parametrize("text", OF_CELLS)
def test_shifts_of_the_nine_rooms_have_the_results_of_the_wrappers(text: str, parameters: str) -> None:
    world: dict[str, Any] = {"shifts": with_parameters(text, parameters), "task": 1, "seeds": SEEDS}
    assert live(*pair("ninerooms", ArrayVector, wrap=flatten, max_episode_steps=20, **world), 130, passed=7) > COPIES


def test_actions_of_a_box_are_mirrored_in_the_rows_that_are_shifted() -> None:
    text = "flip_actions(over=900) + rescale + negate_reward(over=900)"
    live(*pair("Pendulum-v1", ArrayVector, shifts=text, task=1, seeds=SEEDS, max_episode_steps=10), 100, passed=9)


@pytest.mark.parametrize(
    "text",
    [
        "direction + flip_actions + permute",
        "direction(over=400) + gravity(over=300) + offset(over=350) + rescale + negate_reward",
    ],
)
@pytest.mark.parametrize("name", ["hopper", "ant", pytest.param("walker2d", marks=pytest.mark.slow)])
def test_shifts_of_physics_have_the_results_of_the_wrappers(name: str, text: str) -> None:
    vectors = pair(name, PhysicsVector, shifts=text, task=1, seeds=SEEDS[:4], max_episode_steps=15)
    assert live(*vectors, 50, passed=10) > 4


def test_an_explosion_has_no_forward_term() -> None:
    singly, together = pair("hopper", PhysicsVector, shifts="direction(from_task=0)", seeds=[0, 0])
    for envs in (singly, together):
        envs.envs[1].unwrapped.data.qvel[:] = np.inf  # type: ignore[attr-defined]
    assert live(singly, together, 5) == 1


def test_a_new_task_takes_effect_with_the_next_episode_of_each_copy() -> None:
    vectors = pair("cartpole", ArrayVector, shifts="offset(over=50) + noise", seeds=SEEDS)
    live(*vectors, 20, passed=3)
    for envs in vectors:
        for copy in envs.envs:
            copy.task = 1  # type: ignore[attr-defined]
    live(*vectors, 150)
    live(*vectors, 40, passed=1)


class Scaled(Shift):
    """A shift of a plug-in."""

    takes_rows = True

    def reward(self, reward: float, info: dict[str, Any]) -> float:
        return 3 * reward

    def rewards(self, rewards: np.ndarray, info: Any) -> np.ndarray:
        return 3 * rewards


class Failing(Scaled):
    takes_rows = True

    def rewards(self, rewards: np.ndarray, info: Any) -> np.ndarray:
        raise OSError("no")


@pytest.fixture
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    more = {"scaled": Scaled, "failing": Failing}
    monkeypatch.setattr(shifts, "_entries", {**shifts.entries, **more})


@pytest.mark.usefixtures("plug_ins")
def test_a_shift_of_a_plug_in_may_take_rows() -> None:
    assert live(*pair("cartpole", ArrayVector, shifts="scaled + negate_reward", task=1), 40) > 0


@pytest.mark.usefixtures("plug_ins")
def test_an_error_of_a_shift_that_takes_rows_is_its_fault() -> None:
    _, together = pair("cartpole", ArrayVector, shifts="failing")
    with pytest.raises(OSError, match="no") as raised:
        together.step(np.zeros(COPIES, np.int64))
    assert "shift failing: " in raised.value.__notes__[0]


def test_steps_before_the_first_reset_count() -> None:
    make = partial(make_env, "cartpole", shifts="offset(over=9) + negate_reward(over=20)", task=1)
    vectors = Vector([make] * 4), vectorize([make] * 4)
    for envs in vectors:
        envs.progress(5)
    assert_same(*(envs.reset(range(4)) for envs in vectors))
    live(*vectors, 60)
