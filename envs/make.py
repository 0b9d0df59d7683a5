"""Making one environment by name, the way every run of this toolkit sees it.

The stack, innermost first: the registered environment, Gymnasium's order check and time limit, clipping of
actions, the guard against physics explosions. Gymnasium's passive checker, which costs time, is left out.

Terminations are those of the v5 tasks, which are the ones paper 002 (section 7) asks for: a fall ends Hopper
and Walker2d, an unhealthy height ends Ant and Humanoid, and HalfCheetah always runs its 1000 steps.
"""

import difflib
import logging
import math
from typing import Any

import gymnasium as gym

from .guard import ClipActions, Guard

SHORT_NAMES = {
    "halfcheetah": "HalfCheetah-v5",
    "hopper": "Hopper-v5",
    "walker2d": "Walker2d-v5",
    "ant": "Ant-v5",
    "humanoid": "Humanoid-v5",
    "humanoid_standup": "HumanoidStandup-v5",
    "swimmer": "Swimmer-v5",
    "pusher": "Pusher-v5",
    "reacher": "Reacher-v5",
    "inverted_pendulum": "InvertedPendulum-v5",
    "inverted_double_pendulum": "InvertedDoublePendulum-v5",
}

_log = logging.getLogger("supple.envs.mujoco")


def environment_names() -> tuple[str, ...]:
    """The short names, in the order they are shown to people; every registered Gymnasium id works as well."""
    return tuple(SHORT_NAMES)


def resolve_env(name: str) -> str:
    """The Gymnasium id that `name` stands for: a short name in any case (`hopper`), or a registered id.

    Raises ValueError, with the nearest names, for anything else.
    """
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    if name in gym.registry:
        return name
    known = {known.lower(): known for known in (*gym.registry, *SHORT_NAMES)}
    near = difflib.get_close_matches(name.lower(), known, n=3)
    if near:
        hint = f"did you mean {' or '.join(repr(known[match]) for match in near)}?"
    else:
        hint = f"use one of {', '.join(SHORT_NAMES)}, or a registered Gymnasium id"
    raise ValueError(f"unknown environment {name!r}: {hint}")


def make_env(name: str, friction: float = 1.0, clip_actions: bool = True) -> gym.Env:
    """One environment, ready for an agent.

    name: a short name or a Gymnasium id, see `resolve_env`.
    friction: factor on the sliding friction (first column of MuJoCo's `geom_friction`) of every geom;
        torsional and rolling friction stay. The held-out variant of paper 002's generalization gap, which
        gives no factor.
    clip_actions: clip each action to the bounds of the action space before the environment sees it, as
        CleanRL and Stable-Baselines3 do. MuJoCo clips its motors in any case, but the control cost in the
        reward is computed from the action as given: unclipped it grows without bound.

    Raises ValueError for an unknown name, a friction that is not a positive finite number, or a friction
    other than 1 without MuJoCo physics; ImportError where MuJoCo is needed and missing.
    """
    env_id = resolve_env(name)
    if not 0.0 < friction < math.inf:
        raise ValueError(f"friction must be a positive finite factor, got {friction}")
    if "mujoco" in str(gym.spec(env_id).entry_point):
        quiet_mujoco()
    env: gym.Env = gym.make(env_id, disable_env_checker=True)
    if friction != 1.0:
        _scale_friction(env, env_id, friction)
    if clip_actions and isinstance(env.action_space, gym.spaces.Box):
        env = ClipActions(env)
    return Guard(env)


def has_friction(name: str) -> bool:
    """Whether `make_env` can vary the friction of this environment, which it makes once to see."""
    env = make_env(name)
    env.close()
    return hasattr(_model(env), "geom_friction")


def quiet_mujoco() -> None:
    """Send MuJoCo's warnings to the Python logger `supple.envs.mujoco` (level INFO), for the whole process.

    By default MuJoCo prints them to the terminal and appends them to `MUJOCO_LOG.TXT` in the working folder:
    one at every load of HalfCheetah, one for every diverged simulation (which the guard reports in any case).
    A handler installed by the user is left in place. Errors are not touched: they are Python exceptions.
    Raises ImportError, in one line, if MuJoCo is not installed.
    """
    try:
        import mujoco
    except ImportError as error:
        raise ImportError("MuJoCo is not installed: pip install supple[mujoco]") from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_log.info)


def _scale_friction(env: gym.Env, env_id: str, factor: float) -> None:
    model = _model(env)
    if not hasattr(model, "geom_friction"):
        raise ValueError(f"friction={factor} needs MuJoCo physics, and {env_id} has none: leave friction at 1")
    model.geom_friction[:, 0] *= factor


def _model(env: gym.Env) -> Any:
    return getattr(env.unwrapped, "model", None)
