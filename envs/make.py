"""Making one environment by name, the way every run of this toolkit sees it.

The stack, innermost first: the registered environment, Gymnasium's order check and time limit, the guard against
physics explosions, the shifts of a stream's tasks, clipping of actions. So the guard judges the rewards that the
physics gave, and shifted actions are within bounds. Gymnasium's passive checker, which costs time, is left out.

Terminations are those of the v5 tasks, which are the ones of Lillo & Cheney (2025, arXiv 2509.22562, section 7): a fall
ends Hopper and Walker2d, an unhealthy height ends Ant and Humanoid, and HalfCheetah always runs its 1000 steps.
"""

import logging
import math
import re
import sys
from types import ModuleType

import gymnasium as gym

from ..registry import near_names
from .fault import BLAMED, EnvironmentFault, raised
from .guard import ClipActions, Guard
from .h1 import H1_TASKS
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

_log = logging.getLogger("supple.envs.mujoco")


def environment_names() -> tuple[str, ...]:
    """Return the short names, in the order they are shown to people; every registered Gymnasium id works as well."""
    return tuple(SHORT_NAMES)


def resolve_env(name: str) -> str:
    """Return the Gymnasium id that `name` stands for: a short name (`hopper`), an Atari game, or a registered id.

    `module:id` is the id alone, once that module was imported, which is not done here: the name may come out of a file.
    Short names may be written in any case, games also with or without separators (`beam_rider`, `BeamRider`).
    Of Atari's many ids only `ALE/<Game>-v5` count: the older ones differ in settings that are made here.
    ale-py is imported only for a name that is nothing else.

    Raises ValueError, with the nearest names, for anything else; ImportError, while ale-py is missing, for
    `ALE/…` and for a name that is near no other, since only ale-py knows which games there are.
    """
    module, colon, own = name.rpartition(":")
    if colon:
        if module not in sys.modules:
            raise ValueError(f"environment {name!r}: its module has to be named, --plugin {module}")
        name = own
    if name.lower() in SHORT_NAMES:
        return SHORT_NAMES[name.lower()]
    ids = _ids_but_atari()
    if name in ids:
        return name
    atari = name.lower().startswith("ale/")
    others = {} if atari else {known.lower(): known for known in (*ids, *SHORT_NAMES)}
    try:
        short = games()
    except ImportError as error:
        if atari:
            raise
        if not near_names(name.lower(), others):
            raise ImportError(f"no environment {name!r} is known here, and {error}") from error
        short = {}
    known = {_squash(known): env_id for known, env_id in short.items()}
    known |= {_squash(env_id): env_id for env_id in short.values()}
    if _squash(name) in known:
        return known[_squash(name)]
    shown = {env_id.lower(): env_id for env_id in short.values()} if atari else {game: game for game in short} | others
    near = near_names(name.lower(), shown, most=3)
    if near:
        hint = f"did you mean {' or '.join(repr(shown[match]) for match in near)}?"
    else:
        hint = f"use one of {', '.join(SHORT_NAMES)}, or a registered Gymnasium id"
    raise ValueError(f"unknown environment {name!r}: {hint} (Atari games: `supple list games`)")


def games() -> dict[str, str]:
    """Return the Atari games that ale-py brings: short name (the ROM's, `beam_rider`) → id (`ALE/BeamRider-v5`).

    Raises ImportError, in one line, if ale-py is not installed.
    """
    ale()
    specs = [spec for spec in gym.registry.values() if spec.namespace == "ALE" and spec.version == 5]
    return {spec.kwargs["game"]: spec.id for spec in specs if spec.kwargs.get("obs_type") != "ram"}


def ale() -> ModuleType:
    """Return the module `ale_py`, which registers its environments when it is imported, and then keeps quiet.

    It prints a banner at the first `gym.make`, unless told before to report errors only.
    Raises ImportError, in one line, if it is not installed: it is under the GPL, so not among the dependencies.
    """
    try:
        import ale_py
    except ImportError as error:
        raise ImportError("Atari needs ale-py (GPL-2.0, an extra of its own): pip install supple[atari]") from error
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    return ale_py


def _ids_but_atari() -> list[str]:
    return [env_id for env_id, spec in gym.registry.items() if not str(spec.entry_point).startswith("ale_py")]


