"""Make an environment by its name, with the wrappers that all runs use.

The wrappers, innermost first: Gymnasium's order check and time limit, the guard against explosions of physics, the
shifts of a stream's tasks, clipping of actions, the channels and actions that only other environments of a sequence
have. So the guard checks the original rewards, and shifted actions are within bounds. Gymnasium's passive checker is
left out, because it takes time.

Terminations are those of the v5 tasks, as in Lillo & Cheney (2025, arXiv 2509.22562, section 7): a fall ends Hopper and
Walker2d, an unhealthy height ends Ant and Humanoid, and HalfCheetah always runs for 1000 steps.
"""

import copy
import json
import logging
import math
import sys
import warnings
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator

from supple.registry import near_names

from .fault import fault_of
from .flat import flatten
from .guard import ClipActions, Guard
from .h1 import H1_TASKS
from .packaged import WithoutMission, find_packaged, package_hint, shows_mission, squash, successor
from .padding import Padded, United
from .shifts import Shifted, Shifts
from .shifts.physics import model_of

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
    "cartpole": "CartPole-v1",
    "acrobot": "Acrobot-v1",
    "lunarlander": "LunarLander-v3",
    "frozenlake": "FrozenLake-v1",
    "frozenlake2x2": "FrozenLake2x2-v0",
    "ninerooms": "NineRooms-v0",
    **{f"h1-{task}": f"h1-{task}-v0" for task in H1_TASKS},
}

Kwargs = Mapping[str, Any]  # the keyword arguments of an environment
CREATOR = "was raised from the environment creator"
OTHERS = "(games: `supple list games`; your own: --plugin FILE)"

TRIED = 5  # that a copy makes alone, and again beside another one
TRUSTED = ("gymnasium.", "supple.", "ale_py.")  # modules whose environments keep their state to themselves

_log = logging.getLogger("supple.envs.mujoco")


def environment_names() -> tuple[str, ...]:
    """Return the short names of environments in display order. Every registered Gymnasium id works as well."""
    return tuple(SHORT_NAMES)


def resolve_env(name: str) -> str:
    """Return the Gymnasium id for a name: a short name (`hopper`), an Atari game, or a registered id.

    For `module:id` or `file.py:id`, the module must already be imported. It is not imported here, because the name may
    come from a file; but those of `PACKAGED` are: `minatar:breakout`, `minigrid:DoorKey-5x5`. Short names may have any
    case, and games any separators (`beam_rider`, `BeamRider`). Of Atari's ids, only `ALE/<Game>-v5` are supported,
    because the older ones differ in settings that are chosen here. ale-py is only imported for names that nothing else
    matches.

    Raises:
        ValueError: The name is unknown. The message has its successor if it is an old id, the package that it comes
            from if that is known, or the nearest names.
        ImportError: The package that the name belongs to is not installed. For ale-py, the name is `ALE/…` or resembles
            no other name.
    """
    if (packaged := find_packaged(name)) is not None:
        return packaged
    module, colon, env_id = name.rpartition(":")
    if colon:
        if Path(module.removesuffix(".py")).name not in sys.modules:
            hint = package_hint(module) or f"add --plugin {module}"
            raise ValueError(f"environment {name!r}: its module is not loaded: {hint}")
        name = env_id
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    ids = [env_id for env_id, spec in gym.registry.items() if not str(spec.entry_point).startswith("ale_py")]
    if name in ids:
        return name
    if hint := package_hint(name):
        raise ValueError(f"unknown environment {name!r}: {hint}")
    atari = name.lower().startswith("ale/")
    others = {} if atari else {known.lower(): known for known in (*ids, *SHORT_NAMES)}
    try:
        short = games()
    except ImportError as error:
        if atari:
            raise
        if not near_names(name.lower(), others):
            raise ImportError(f"unknown environment {name!r}, and {error}") from error
        short = {}
    known = {squash(known): env_id for known, env_id in short.items()}
    known |= {squash(env_id): env_id for env_id in short.values()}
    if squash(name) in known:
        return known[squash(name)]
    if newer := successor(name, ids, known):
        raise ValueError(f"unknown environment {name!r}: did you mean {newer!r}, its successor? {OTHERS}")
    shown = {env_id.lower(): env_id for env_id in short.values()} if atari else {game: game for game in short} | others
    near = near_names(name.lower(), shown, most=3)
    if near:
        hint = f"did you mean {' or '.join(repr(shown[match]) for match in near)}?"
    else:
        hint = f"use one of {', '.join(SHORT_NAMES)} or a registered Gymnasium id"
    raise ValueError(f"unknown environment {name!r}: {hint} {OTHERS}")


