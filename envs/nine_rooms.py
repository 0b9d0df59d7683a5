"""Nine rooms with a hidden goal (Chung et al. 2024, "Parseval Regularization for Continual Reinforcement Learning").

    A B C      15 × 15 cells with walls between the rooms. Every wall has a door in the middle, except those to the left
    D E F      and right of the middle room E, in whose centre all episodes begin.
    G H I

The agent observes its cell, not the goal, which it must find by exploration. Sizes, doors, rewards and possible goals
are those of the released code. `import supple.envs` registers `NineRooms-v0`, with episodes of 100 steps.
"""

from collections import deque
from typing import Any

import gymnasium as gym

SIDE = 15  # cells
ROOM = 5  # cells on each side of a room
GOAL_REWARD = 3.0
STEP_COST = 0.01  # times the distance to the goal in steps
MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right: (rows, columns)
START = SIDE * 7 + 7


def _neighbour(cell: int, action: int) -> int:
    """Return the cell that a move leads to. At a wall, it is the same cell."""
    row, column = divmod(cell, SIDE)
    to_row, to_column = row + MOVES[action][0], column + MOVES[action][1]
    if not (0 <= to_row < SIDE and 0 <= to_column < SIDE):
        return cell
    if to_row // ROOM != row // ROOM and column % ROOM != ROOM // 2:
        return cell
    if to_column // ROOM != column // ROOM and (row % ROOM != ROOM // 2 or row // ROOM == 1):
        return cell
    return SIDE * to_row + to_column


def _may_be_goal(cell: int) -> bool:
    """Return whether a cell is outside the top rooms and the middle room."""
    row, column = cell // SIDE // ROOM, cell % SIDE // ROOM
    return row > 0 and (row, column) != (1, 1)


NEIGHBOURS = tuple(tuple(_neighbour(cell, action) for action in range(4)) for cell in range(SIDE**2))
GOALS = tuple(filter(_may_be_goal, range(SIDE**2)))


def distances(goal: int) -> list[int]:
    """Return the number of steps from each cell to the goal, by breadth-first search."""
    steps = {goal: 0}
    queue = deque([goal])
    while queue:
        cell = queue.popleft()
        for neighbour in NEIGHBOURS[cell]:  # every move can be reversed
            if neighbour not in steps:
                steps[neighbour] = steps[cell] + 1
                queue.append(neighbour)
    return [steps[cell] for cell in range(SIDE**2)]


def cell_rewards(goal: int) -> list[float]:
    """Return the reward of a step from each cell."""
    rewards = [-STEP_COST * steps for steps in distances(goal)]
    rewards[goal] = GOAL_REWARD
    return rewards


class NineRooms(gym.Env):
    """A gridworld of nine rooms. Observations: the cell, 15 · row + column. Actions: up, down, left, right (0 to 3).

    As in the released code, the reward of a step belongs to the cell that it leaves: −0.01 times the distance to the
    goal, and 3 in the goal, where any action ends the episode. The return of a shortest path of d steps is therefore
    3 − 0.005·d·(d + 1).

    Attributes:
        goals: The possible goal cells.
        goal: The current one. Raises ValueError for any other cell.
    """

    observation_space = gym.spaces.Discrete(SIDE**2)
    action_space = gym.spaces.Discrete(4)
    goals = GOALS

    def __init__(self, goal: int = SIDE**2 - 1) -> None:
        self.goal = goal
        self.cell = START

    @property
    def goal(self) -> int:
        return self._goal

    @goal.setter
    def goal(self, goal: int) -> None:
        if goal not in self.goals:
            raise ValueError(f"the goal must be outside the top rooms and the middle room, got cell {goal}")
        self._goal = goal
        self._rewards = cell_rewards(goal)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.cell = START
        return self.cell, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        cell = self.cell
        self.cell = NEIGHBOURS[cell][action]
        return self.cell, self._rewards[cell], cell == self._goal, False, {}


gym.register("NineRooms-v0", f"{__name__}:NineRooms", max_episode_steps=100)
