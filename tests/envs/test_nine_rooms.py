"""Nine rooms: its walls and doors, the distance to its goal, rewards, the end of an episode."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from supple.envs import make_env
from supple.envs.nine_rooms import GOALS, NEIGHBOURS, START, NineRooms, distances

UP, DOWN, LEFT, RIGHT = range(4)
# Doors as (row, column) on both sides: those of the paper's figure, none beside the middle room.
DOORS = {
    *(((4, column), (5, column)) for column in (2, 7, 12)),
    *(((9, column), (10, column)) for column in (2, 7, 12)),
    *(((row, 4), (row, 5)) for row in (2, 12)),
    *(((row, 9), (row, 10)) for row in (2, 12)),
}


def room(cell: int) -> tuple[int, int]:
    return cell // 15 // 5, cell % 15 // 5


def test_rooms_are_connected_by_ten_doors_and_no_other_way() -> None:
    moves = {(cell, neighbour) for cell in range(225) for neighbour in NEIGHBOURS[cell] if neighbour != cell}
    assert all((there, here) in moves for here, there in moves)
    assert {
        (divmod(here, 15), divmod(there, 15)) for here, there in moves if room(here) != room(there) and here < there
    } == DOORS
    assert len(moves) == 2 * (9 * 40 + 10)  # within a room of 5 × 5 there are 40 pairs of neighbours


@given(cell=st.integers(0, 224), action=st.integers(0, 3))
def test_a_move_goes_one_cell_in_its_direction_or_nowhere(cell: int, action: int) -> None:
    assert NEIGHBOURS[cell][action] - cell in (0, (-15, 15, -1, 1)[action])


def test_distances_are_those_of_shortest_paths() -> None:
    here, there = np.repeat(np.arange(225), 4), np.ravel(NEIGHBOURS)
    indices = here.astype(np.int32), there.astype(np.int32)  # SciPy 1.13 finds no paths with others
    graph = csr_array((np.ones(900), indices), (225, 225))
    np.testing.assert_array_equal(
        [distances(goal) for goal in GOALS], shortest_path(graph, unweighted=True)[list(GOALS)]
    )


def test_goals_lie_outside_the_top_rooms_and_the_room_of_the_start() -> None:
    assert len(GOALS) == 5 * 25
    assert {room(goal) for goal in GOALS} == {(1, 0), (1, 2), (2, 0), (2, 1), (2, 2)}
    for cell in set(range(225)) - set(GOALS):
        with pytest.raises(ValueError, match=f"outside the top rooms and the middle room, got cell {cell}"):
            NineRooms(goal=cell)


def test_a_shortest_path_to_the_goal_returns_three_less_what_it_costs() -> None:
    env = NineRooms(goal=12 * 15 + 7)
    assert env.reset(seed=0)[0] == START
    seen = [env.step(DOWN) for _ in range(6)]
    assert [step[0] for step in seen[:5]] == [START + 15 * k for k in range(1, 6)]
    np.testing.assert_allclose([step[1] for step in seen], [-0.05, -0.04, -0.03, -0.02, -0.01, 3.0])
    assert [step[2] for step in seen] == [False] * 5 + [True]
    assert sum(step[1] for step in seen) == pytest.approx(3 - 0.005 * 5 * 6)


def test_an_episode_is_cut_off_after_100_steps() -> None:
    env = make_env("ninerooms")
    env.reset(seed=0)
    ends = [env.step(LEFT)[2:4] for _ in range(100)]  # to the wall of the middle room, and against it
    assert ends == [(False, False)] * 99 + [(False, True)]


def test_gymnasiums_checker_finds_no_problem() -> None:
    # raises where something is wrong
    check_env(gym.make("NineRooms-v0", disable_env_checker=True).unwrapped, skip_render_check=True)