def games() -> dict[str, str]:
    """Return the Atari games of ale-py: short name (the ROM's, `beam_rider`) → id (`ALE/BeamRider-v5`).

    Raises ImportError if ale-py is not installed.
    """
    import_ale()
    specs = [spec for spec in gym.registry.values() if spec.namespace == "ALE" and spec.version == 5]
    return {spec.kwargs["game"]: spec.id for spec in specs if spec.kwargs.get("obs_type") != "ram"}


def import_ale() -> ModuleType:
    """Import and return `ale_py`, which registers its environments, and make it log errors only.

    Otherwise it would print a banner at the first `gym.make`. Raises ImportError if it is not installed. It is an
    optional dependency because it is under the GPL.
    """
    try:
        import ale_py
    except ImportError as error:
        raise ImportError("Atari needs ale-py (GPL-2.0, a separate extra): pip install 'supple[atari]'") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def make_env(
    name: str,
    friction: float = 1.0,
    clip_actions: bool = True,
    *,
    shifts: Shifts | str | None = None,
    seed: int = 0,
    task: int = 0,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    kwargs: Kwargs | None = None,
    united: United | None = None,
) -> gym.Env:
    """Return an environment with the wrappers that agents need.

    Args:
        name: A short name or a Gymnasium id (see `resolve_env`).
        friction: A factor on the sliding friction of every geom (first column of MuJoCo's `geom_friction`). Torsional
            and rolling friction do not change. It makes the held-out variation for the generalization gap of Lillo &
            Cheney, who do not state the factor.
        clip_actions: Clip each action to the bounds of the action space, as CleanRL and Stable-Baselines3 do. MuJoCo
            always clips its motors, but computes the control cost in the reward from the unclipped action.
        shifts: The shifts between the tasks of a stream (see `Shifted`).
        seed: The seed of the shifts' values, not of the episodes.
        task: The index of the task.
        max_episode_steps: Steps after which an episode is truncated. By default, the environment's own limit.
        render_mode: "rgb_array" lets `render` return pictures. By default, the environment renders nothing.
        kwargs: Keyword arguments of the environment. Each environment gets a copy of its own.
        united: The numbers of channels and actions of all environments of a sequence (see `unite`).

    Raises:
        ValueError: The name is unknown or an old id that can no longer be made, the friction is not positive and
            finite, the friction is not 1 but there is no MuJoCo physics, a shift does not fit, or the environment lacks
            the render mode.
        ImportError: MuJoCo, Box2D or another package is needed and not installed.
        EnvironmentFault: The environment cannot be made.
    """
    env_id = resolve_env(name)
    if not 0.0 < friction < math.inf:
        raise ValueError(f"friction must be a positive finite factor, got {friction}")
    simulator = str(gym.spec(env_id).entry_point)
    if "frozen_lake" in simulator and not (kwargs or {}).get("desc") and (kwargs or {}).get("map_name", "") is None:
        raise ValueError(f"{env_id} with map_name null draws another map for each copy: give one as desc")
    if "mujoco" in simulator:
        quiet_mujoco()
    elif "humanoid_tasks" in simulator:
        quiet_mujoco("humanoid")
    if render_mode is not None and not _has_render_mode(env_id, render_mode):
        raise ValueError(f"the environment has no render mode {render_mode!r}")
    env: gym.Env = Guard(_make_registered(env_id, max_episode_steps, render_mode, copy.deepcopy(dict(kwargs or {}))))
    if friction != 1.0:
        if (model := model_of(env)) is None:
            raise ValueError(f"friction={friction} needs MuJoCo physics, but {env_id} has none: use friction=1")
        model.geom_friction[:, 0] *= friction
    if shifts is not None:
        env = Shifted(env, shifts, seed, task)
    if clip_actions and isinstance(env.action_space, gym.spaces.Box):
        env = ClipActions(env)
    return env if united is None else Padded(env, united)


