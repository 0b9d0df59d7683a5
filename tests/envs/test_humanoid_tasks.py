"""Rewards and terminations of the h1 tasks against a second computation, in NumPy, from the tasks' definitions."""

import gymnasium as gym
import numpy as np
import pytest

import supple.envs  # noqa: F401  (registers the tasks)
from supple.envs.h1 import H1_TASKS
from supple.envs.humanoid_assets import assets_folder

try:
    assets_folder()
except FileNotFoundError as reason:
    pytest.skip(str(reason), allow_module_level=True)

INF = float("inf")
HEAD = 1.65
# Where to put the robot in the course of an episode, (x, y, z): into walls, poles, checkpoints, onto chairs.
VISITS = {
    "hurdle": [(0.2, 4.2, 0.98)],
    "crawl": [(4.0, 0.0, 0.7), (4.0, 1.3, 2.0)],
    "maze": [(3.0, 0.1, 0.98), (3.0, 6.1, 0.98), (6.1, 6.0, 0.98), (6.0, 6.0, 0.98), (1.5, 1.0, 0.98)],
    "pole": [(0.75, 0.6, 0.98), (1.8, 1.4, 0.98)],
    "sit_simple": [(-0.2, 0.0, 0.8), (-0.15, 0.02, 0.7)],
    "sit_hard": [(-0.2, 0.0, 0.8)],
    "stair": [(2.0, 0.0, 1.5)],
    "slide": [(2.0, 0.0, 1.6)],
}


def t(x, low: float, high: float, margin: float, kind: str = "gaussian"):
    x = np.asarray(x, float)
    d = np.maximum(np.maximum(low - x, x - high), 0)
    if margin == 0:
        return (d == 0).astype(float)
    d = d / margin
    if kind == "gaussian":
        return np.exp(-0.5 * (d * np.sqrt(-2 * np.log(0.1))) ** 2)
    return np.maximum(0, 1 - d) if kind == "linear" else np.maximum(0, 1 - d**2)


class Reference:
    """Follows an environment's MjData from step to step."""

    def __init__(self, task: str, env) -> None:
        self.task, self.env, self.model, self.data = task, env, env.model, env.data
        self.stage = 0
        self.seen: set[object] = set()
        self.names = [env.model.geom(i).name for i in range(env.model.ngeom)]

    def step(self) -> tuple[float, bool]:
        d = self.data
        self.head, self.imu = d.site("head").xpos, d.site("imu").xpos
        self.v = d.sensor("pelvis_subtreelinvel").data
        self.upright_z = d.body("torso_link").xmat.reshape(3, 3)[2, 2]
        self.ctrl = (4 + t(d.actuator_force, 0, 0, 10, "quadratic").mean()) / 5
        self.still = t(self.v[:2], 0, 0, 2).mean()
        self.pairs = [{self.names[a] or str(a), self.names[b] or str(b)} for a, b in d.contact.geom]
        reward = float(getattr(self, self.task.split("_")[0])())
        return reward, self.ended()

    def standing(self, height: float = HEAD, upright: float = 0.9) -> float:
        return t(self.head[2], height, INF, HEAD / 4) * t(self.upright_z, upright, INF, 1.9, "linear")

    def moving(self, speed: float) -> float:
        return (5 * t(self.v[0], speed, INF, speed, "linear") + 1) / 6

    def discount(self, touched: bool) -> float:
        self.seen.add("touched" if touched else "free")
        return 0.1 if touched else 1.0

    def stand(self):
        return self.ctrl * self.standing() * self.still

    def walk(self):
        return self.ctrl * self.standing() * self.moving(1)

    def run(self):
        return self.ctrl * self.standing() * self.moving(5)

    def hurdle(self):
        walls = {f"{side}_barrier_collision" for side in ("left", "right", "behind")}
        touched = any(pair & walls for pair in self.pairs)
        return self.ctrl * self.standing(upright=0.8) * self.moving(5) * self.discount(touched)

    def crawl(self):
        a, b = t(self.imu[2], 0.6, 1.0, 1), t(self.head[2], 0.6, 1.0, 1)
        c = t(np.linalg.norm(self.data.body("pelvis").xquat - [0.75, 0, 0.65, 0]), 0, 0, 1)
        inside = t(self.imu[1], -1, 1, 0)
        return (0.1 * self.ctrl + 0.25 * min(a, b) + 0.4 * self.moving(1) + 0.25 * c) * inside

    def stair(self):
        feet = [self.data.site(f"{side}_foot").xpos[2] for side in ("left", "right")]
        s = np.prod([t(self.head[2] - foot, 1.2, INF, 0.45) for foot in feet])
        return s * t(self.upright_z, 0.5, INF, 1.9, "linear") * self.ctrl * self.moving(1)

    slide = stair

    def pole(self):
        touched = any(any("pole_r" in name for name in pair) and "floor" not in pair for pair in self.pairs)
        return (0.5 * self.ctrl * self.standing() + 0.5 * self.moving(0.5)) * self.discount(touched)

    def maze(self):
        checkpoints = np.array([(0, 0), (3, 0), (3, 6), (6, 6), (6, 6)])
        directions = np.array([(1, 0), (1, 0), (0, 1), (1, 0), (0, 1)])
        bonus = 0
        near = np.linalg.norm(self.data.body("pelvis").xpos[:2] - checkpoints[self.stage]) < 0.4
        if near and self.stage < 4:
            self.stage += 1
            self.seen.add(self.stage)
            bonus = 100 * self.stage
        m = t(self.v[:2] - 2 * directions[self.stage], 0, 0, 1, "linear").prod() if self.stage < 4 else 1
        p = t(np.linalg.norm(self.imu[:2] - checkpoints[self.stage]), 0, 0, 1)
        first = self.names.index("block_collision_00")
        w = self.discount((self.data.contact.geom >= first).any())
        return (0.2 * self.standing() * self.ctrl + 0.4 * (5 * m + 1) / 6 + 0.4 * p) * w + bonus

    def sit(self):
        q, chair = self.data.qpos, self.data.body("chair").xpos
        o = t(q[0] - chair[0], -0.19, 0.19, 0.2) * t(q[1] - chair[1], 0, 0, 0.1)
        sitting = 0.5 * t(q[2], 0.68, 0.72, 0.2) + 0.5 * o
        upright = t(self.upright_z, 0.95, INF, 0.9, "linear")
        return self.ctrl * sitting * upright * t(self.head[2] - self.imu[2], 0.35, 0.45, 0.3) * self.still

    def balance(self):
        return self.ctrl * self.standing(HEAD + 0.37) * self.still

    def reach(self):
        distance = np.linalg.norm(self.data.site("left_hand").xpos - self.env.goal)
        upright = self.data.xmat[1].reshape(3, 3)[2, 2]
        return 5 * upright - 1e-4 * (self.data.qvel[:25] ** 2).sum() + 5 * (distance < 1) + 10 * (distance < 0.05)

    def ended(self) -> bool:
        z = self.data.qpos[2]
        if self.task in ("crawl", "reach"):
            return False
        if self.task in ("stair", "slide"):
            return bool(self.upright_z < 0.1)
        if self.task.startswith("balance"):
            sphere, board = "pivot_sphere_collision", "stand_board_collision"
            for pair in self.pairs:
                if (sphere in pair and not pair & {"floor", board}) or ("floor" in pair and sphere not in pair):
                    return True
            return bool(z < 0.8)
        return bool(z < (0.5 if self.task.startswith(("sit", "pole")) else 0.2))


