"""Environments without an agent: copies one by one, together, and in processes of their own; the physics alone."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, cycle, product
from typing import Any

import numpy as np
import subjects
from entries import Asked, Turn, Turns
from of_agents import live
from timing import seconds

from supple.envs import (
    Envs,
    EnvWorkers,
    Vector,
    WorkerVector,
    flatten,
    make_env,
    make_pixels,
    resolve_env,
    vectorize,
)
from supple.envs.physics_tasks import TASKS

COPIES = 8
Step = Callable[[np.ndarray], object]


def physics(asked: Asked) -> Turns:
    """Return turns that step eight copies of each MuJoCo task.

    The floor is `mj_step` alone, in this thread. Beside it is MuJoCo's own `rollout`, the same arithmetic on states
    that are passed in, which does not return the warm start of the constraint solver.
    """
    steps, envs = (5, list(TASKS)[:2]) if asked.small else (25, list(TASKS))
    makers: dict[str, Callable[[str], Step]] = {
        "one by one": lambda env: stepping(Vector([lambda: make_env(env)] * COPIES)),
        "floor: mj_step": mj_step,
        "rollout": lambda env: rollout(env, asked.threads),
        "together": lambda env: stepping(vectorize([lambda: make_env(env)] * COPIES, threads=asked.threads)),
    }

    def turns(maker: Callable[[str], Step]) -> Turn:
        made = {env: (maker(env), actions_of(env, steps)) for env in envs}

        def one(env: str) -> float:
            step, rows = made[env]
            return 1e6 * seconds(lambda: [step(row) for row in rows]) / steps / COPIES

        return lambda: {env: one(env) for env in envs}

    return {name: turns(maker) for name, maker in makers.items()}


def actions_of(env: str, steps: int) -> np.ndarray:
    space: Any = make_env(env).action_space
    shape = (steps, COPIES, *space.shape)
    return np.random.default_rng(0).uniform(space.low, space.high, shape).astype(np.float32)


def stepping(envs: Vector) -> Step:
    envs.reset(range(envs.num_envs))
    return envs.step


def mj_step(env: str) -> Step:
    """Return the floor; episodes begin anew after 100 steps, as they do elsewhere sooner or later."""
    import mujoco

    made: list[Any] = [make_env(env).unwrapped for _ in range(COPIES)]
    number = count()

    def step(actions: np.ndarray) -> None:
        if (now := next(number)) % 100 == 0:
            for one in made:
                one.reset(seed=now)
        for one, action in zip(made, actions, strict=True):
            one.data.ctrl[:] = action
            mujoco.mj_step(one.model, one.data, one.frame_skip)

    return step


def rollout(env: str, threads: int) -> Step:
    """Return MuJoCo's `rollout` of one control step, from the states that the step before led to."""
    import mujoco
    from mujoco.rollout import Rollout

    made: list[Any] = [make_env(env).unwrapped for _ in range(COPIES)]
    models = [one.model for one in made]
    workers = [mujoco.MjData(models[0]) for _ in range(threads)]
    pool = Rollout(nthread=0 if threads == 1 else threads)
    full, model, substeps = mujoco.mjtState.mjSTATE_FULLPHYSICS, models[0], made[0].frame_skip
    state, warm = np.empty((COPIES, mujoco.mj_stateSize(model, full))), np.zeros((COPIES, model.nv))
    states, controls = np.empty((COPIES, substeps, state.shape[1])), np.empty((COPIES, substeps, model.nu))
    number = count()

    def step(actions: np.ndarray) -> None:
        if (now := next(number)) % 100 == 0:
            for one, row in zip(made, state, strict=True):
                one.reset(seed=now)
                mujoco.mj_getState(one.model, one.data, row, full)
        controls[:] = actions[:, None]
        pool.rollout(
            models, workers, state, controls, skip_checks=True, nstep=substeps, initial_warmstart=warm, state=states,
            chunk_size=-(-COPIES // threads),
        )  # fmt: skip
        state[:] = states[:, -1]

    return step


def classic(asked: Asked) -> Turns:
    """Return turns that step 8, 40 and 80 copies of classic control, of ten seeds whose shifts differ."""
    steps, sizes = (5, (8,)) if asked.small else (100, (8, 40, 80))
    envs = ("CartPole-v1", "Acrobot-v1", "Pendulum-v1")

    def turns(batched: bool) -> Turn:
        made: dict[str, Callable[[], float]] = {}
        for env, copies in product(envs, sizes):
            makes = [partial(make_env, env, shifts="offset(from_task=0)", seed=10 * i // copies) for i in range(copies)]
            vector = vectorize(makes, batched=batched)
            vector.reset(range(copies))
            space = vector.single_action_space
            space.seed(0)
            rows = [np.stack([space.sample() for _ in range(copies)]) for _ in range(steps)]
            made[f"{env}, {copies}"] = partial(step_all, vector, rows)
        return lambda: {name: one() for name, one in made.items()}

    return {"one by one": turns(False), "together": turns(True)}


def step_all(envs: Vector, rows: list[np.ndarray]) -> float:
    """Return the microseconds of CPU of a step of all copies."""
    return 1e6 * seconds(lambda: [envs.step(row) for row in rows], time.process_time) / len(rows)


def physics_ppo(asked: Asked) -> Turns:
    """PyTorch has one thread, whatever those of the physics."""
    steps = 512 if asked.small else 16_384
    rows = {"one by one": {"physics": "single"}, "together": {"physics": "batched", "env_threads": asked.threads}}
    own = {"rollout_steps": steps // 8, "compile": "off" if asked.small else "on", "threads": 1}
    return {name: live(subjects.ppo(**own, **physics), steps) for name, physics in rows.items()}


def workers(asked: Asked) -> Turns:
    """Return turns that step copies in this process and in workers.

    The processes of others wait meanwhile. Beside the time that goes by is this process's own, which is that of
    messages if there are workers.
    """
    names, sizes = (
        (("cartpole",), (2,)) if asked.small else (("cartpole", "halfcheetah", "humanoid", "asterix"), (1, 8))
    )

    def turns(number: int) -> Turn:
        made = {(env, n): contestant(env, n, number) for env in names for n in sizes if number <= n}

        def turn() -> dict[str, float]:
            found: dict[str, float] = {}
            for (env, copies), step in made.items():
                found[f"{env}, {copies}"], found[f"{env}, {copies}: own CPU"] = step(0.05 if asked.small else 0.3)
            return found

        return turn

    return {("in this process", "1 worker", "2 workers")[number]: turns(number) for number in range(3)}


def contestant(env: str, copies: int, number: int) -> Callable[[float], tuple[float, float]]:
    """Return a function that steps all copies for some seconds, and returns the microseconds of one step: those that
    went by, and those of this process."""

    make = partial(make_copies, env)
    envs = WorkerVector(EnvWorkers(number, int), resolve_env(env), make, copies) if number else make(range(copies))
    envs.reset(range(copies))
    space = envs.single_action_space
    space.seed(0)
    actions: Iterator[np.ndarray] = cycle([np.stack([space.sample() for _ in range(copies)]) for _ in range(64)])

    def turn(least: float) -> tuple[float, float]:
        steps, begun, own = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begun < least:
            envs.step(next(actions))
            steps += 1
        return 1e6 * (time.perf_counter() - begun) / steps, 1e6 * (time.process_time() - own) / steps

    return turn


def make_copies(env: str, rows: range) -> Envs:
    """Return copies of an environment: images for Atari, vectors for all others."""
    if resolve_env(env).startswith("ALE/"):
        return make_pixels(env, len(rows))
    return Vector([lambda: flatten(make_env(env))] * len(rows))


def humanoid(asked: Asked) -> Turns:
    """Return turns that step h1-walk, from the same start with the same actions: the keyframe's pose with noise."""
    import mujoco

    env, steps = make_env("h1-walk"), 20 if asked.small else 200
    inner: Any = env.unwrapped
    model, data = inner.model, inner.data
    low, high = model.actuator_ctrlrange.T
    pose = 2 * (model.key_qpos[0][7:26] - low) / (high - low) - 1
    noise = np.random.default_rng(0).standard_normal((steps, model.nu))
    actions = (pose + 0.05 * noise).astype(np.float32)
    number = count()

    def bare(action: np.ndarray) -> None:
        data.ctrl[:] = low + (action.clip(-1, 1) + 1) / 2 * (high - low)
        mujoco.mj_step(model, data, nstep=inner.frame_skip)

    def turn(step: Callable[[np.ndarray], object]) -> dict[str, float]:
        env.reset(seed=next(number) // 3)
        return {"a control step": 1e6 * seconds(lambda: [step(a) for a in actions], time.process_time) / steps}

    steppers: dict[str, Callable[[np.ndarray], object]] = {
        "MuJoCo alone": bare, "the task": inner.step, "with make_env's wrappers": env.step,
    }  # fmt: skip
    return {name: partial(turn, step) for name, step in steppers.items()}
