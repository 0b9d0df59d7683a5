"""HumanoidBench's h1 robot for current Gymnasium and MuJoCo: the base class of its tasks (humanoid_tasks.py).

Sferrazza et al. (2024), "HumanoidBench". This is a new implementation of the tasks' definitions. The models are the
authors' own MJCF files (humanoid_assets.py). With the same seed, actions and version of MuJoCo, observations, rewards
and terminations equal the original's.
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
    raise ImportError("HumanoidBench's tasks need MuJoCo: pip install 'supple[humanoid]'") from error
from gymnasium.envs.mujoco import MujocoEnv

Reward = tuple[float, dict[str, float]]  # and its terms by name
STAND_HEIGHT = 1.65  # height of the head in metres
NOISE = 0.01  # added to every entry of qpos at reset: metres, radians, parts of quaternions
FRAME_SKIP = 10  # substeps of 2 ms: 50 control steps per second


class H1Env(MujocoEnv, ABC):
    """An h1 robot (without hands) in one of HumanoidBench's scenes. A task adds `reward`, `has_ended` and `begin`.

    Actions: (19,) float32 in [−1, 1], mapped linearly to each actuator's range of joint angles (radians).
    Observations: qpos and qvel of the whole model, float64.

    Rewards are computed from MuJoCo's state after the last of the 10 substeps. As in the original, qpos and qvel are
    new, but derived quantities (positions of sites, contacts, sensors, forces) are one substep (2 ms) old. The arrays
    are views of MuJoCo's memory, which are looked up once.

    Args:
        scene: Loads `envs/h1_pos_<scene>.xml`.
        render_mode: None (no GL context is created), "rgb_array", "depth_array", "rgbd_tuple" or "human".
        width: Width of the image in pixels.
        height: Height of the image in pixels.

    Raises:
        FileNotFoundError: HumanoidBench's model files are not found.
    """

    metadata = {"render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"], "render_fps": 50}  # noqa: RUF012
    camera = "cam_default"
    lowest = -np.inf  # height of the pelvis, in metres, below which an episode ends

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
        self._low, high = self.model.actuator_ctrlrange.T.astype(np.float32)  # rounded as in the original
        self._half = (high - self._low) / 2
        self.action_space = Box(-1.0, 1.0, self._low.shape, np.float32)
        self.look_up()
        self.observation_space = Box(-np.inf, np.inf, self._get_obs().shape, np.float64)

    def look_up(self) -> None:
        """Look up the views of MuJoCo's memory that rewards and observations read."""
        self._upright = self.data.body("torso_link").xmat[8:]  # z-component of the torso's z-axis
        self._head = self.data.site("head").xpos
        self._hand = self.data.site("left_hand").xpos
        self._imu = self.data.site("imu").xpos
        self._force = self.data.actuator_force  # newton metres
        self._velocity = self.data.sensor("pelvis_subtreelinvel").data  # of the centre of mass, m/s

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.look_up()  # a copied view does not show the memory of the copied simulation

    def step(  # type: ignore[override]  # MujocoEnv declares a NumPy scalar as reward, this returns a float
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Hold the action for 20 ms. `info` contains the terms of the reward."""
        action = np.asarray(action)
        if action.shape != self._low.shape:  # a single number would move all joints alike
            raise ValueError(f"actions of h1 must have shape {self._low.shape}, got {action.shape}")
        self.do_simulation((action + 1) * self._half + self._low, self.frame_skip)
        reward, terms = self.reward()
        return self._get_obs(), reward, self.has_ended(), False, terms

    def reset_model(self) -> np.ndarray:
        mujoco.mj_resetDataKeyframe(self.model, self.data, 0)
        mujoco.mj_forward(self.model, self.data)  # twice, as in the original: it sets the solver's warm start
        noise = self.np_random.uniform(-NOISE, NOISE, self.model.nq)
        self.set_state(self.data.qpos + noise, self.data.qvel)
        self.begin()
        return self._get_obs()

    def begin(self) -> None:
        """Prepare the task at a reset, after the noise was added."""

    @abstractmethod
    def reward(self) -> Reward:
        """Return the reward of the last step, and its terms by name."""

    def has_ended(self) -> bool:
        """Return whether the current state is terminal: by default, whether the pelvis is below `lowest`."""
        return float(self.data.qpos[2]) < self.lowest

    def _get_obs(self) -> np.ndarray:
        return np.concatenate((self.data.qpos, self.data.qvel))

    def contacts(self) -> list[list[int]]:
        """Return the pairs of geoms in contact or nearly so. They are few, so a list is faster than an array."""
        return self.data.contact.geom.tolist()

    # Terms that several tasks use, each from 0 to 1.

    def small_control(self) -> float:
        return (4.0 + quietness(self._force.tolist(), 10.0)) / 5.0

    def upright(self, least: float, margin: float = 1.9) -> float:
        return tolerance(float(self._upright[0]), least, margin=margin, sigmoid="linear")

    def stand(self, height: float = STAND_HEIGHT, upright: float = 0.9) -> float:
        """Return the term for standing upright. height: the height of the head, in metres, from which it is 1."""
        return tolerance(float(self._head[2]), height, margin=STAND_HEIGHT / 4) * self.upright(upright)

    def move(self, speed: float) -> float:
        """Return the term for moving forward, 1/6 at rest. speed: in direction +x, in m/s, from which it is 1."""
        return (5.0 * tolerance(float(self._velocity[0]), speed, margin=speed, sigmoid="linear") + 1.0) / 6.0

    def still(self) -> float:
        vx, vy, _ = self._velocity.tolist()
        return (tolerance(vx, 0.0, 0.0, margin=2.0) + tolerance(vy, 0.0, 0.0, margin=2.0)) / 2.0
