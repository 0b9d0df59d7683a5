"""Videos of trained agents for reports: one evaluation episode per task."""

import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import numpy as np
from gymnasium.error import DependencyNotInstalled

from supple.engine.loading import find_state, load_states
from supple.engine.loop import Warn
from supple.envs import EnvironmentFault, Envs
from supple.envs.vector import Vector
from supple.experiments.history.data import ComparisonData, RunData
from supple.registry import one_line
from supple.registry.errors import RunError, UsageError
from supple.reports.figures.video import Pictures, Video, data_uri
from supple.reports.tables.cells import number

from .evaluate import LONGEST, Member
from .tasks import EnvTask
from .work import AgentWork


def record_videos(data: ComparisonData, warn: Warn) -> list[Video]:
    """Return the videos of each arm's first seed that has not diverged, at its last checkpoint.

    Runs and environments of which there can be no video are skipped, with one warning for each reason.
    """
    recorded: list[Video] = []
    problems: dict[str, None] = {}
    for arm, runs in data.arms.items():
        first = next((run for run in runs if not run.of_kind("diverged")), runs[0])
        recorded += _record_run(first, f"{arm}: " if len(data.arms) > 1 else "", problems.setdefault)
    for problem in problems:
        warn(problem)
    return recorded


def _record_run(run: RunData, arm: str, note: Warn) -> list[Video]:
    recorded = []
    try:
        for step, work in load_states(run.path, dict([find_state(run.path)]), note):
            assert isinstance(work, AgentWork)
            if run.of_kind("diverged"):
                raise RunError(f"seed {run.seed} {run.diverged}")
            begun = [task for task in work.tasks if task.cycle == 0 and task.start < step]  # in the first cycle
            # a fresh agent has only learned the task of the checkpoint
            for task in [work.task] if work.settings.fresh else begun:
                with _render_offscreen():
                    try:
                        recorded.append(_record_task(work, task, step, arm, run.seed))
                    except Exception as error:  # environments and graphics drivers raise all kinds of exceptions
                        note(f"{task.env}: no video, because {_explain(error)}")
    except (RunError, UsageError) as error:
        note(f"{run.path}: no video, because {error}")
    return recorded


def _record_task(work: AgentWork, task: EnvTask, step: int, arm: str, seed: int) -> Video:
    """Return the video of a seed's first evaluation episode of a task, in a new environment with the task's shifts."""
    member = work.settings.members.index(seed)
    world = {**work.worlds(task, 1)[member], "render_mode": "rgb_array"}
    with closing(work.envs(work.settings, task.env, [world])) as envs:
        envs.progress(min(step, task.end) - task.start)
        pictures, ret = _record_episode(work, task, envs, member)
    caption = f"{arm}{task.env}, one evaluation episode with return {number(ret)}, after {step:,} steps of seed {seed}."
    return Video(data_uri(pictures.kept), f"{arm}{task.env}, return {number(ret)}", caption)


def _record_episode(work: AgentWork, task: EnvTask, envs: Envs, member: int) -> tuple[Pictures, float]:
    """Return the pictures and the return of an episode, or of its first `LONGEST` decisions."""
    assert isinstance(envs, Vector)  # a single environment always is one
    pictures, total = Pictures(), 0.0

    def draw() -> np.ndarray:
        picture = envs.envs[0].render()
        if not isinstance(picture, np.ndarray):
            raise EnvironmentFault(task.env, f"render() returned {type(picture).__name__}, not an array")
        return picture

    seeds = work.settings.members
    with Member(work.agent, member, len(seeds)).greedy(task.env) as policy:
        observations = envs.reset(work.evaluation_seeds(seeds[member], task, 1))
        for _ in range(LONGEST):
            pictures.offer(draw)
            result = envs.step(policy(observations))
            if result.episodes:
                return pictures, result.episodes[0].ret
            observations, total = result.obs, total + float(result.reward[0])
    return pictures, total


def _explain(error: BaseException) -> str:
    if isinstance(error, DependencyNotInstalled) and "pygame" in str(error):
        return "pygame is not installed: pip install 'supple[video]'"
    if isinstance(error, EnvironmentFault):
        return error.what
    if isinstance(error, ImportError | ValueError):
        return str(error)
    return f"rendering it raised {one_line(error)}"


@contextmanager
def _render_offscreen() -> Iterator[None]:
    """Let MuJoCo (on Linux) and pygame render without a display, unless their variables are set.

    Gymnasium reads MUJOCO_GL when it renders. MuJoCo reads it when it is imported, which would fail without EGL.
    Therefore the variable is set when the agent is loaded, with which MuJoCo was imported.

    If there is no EGL, Gymnasium's viewer raises an exception, and another one when it is deleted, which is not shown.
    """
    wanted = {"SDL_VIDEODRIVER": "dummy"} | ({"MUJOCO_GL": "egl"} if sys.platform == "linux" else {})
    added = {name: value for name, value in wanted.items() if name not in os.environ}
    hook, sys.unraisablehook = sys.unraisablehook, lambda args: None
    os.environ.update(added)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        for name in added:
            del os.environ[name]