def _make_registered(
    env_id: str, max_episode_steps: int | None, render_mode: str | None, kwargs: dict[str, Any]
) -> gym.Env:
    if render_mode is not None:  # an environment may have no such argument
        kwargs["render_mode"] = render_mode
    newer = successor(env_id, gym.registry, {}) if "mujoco" in str(gym.spec(env_id).entry_point) else None
    try:
        with warnings.catch_warnings():
            if newer:  # of old MuJoCo tasks, Gymnasium makes some and says of others where they have gone
                warnings.simplefilter("ignore")
            env = gym.make(env_id, max_episode_steps=max_episode_steps, disable_env_checker=True, **kwargs)
    except gym.error.DependencyNotInstalled as error:
        if "box2d" in str(gym.spec(env_id).entry_point):
            raise ImportError("Box2D is not installed: pip install 'supple[box2d]'") from error
        raise ImportError(f"{env_id}: {error}") from error
    except ImportError as error:
        if newer:
            raise ValueError(f"{env_id} can no longer be made: its successor is {newer!r}") from error
        raise  # its message already says what to install
    except Exception as error:
        original = error.__cause__ if CREATOR in str(error) else None  # without the text that Gymnasium appends
        cause = original if isinstance(original, Exception) else error
        raise fault_of(env_id, "making it", cause) from cause
    if newer:
        warnings.warn(f"{env_id} is out of date: its successor is {newer}", stacklevel=2)
    return WithoutMission(env) if shows_mission(env) else env


def _has_render_mode(env_id: str, mode: str) -> bool:
    """Return whether an environment has a render mode, or makes no statement about its render modes."""
    entry = gym.spec(env_id).entry_point
    metadata = getattr(load_env_creator(entry) if isinstance(entry, str) else entry, "metadata", None)
    return metadata is None or mode in metadata.get("render_modes", ())


def has_friction(name: str, kwargs: Kwargs | None = None) -> bool:
    """Return whether `make_env` can vary the friction of an environment. The environment is made to find out."""
    env = make_env(name, kwargs=kwargs)
    env.close()
    return model_of(env) is not None


def quiet_mujoco(extra: str = "mujoco") -> None:
    """Send MuJoCo's warnings to the Python logger `supple.envs.mujoco` (level INFO), for the whole process.

    By default, MuJoCo prints them to the terminal and appends them to `MUJOCO_LOG.TXT` in the working folder: one
    whenever HalfCheetah is loaded, and one for every diverged simulation (which the guard reports anyway). A handler
    that the user installed stays in place. Errors are not affected, because they are Python exceptions.
    Raises ImportError, with the `extra` to install, if MuJoCo is not installed.
    """
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(f"MuJoCo is not installed: pip install 'supple[{extra}]'") from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_log.info)


@cache
def copies_interfere(name: str, kwargs: str = "{}") -> bool:
    """Return whether what one copy of an environment does changes what happens in another one, tried once.

    A copy plays a few steps alone, and again while another one plays. Both must be the same. They are not if copies
    have state in common, such as a variable of their module or NumPy's global generator, or if the seed of a reset does
    not determine the episode. Environments of Gymnasium, ALE and this package are not tried.

    Args:
        name: The Gymnasium id of the environment.
        kwargs: Its keyword arguments, as JSON.
    """
    if str(gym.spec(name).entry_point).startswith(TRUSTED):
        return False
    first, second = (flatten(make_env(name, kwargs=json.loads(kwargs))) for _ in range(2))
    with closing(first), closing(second):
        return not all(map(np.array_equal, _play(first), _play(first, second)))


def _play(env: gym.Env, beside: gym.Env | None = None) -> list[Any]:
    """Return what happens in the first steps of an episode, if the other environment plays too."""
    env.action_space.seed(0)
    seen: list[Any] = [env.reset(seed=0)[0]]
    for step in range(TRIED):
        action = env.action_space.sample()
        if beside is not None:
            beside.reset(seed=step + 1)
            beside.step(action)
        observation, reward, terminated, truncated, _ = env.step(action)
        seen += [observation, reward, terminated, truncated]
        if terminated or truncated:
            break
    return seen
