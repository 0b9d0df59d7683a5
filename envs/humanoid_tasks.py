"""HumanoidBench's h1 tasks: their rewards, terminations and random starts.

Lengths are in metres, speeds in m/s. The names of terms are those of the original's info.
"""

import math
from typing import Any

import numpy as np

from .humanoid_bench import STAND_HEIGHT, H1Env, Reward
from .tolerance import tolerance

FLOOR = 0  # the index of its geom in every scene


class Walk(H1Env):
    """walk, run: stand upright and move forward at `speed`. Ends with a fall."""

    lowest = 0.2

    def __init__(self, speed: float, **scene: Any) -> None:
        super().__init__(**scene)
        self._speed = speed

    def reward(self) -> Reward:
        control, stand, move = self.small_control(), self.stand(), self.move(self._speed)
        return control * stand * move, {"small_control": control, "stand": stand, "move": move}


class Stand(H1Env):
    """stand: stand upright and at rest. Ends with a fall."""

    lowest = 0.2

    def reward(self) -> Reward:
        control, stand, still = self.small_control(), self.stand(), self.still()
        return control * stand * still, {"small_control": control, "stand": stand, "still": still}


class Hurdle(H1Env):
    """hurdle: run over hurdles at 5 m/s without touching the walls at the sides and behind. Ends with a fall."""

    lowest = 0.2
    camera = "cam_hurdle"

    def __init__(self, **scene: Any) -> None:
        super().__init__(**scene)
        sides = ("left", "right", "behind")
        self._walls = {self.model.geom(f"{side}_barrier_collision").id for side in sides}

    def reward(self) -> Reward:
        control, stand, move = self.small_control(), self.stand(upright=0.8), self.move(5.0)
        wall = 0.1 if any(a in self._walls or b in self._walls for a, b in self.contacts()) else 1.0
        terms = {"small_control": control, "stand": stand, "move": move, "wall": wall}
        return control * stand * move * wall, terms


class Crawl(H1Env):
    """crawl: crawl through a tunnel on all fours at 1 m/s. Outside of it (|y| > 1) the reward is 0. Never ends."""

    QUATERNION = (0.75, 0.0, 0.65, 0.0)  # of the pelvis when crawling, as in the original, without norm 1

    def look_up(self) -> None:
        super().look_up()
        self._pelvis = self.data.body("pelvis").xquat

    def reward(self) -> Reward:
        control, move = self.small_control(), self.move(1.0)
        _, y, z = self._imu.tolist()
        low = min(tolerance(z, 0.6, 1.0, 1.0), tolerance(float(self._head[2]), 0.6, 1.0, 1.0))
        fours = tolerance(math.dist(self._pelvis.tolist(), self.QUATERNION), 0.0, 0.0, 1.0)
        tunnel = tolerance(y, -1.0, 1.0)
        terms = {"small_control": control, "move": move, "low": low, "on_all_fours": fours, "in_tunnel": tunnel}
        return (0.1 * control + 0.25 * low + 0.4 * move + 0.25 * fours) * tunnel, terms


class Climb(H1Env):
    """stair, slide: walk over stairs or slopes with the head well above both feet. Ends when the torso tips over."""

    def look_up(self) -> None:
        super().look_up()
        self._feet = [self.data.site(f"{side}_foot").xpos for side in ("left", "right")]

    def reward(self) -> Reward:
        over_left, over_right = (tolerance(float(self._head[2] - foot[2]), 1.2, margin=0.45) for foot in self._feet)
        control, stand, move = self.small_control(), over_left * over_right * self.upright(0.5), self.move(1.0)
        return stand * control * move, {"small_control": control, "stand": stand, "move": move}

    def has_ended(self) -> bool:
        return bool(self._upright[0] < 0.1)


class Pole(H1Env):
    """pole: move forward at 0.5 m/s between poles without touching them. Ends with a fall."""

    lowest = 0.5

    def __init__(self, **scene: Any) -> None:
        super().__init__(**scene)
        names = [self.model.geom(i).name for i in range(self.model.ngeom)]
        self._poles = {i for i, name in enumerate(names) if "pole_r" in name}

    def reward(self) -> Reward:
        control, stand, move = self.small_control(), self.stand(), self.move(0.5)
        touched = any(FLOOR not in (a, b) and (a in self._poles or b in self._poles) for a, b in self.contacts())
        pole = 0.1 if touched else 1.0
        terms = {"small_control": control, "stand": stand, "move": move, "pole": pole}
        return (0.5 * (control * stand) + 0.5 * move) * pole, terms


