"""HumanoidBench's h1 robot on today's Gymnasium and MuJoCo: what its tasks (humanoid_tasks.py) have in common.

Sferrazza et al. (2024), "HumanoidBench". Written anew from the tasks' definitions; the models are the authors'
own MJCF files (humanoid_assets.py). Same seed, same actions: the observations, rewards and ends of the original
on the same MuJoCo.
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from .humanoid_assets import assets_folder
from .tolerance import quietness, tolerance

try:
    import mujoco
except ImportError as error:
    raise ImportError("HumanoidBench's tasks need MuJoCo: pip install supple[humanoid]") from error
from gymnasium.envs.mujoco import MujocoEnv

STAND_HEIGHT = 1.65  # metres, of the head
NOISE = 0.01  # on every entry of qpos at reset: metres, radians, parts of quaternions
FRAME_SKIP = 10  # of 2 ms: 50 control steps a second


class H1Env(MujocoEnv, ABC):
    """One h1 (no hands) in one of HumanoidBench's scenes; a task adds `reward`, `ended` and what it does at reset.

    scene: which `envs/h1_pos_<scene>.xml` is loaded.
    render_mode: None (no GL context is ever made), "rgb_array", "depth_array", "rgbd_tuple" or "human".
    width, height: of the image, in pixels.

    Actions: (19,) float32 in [−1, 1], mapped linearly to each actuator's range of joint angles (radians).
    Observations: qpos and qvel of the whole model, float64.

    All that a reward sees is what MuJoCo has after the last of the 10 substeps: qpos and qvel are new, what
    is derived from them (positions of sites, contacts, sensors, forces) is one substep (2 ms) old, as in the
    original. The arrays named here are views of MuJoCo's own memory, looked up once.

    Raises FileNotFoundError, in one line, where HumanoidBench's model files are not found.
    """

    metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"], "render_fps": 50}  # noqa: RUF012
    camera = "cam_default"

    def __init__(self, scene: str, render_mode: str | None = None, width: int = 256, height: int = 256) -> None:
        super().__init__(
            str(assets_folder() / "envs" / f"h1_pos_{scene}.xml"),
            FRAME_SKIP,
            observation_space=None,
            render_mode=render_mode,
            width=width,
            height=height,
            camera_name=self.camera,
        )
        self._low, high = self.model.actuator_ctrlrange.T.astype(np.float32)  # so rounded in the original
        self._half = (high - self._low) / 2
        self.action_space = Box(-1.0, 1.0, self._low.shape, np.float32)
        self.look_up()
        self.observation_space = Box(-np.inf, np.inf, self._get_obs().shape, np.float64)

    def look_up(self) -> None:
        """Keep the views of MuJoCo's own memory that rewards and observations read."""
        self._upright = self.data.body("torso_link").xmat[8:]  # z-component of the torso's z-axis
        self._head = self.data.site("head").xpos
        self._hand = self.data.site("left_hand").xpos
        self._imu = self.data.site("imu").xpos
        self._force = self.data.actuator_force  # newton metres
        self._velocity = self.data.sensor("pelvis_subtreelinvel").data  # of the centre of mass, m/s

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.look_up()  # a copied view shows what was, not the copy's memory

    def step(  # type: ignore[override]  # MujocoEnv promises a NumPy scalar as reward; a float serves Python better
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold the action for 20 ms; `info` has the reward's terms by name."""
        action = np.asarray(action)
        if action.shape != self._low.shape:  # a single number would move all joints alike
            raise ValueError(f"an action of h1 has the shape {self._low.shape}, not {action.shape}")
        self.do_simulation((action + 1) * self._half + self._low, self.frame_skip)
        reward, terms = self.reward()
        return self._get_obs(), reward, self.ended(), False, terms

    def reset_model(self) -> np.ndarray:
        mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        mujoco.mj_forward(self.model, self.data)  # twice, as in the original: the solver starts from what it left
        noise = self.np_random.uniform(-NOISE, NOISE, self.model.nq)
        self.set_state(self.data.qpos + noise, self.data.qvel)
        self.begin()
        return self._get_obs()

    def begin(self) -> None:
        """Prepare the task at a reset, after the noise."""

    @abstractmethod
    def reward(self) -> tuple[float, dict[str, float]]:
        """Return the reward of the step that was just taken, and its terms by name."""

    def ended(self) -> bool:
        """Return whether the state that was reached is terminal; the task never ends where this is not overridden."""
        return False

    def _get_obs(self) -> np.ndarray:
        return np.concatenate((self.data.qpos, self.data.qvel))

    def pelvis_height(self) -> float:
        """Return the height of the pelvis in metres."""
        return float(self.data.qpos[2])

    def contacts(self) -> list[list[int]]:
        """Return the pairs of geoms that touch, or are about to. There are few:
        a list is faster than NumPy on an array."""
        return self.data.contact.geom.tolist()

    # The terms that tasks share, each from 0 to 1.

    def small_control(self) -> float:
        return (4.0 + quietness(self._force.tolist(), 10.0)) / 5.0

    def upright(self, least: float, margin: float = 1.9) -> float:
        return tolerance(float(self._upright[0]), least, margin=margin, sigmoid="linear")

    def stand(self, height: float = STAND_HEIGHT, upright: float = 0.9) -> float:
        """Return the term for standing upright. height: of the head, in metres, above which the term is 1."""
        return tolerance(float(self._head[2]), height, margin=STAND_HEIGHT / 4) * self.upright(upright)

    def move(self, speed: float) -> float:
        """Return the term for moving forward. speed: forward (+x), in m/s, above which the term is 1; 1/6 at rest."""
        return (5.0 * tolerance(float(self._velocity[0]), speed, margin=speed, sigmoid="linear") + 1.0) / 6.0

    def still(self) -> float:
        vx, vy, _ = self._velocity.tolist()
        return (tolerance(vx, 0.0, 0.0, margin=2.0) + tolerance(vy, 0.0, 0.0, margin=2.0)) / 2.0