@pytest.mark.parametrize("task", H1_TASKS)
def test_rewards_and_ends_are_those_of_the_definition(task: str):
    env = gym.make(f"h1-{task}-v0", disable_env_checker=True).unwrapped
    reference = Reference(task, env)
    visits, ends, rewards = VISITS.get(task, []), [], []
    env.action_space.seed(0)
    low, high = env.model.actuator_ctrlrange.T
    pose = (2 * (env.model.key_qpos[0][7:26] - low) / (high - low) - 1).astype(np.float32)
    for seed in (0, 1):
        env.reset(seed=seed)
        reference.stage = 0
        for i in range(75):
            if visits and seed == 0 and i % 10 == 9:
                qpos = env.data.qpos.copy()
                qpos[:3], qpos[3:7] = visits[i // 10 % len(visits)], (1, 0, 0, 0)
                env.set_state(qpos, np.zeros(env.model.nv))
            if task == "reach" and i % 25 == 24:
                env.goal = env.data.site("left_hand").xpos + np.array([0.02, 0.02, 0.02])
            action = env.action_space.sample() if seed else pose
            _, reward, terminated, _, _ = env.step(action)
            expected, ended = reference.step()
            assert reward == pytest.approx(expected, abs=1e-12, rel=1e-12)
            assert terminated is ended
            assert type(reward) is float
            ends.append(ended)
            rewards.append(expected)
    assert np.ptp(rewards) > 0.05
    if task in ("hurdle", "pole", "maze"):
        assert reference.seen >= {"touched", "free"}
    if task == "maze":
        assert reference.seen >= {1, 2, 3, 4}
    if task == "reach":
        assert max(rewards) > 10
    assert any(ends) == (task not in ("crawl", "reach"))


def test_the_terms_in_info_are_the_factors_of_the_reward():
    env = gym.make("h1-walk-v0", disable_env_checker=True)
    env.reset(seed=0)
    _, reward, _, _, info = env.step(np.zeros(19, np.float32))
    assert reward == info["small_control"] * info["stand"] * info["move"]
    assert all(type(value) is float for value in info.values())