class Maze(H1Env):
    """maze: move from checkpoint to checkpoint at 2 m/s without touching the walls. Ends with a fall.

    `stage` is the number of checkpoints reached in this episode. It increases, by at most one per step, before the
    reward is computed. The reward is then that of the new stage plus a bonus of 100 · stage.
    """

    lowest = 0.2
    camera = "cam_maze"
    CHECKPOINTS = ((0.0, 0.0), (3.0, 0.0), (3.0, 6.0), (6.0, 6.0), (6.0, 6.0))  # the next one, by stage
    VELOCITIES = ((2.0, 0.0), (2.0, 0.0), (0.0, 2.0), (2.0, 0.0))  # target velocity, by stage; none at the last

    def __init__(self, **scene: Any) -> None:
        super().__init__(**scene)
        self._first_wall = self.model.geom("block_collision_00").id
        self.stage = 0

    def look_up(self) -> None:
        super().look_up()
        self._pelvis = self.data.body("pelvis").xpos

    def begin(self) -> None:
        self.stage = 0

    def reward(self) -> Reward:
        control, stand = self.small_control(), self.stand()
        wall = 0.1 if any(max(pair) >= self._first_wall for pair in self.contacts()) else 1.0
        bonus = 0.0
        if self.stage < 4 and self._distance(self._pelvis) < 0.4:
            self.stage += 1
            bonus = 100.0 * self.stage
        move = (5.0 * self._heading() + 1.0) / 6.0
        near = tolerance(self._distance(self._imu), 0.0, 0.0, 1.0)
        terms = {"small_control": control, "stand": stand, "move": move, "near": near, "wall": wall, "bonus": bonus}
        return (0.2 * (stand * control) + 0.4 * move + 0.4 * near) * wall + bonus, terms

    def _distance(self, position: np.ndarray) -> float:
        """Return the horizontal distance to the next checkpoint."""
        return math.dist(position.tolist()[:2], self.CHECKPOINTS[self.stage])

    def _heading(self) -> float:
        if self.stage == 4:
            return 1.0
        (vx, vy, _), (x, y) = self._velocity.tolist(), self.VELOCITIES[self.stage]
        return tolerance(vx, x, x, 1.0, "linear") * tolerance(vy, y, y, 1.0, "linear")


class Sit(H1Env):
    """sit_simple: sit on the chair behind, upright and at rest. Ends when the pelvis is too low."""

    lowest = 0.5

    def look_up(self) -> None:
        super().look_up()
        self._chair = self.data.body("chair").xpos

    def reward(self) -> Reward:
        (x, y, z), (chair_x, chair_y, _) = self.data.qpos[:3].tolist(), self._chair.tolist()
        sitting = tolerance(z, 0.68, 0.72, 0.2)
        on_chair = tolerance(x - chair_x, -0.19, 0.19, 0.2) * tolerance(y - chair_y, 0.0, 0.0, 0.1)
        posture = tolerance(float(self._head[2] - self._imu[2]), 0.35, 0.45, 0.3)
        sit = (0.5 * sitting + 0.5 * on_chair) * self.upright(0.95, margin=0.9) * posture
        control, still = self.small_control(), self.still()
        terms = {"small_control": control, "still": still, "sit": sit, "sitting": sitting, "on_chair": on_chair}
        return control * sit * still, terms


class SitAnywhere(Sit):
    """sit_hard: as sit_simple, but with a chair that can be pushed and a random start position and direction."""

    def begin(self) -> None:
        qpos = self.data.qpos.copy()
        qpos[0], qpos[1], yaw = self.np_random.uniform((0.2, -0.15, -1.8), (0.4, 0.15, 1.8))
        qpos[3:7] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
        self.set_state(qpos, self.data.qvel)


class BalanceOnBoard(H1Env):
    """balance_simple, balance_hard: stand at rest on a board on a sphere, which rolls in balance_hard.

    Ends when the pelvis is too low, when the sphere touches anything but floor and board, or when anything but the
    sphere touches the floor.
    """

    lowest = 0.8

    def __init__(self, **scene: Any) -> None:
        super().__init__(**scene)
        self._sphere = self.model.geom("pivot_sphere_collision").id
        self._board = self.model.geom("stand_board_collision").id

    def reward(self) -> Reward:
        control, stand, still = self.small_control(), self.stand(STAND_HEIGHT + 0.37), self.still()
        return control * stand * still, {"small_control": control, "stand": stand, "still": still}

    def has_ended(self) -> bool:
        return super().has_ended() or any(map(self._forbidden, self.contacts()))

    def _forbidden(self, pair: list[int]) -> bool:
        if self._sphere in pair:
            return FLOOR not in pair and self._board not in pair
        return FLOOR in pair


class Reach(H1Env):
    """reach: move the left hand to `goal`, which is drawn at every reset, upright and slowly. Never ends.

    Observations, (57,): qpos (26), qvel (25), the left hand's position (3), the goal (3).
    """

    def __init__(self, **scene: Any) -> None:
        self.goal = np.zeros(3)  # metres, in the world
        super().__init__(**scene)

    def look_up(self) -> None:
        super().look_up()
        self._pelvis_upright = self.data.body("pelvis").xmat[8:]

    def begin(self) -> None:
        self.goal = self.np_random.uniform((-2.0, -2.0, 0.2), (2.0, 2.0, 2.0))

    def reward(self) -> Reward:
        distance = math.dist(self._hand.tolist(), self.goal)
        upright, motion = 5.0 * float(self._pelvis_upright[0]), float(np.square(self.data.qvel).sum())
        close, success = (5.0 if distance < 1.0 else 0.0), (10.0 if distance < 0.05 else 0.0)
        terms = {"upright": upright, "motion": motion, "close": close, "success": success, "distance": distance}
        return upright - 1e-4 * motion + close + success, terms

    def _get_obs(self) -> np.ndarray:
        return np.concatenate((self.data.qpos, self.data.qvel, self._hand, self.goal))

    def render(self) -> Any:
        if self.render_mode is not None:  # if None, Gymnasium explains what is missing
            viewer = self.mujoco_renderer._get_viewer(self.render_mode)
            viewer.add_marker(pos=self.goal, size=np.full(3, 0.05), rgba=np.array([0.8, 0.3, 0.3, 1.0]))
        return super().render()