def _squash(name: str) -> str:
    return re.sub("[^a-z0-9]", "", name.lower())


def make_env(
    name: str,
    friction: float = 1.0,
    clip_actions: bool = True,
    *,
    shifts: Shifts | str | None = None,
    seed: int = 0,
    task: int = 0,
    max_episode_steps: int | None = None,
) -> gym.Env:
    """Return one environment, ready for an agent.

    name: a short name or a Gymnasium id, see `resolve_env`.
    friction: factor on the sliding friction (first column of MuJoCo's `geom_friction`) of every geom;
        torsional and rolling friction stay. The held-out variant of Lillo & Cheney's generalization gap, which
        gives no factor.
    clip_actions: clip each action to the bounds of the action space before the environment sees it, as
        CleanRL and Stable-Baselines3 do. MuJoCo clips its motors in any case, but the control cost in the
        reward is computed from the action as given: unclipped it grows without bound.
    shifts, seed, task: what changes between the tasks of a stream, the seed of what is drawn for them (not of the
        episodes), and the task: see `Shifted`.
    max_episode_steps: steps after which an episode is truncated; None: the environment's own limit.

    Raises ValueError for an unknown name, a friction that is not a positive finite number, a friction other than 1
    without MuJoCo physics, a shift that does not fit, or a limit below 1; ImportError where MuJoCo or Box2D is
    needed and missing; EnvironmentFault where the environment itself cannot be made.
    """
    env_id = resolve_env(name)
    if not 0.0 < friction < math.inf:
        raise ValueError(f"friction must be a positive finite factor, got {friction}")
    if max_episode_steps is not None and max_episode_steps < 1:
        raise ValueError(f"max_episode_steps must be at least 1, got {max_episode_steps}")
    simulator = str(gym.spec(env_id).entry_point)
    if "mujoco" in simulator:
        quiet_mujoco()
    elif "humanoid_tasks" in simulator:
        quiet_mujoco("humanoid")
    env: gym.Env = Guard(_registered(env_id, max_episode_steps))
    if friction != 1.0:
        _scale_friction(env, env_id, friction)
    if shifts is not None:
        try:
            env = Shifted(env, shifts, seed, task)
        except ValueError:
            env.close()
            raise
    return ClipActions(env) if clip_actions and isinstance(env.action_space, gym.spaces.Box) else env


def _registered(env_id: str, max_episode_steps: int | None) -> gym.Env:
    try:
        return gym.make(env_id, max_episode_steps=max_episode_steps, disable_env_checker=True)
    except gym.error.DependencyNotInstalled as error:
        if "box2d" in str(gym.spec(env_id).entry_point):
            raise ImportError("Box2D is not installed: pip install supple[box2d]") from error
        raise ImportError(f"{env_id}: {error}") from error
    except ImportError:  # one line already, which says what to install
        raise
    except BLAMED as error:
        raise EnvironmentFault(env_id, raised("making it", error)) from error


def has_friction(name: str) -> bool:
    """Return whether `make_env` can vary the friction of this environment, which it makes once to see."""
    env = make_env(name)
    env.close()
    return model_of(env) is not None


def quiet_mujoco(extra: str = "mujoco") -> None:
    """Send MuJoCo's warnings to the Python logger `supple.envs.mujoco` (level INFO), for the whole process.

    By default MuJoCo prints them to the terminal and appends them to `MUJOCO_LOG.TXT` in the working folder:
    one at every load of HalfCheetah, one for every diverged simulation (which the guard reports in any case).
    A handler installed by the user is left in place. Errors are not touched: they are Python exceptions.
    Raises ImportError, in one line that names the `extra` to install, if MuJoCo is not installed.
    """
    try:
        import mujoco
    except ImportError as error:
        raise ImportError(f"MuJoCo is not installed: pip install supple[{extra}]") from error
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(_log.info)


def _scale_friction(env: gym.Env, env_id: str, factor: float) -> None:
    model = model_of(env)
    if model is None:
        raise ValueError(f"friction={factor} needs MuJoCo physics, and {env_id} has none: leave friction at 1")
    model.geom_friction[:, 0] *= factor
