"""Environments in worker processes, with the same results as in one process, bit for bit.

Commands and replies are sent through pipes, observations and rewards through shared memory. Actions are sent with their
commands, because they are small and keep their type.
"""

import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from multiprocessing import connection, get_context
from multiprocessing.pool import ExceptionWithTraceback  # type: ignore[attr-defined]
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from os import _exit
from typing import Any

import gymnasium as gym
import numpy as np

from supple.registry import signals

from .fault import EnvironmentFault, Episode
from .vector import Envs, StepResult, join_episodes

Make = Callable[[range], Envs]  # rows → their copies; it is sent to the workers, so it cannot be a lambda
PATIENCE = 1.0  # seconds to wait for a worker to end


class EnvWorkers:
    """A pool of `count` processes that run copies of environments. They end at `close` or with this process.

    Args:
        count: The number of processes.
        begin: Called first in each process, for instance to set its floating-point mode. It is sent there.
    """

    def __init__(self, count: int, begin: Callable[[], object]) -> None:
        context = get_context("spawn")
        alive, self._lifeline = context.Pipe(duplex=False)
        self._pipes: list[connection.Connection] = []
        self._processes = []
        with alive, signals.block_signals():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, alive, begin), daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)

    def ask(self, env: str, orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send each worker its command, (method of `_Share` or of its copies, *arguments), and return their results.

        Raises the first exception that a worker raised. If a worker died, ends all and raises EnvironmentFault."""
        try:
            for pipe, order in zip(self._pipes, orders, strict=True):
                pipe.send(order)
            answers = [pipe.recv() for pipe in self._pipes]
        except (EOFError, ConnectionError):
            ended = self._wait_for_end()
            self.close()
            raise EnvironmentFault(env, f"its worker process {ended}") from None
        except BaseException:  # replies may still arrive, and could be taken for those of the next command
            self.close()
            raise
        for _, error in answers:
            if error is not None:
                if error.__cause__ is not None:
                    error.__cause__.add_note(f"{env}, in a worker process")
                raise error
        return [answer for answer, _ in answers]

    def _wait_for_end(self) -> str:
        """Return a description of how the first worker ended."""
        gone = connection.wait([process.sentinel for process in self._processes], PATIENCE)
        for process in self._processes:
            if process.sentinel in gone:
                process.join(PATIENCE)  # its files are closed shortly before its status is known
                code = process.exitcode or 0
                return f"was killed by {signals.signal_name(code)}" if code < 0 else f"exited with status {code}"
        return "does not respond"

    def __len__(self) -> int:
        return len(self._processes)

    def close(self) -> None:
        """End the processes, even if they are busy."""
        self._lifeline.close()
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(PATIENCE)
            process.kill()
            process.join()
        self._pipes = []


class WorkerVector:
    """Copies of an environment in worker processes, with the contract and the results of `Vector`, bit for bit.

    The copies are distributed evenly over the workers. Earlier copies must be closed.

    Args:
        workers: The processes.
        env: The environment's name.
        make: Returns the copies with these rows of all copies, in a worker process.
        copies: Number of copies, at least one for each worker.

    Raises:
        Exception: What `make` raises.
    """

    def __init__(self, workers: EnvWorkers, env: str, make: Make, copies: int) -> None:
        self.num_envs = copies
        self._workers, self._env = workers, env
        ends = [copies * number // len(workers) for number in range(len(workers) + 1)]
        self._rows = [range(*pair) for pair in pairwise(ends)]
        # Workers may lack environments that the user registered in this process. Atari registers itself.
        spec = None if env.startswith("ALE/") else gym.spec(env)
        try:
            ForkingPickler.dumps((spec, make))
        except Exception as error:
            what = f"it cannot be sent to a worker process ({error}): use --env-workers 0"
            raise EnvironmentFault(env, what) from error
        (self.single_observation_space, self.single_action_space), *_ = self._ask(
            "make", *((spec, make, rows) for rows in self._rows)
        )
        layout = _layout(self.single_observation_space)
        self._memory = SharedMemory(create=True, size=copies * layout.itemsize)
        try:
            self._shared = np.ndarray(copies, layout, self._memory.buf)
            self._ask("share", *((self._memory.name, copies, rows) for rows in self._rows))
        finally:
            self._memory.unlink()  # all processes have opened it, so nothing remains however they end

    def _ask(self, order: str, *arguments: tuple[Any, ...]) -> list[Any]:
        per_worker = arguments or [()] * len(self._rows)
        return self._workers.ask(self._env, [(order, *values) for values in per_worker])

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        self._ask("reset", *((seeds[rows.start : rows.stop],) for rows in self._rows))
        return self._shared["obs"].copy()

    def step(self, actions: np.ndarray) -> StepResult:
        episodes = self._episodes(self._ask("step", *((actions[rows.start : rows.stop],) for rows in self._rows)))
        shared = self._shared
        final_obs = obs = shared["obs"].copy()
        if episodes:
            done = [episode.index for episode in episodes]
            final_obs = obs.copy()
            final_obs[done] = shared["final_obs"][done]
        reward, terminated, truncated = (shared[name].copy() for name in ("reward", "terminated", "truncated"))
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def restart(self) -> tuple[np.ndarray, list[Episode]]:
        episodes = self._episodes(self._ask("restart"))
        return self._shared["obs"].copy(), episodes

    def _episodes(self, of_workers: list[list[Episode]]) -> list[Episode]:
        return join_episodes([rows.start for rows in self._rows], of_workers)

    def progress(self, steps: int) -> None:
        self._ask("progress", *((steps,) for _ in self._rows))

    def own_task(self) -> str:
        task: str = self._ask("own_task")[0]
        return task

    def freeze(self, rows: Sequence[int]) -> None:
        self._ask("freeze", *(([row - own.start for row in rows if row in own],) for own in self._rows))

    def close(self) -> None:
        """Close all environments. The workers keep running."""
        del self._shared
        self._memory.close()
        if self._workers._pipes:  # they are not closed
            self._ask("close")


class _Share:
    """The copies of one worker, and their rows in the shared memory."""

    def make(self, spec: Any, make: Make, rows: range) -> tuple[gym.Space, gym.Space]:
        if spec is not None:
            gym.registry.setdefault(spec.id, spec)
        self.envs: Any = make(rows)
        return self.envs.single_observation_space, self.envs.single_action_space

    def share(self, name: str, copies: int, rows: range) -> None:
        self.memory = SharedMemory(name)
        all_rows = np.ndarray(copies, _layout(self.envs.single_observation_space), self.memory.buf)
        self.rows = all_rows[rows.start : rows.stop]

    def reset(self, seeds: Sequence[int]) -> None:
        self.rows["obs"] = self.envs.reset(seeds)

    def step(self, actions: np.ndarray) -> list[Episode]:
        result = self.envs.step(actions)
        for name in ("obs", "reward", "terminated", "truncated", *(["final_obs"] if result.episodes else [])):
            self.rows[name] = getattr(result, name)
        return list(result.episodes)

    def restart(self) -> list[Episode]:
        self.rows["obs"], episodes = self.envs.restart()
        return list(episodes)

    def close(self) -> None:
        del self.rows
        self.memory.close()
        self.envs.close()


def _layout(space: gym.Space) -> np.dtype:
    """Return the dtype of one environment's row in the shared memory."""
    shape, numbers = space.shape or (), space.dtype
    fields = [("obs", numbers, shape), ("final_obs", numbers, shape), ("reward", np.float64)]
    return np.dtype([*fields, ("terminated", bool), ("truncated", bool)], align=True)


def _serve(pipe: connection.Connection, alive: connection.Connection, begin: Callable[[], object]) -> None:
    """Execute commands until the other side closes the pipe or dies."""
    signals.ignore()
    threading.Thread(target=_exit_after, args=(alive,), daemon=True).start()
    warnings.simplefilter("ignore")  # the main process has already shown them when it inspected the environment
    begin()
    share = _Share()
    answer: tuple[Any, ExceptionWithTraceback | None]
    with suppress(EOFError, ConnectionError):  # of the pipe; those of environments have become EnvironmentFault
        while True:
            try:
                order, *arguments = pipe.recv()
                does = share if hasattr(share, order) else share.envs
                answer = getattr(does, order)(*arguments), None
            except (EOFError, ConnectionError):
                raise
            except Exception as error:
                answer = None, ExceptionWithTraceback(error, error.__traceback__)
            pipe.send(answer)


def _exit_after(alive: connection.Connection) -> None:
    with suppress(EOFError, ConnectionError):
        alive.recv_bytes()
    _exit(1)
