"""Environments in processes of their own: the same results as in one process, bit for bit.

Orders and answers go through pipes, what environments show and give through memory that both sides see. Actions go with
their order: they are small, and arrive with the type that they have.
"""

import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from multiprocessing import connection, get_context
from multiprocessing.reduction import ForkingPickler
from multiprocessing.shared_memory import SharedMemory
from os import _exit
from typing import Any

import gymnasium as gym
import numpy as np

from .fault import BLAMED, EnvironmentFault
from .vector import Envs, Episode, StepResult

Make = Callable[[int], Envs]  # a number of copies → these; sent to the workers, so no lambda
PATIENCE = 1.0  # seconds that a worker is given to end


class Workers:
    """`count` processes in which copies of environments run; they end at `close`, or with this process however it ends.

    begin: called first in each of them (it is sent there): what sets how numbers are rounded in this process, say.
    """

    def __init__(self, count: int, begin: Callable[[], object]) -> None:
        context = get_context("spawn")
        alive, self._lifeline = context.Pipe(duplex=False)
        self._pipes: list[connection.Connection] = []
        self._processes = []
        with alive, _deaf_to_interrupts():
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, alive, begin), daemon=True)
                process.start()
                theirs.close()
                self._pipes.append(ours)
                self._processes.append(process)

    def envs(self, env: str, make: Make, copies: int) -> "Apart":
        """Return copies of an environment, each in one of the workers, in runs of equal length (or nearly so).

        Those of before must be closed. Raises what `make` raises there; ValueError for fewer copies than workers."""
        return Apart(self, env, make, copies)

    def ask(self, env: str, orders: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Give each worker its order, (method of `_Share`, *arguments), and return their answers.

        Raises what the first of them raised; EnvironmentFault where one is gone, after which all are."""
        try:
            for pipe, order in zip(self._pipes, orders, strict=True):
                pipe.send(order)
            answers = [pipe.recv() for pipe in self._pipes]
        except (EOFError, ConnectionError):
            ended = self._wait_for_end()
            self.close()
            raise EnvironmentFault(env, f"a worker process that ran it {ended}") from None
        except BaseException:  # whose answer the next one is, nobody could tell
            self.close()
            raise
        for _, error in answers:
            if error is not None:
                raise error
        return [answer for answer, _ in answers]

    def _wait_for_end(self) -> str:
        """Return how the first worker to end did."""
        gone = connection.wait([process.sentinel for process in self._processes], PATIENCE)
        for process in self._processes:
            if process.sentinel in gone:
                process.join(PATIENCE)  # its files are closed a moment before its status is known
                code = process.exitcode or 0
                return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended itself with status {code}"
        return "does not answer"

    @property
    def closed(self) -> bool:
        return not self._pipes

    def __len__(self) -> int:
        return len(self._processes)

    def close(self) -> None:
        """End the processes, busy or not."""
        self._lifeline.close()
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(PATIENCE)
            process.kill()
            process.join()
        self._pipes = []


class Apart:
    """Copies of an environment in worker processes: `Vector`'s contract, and its results bit for bit."""

    def __init__(self, workers: Workers, env: str, make: Make, copies: int) -> None:
        if copies < len(workers):
            raise ValueError(f"{copies} copies of {env} are too few for {len(workers)} workers")
        self.num_envs = copies
        self._workers, self._env = workers, env
        ends = [copies * number // len(workers) for number in range(len(workers) + 1)]
        self._rows = [slice(*pair) for pair in pairwise(ends)]
        # What the user registered here, it may not be there; Atari registers itself.
        spec = None if env.startswith("ALE/") else gym.spec(env)
        try:
            ForkingPickler.dumps((spec, make))
        except Exception as error:
            what = f"it cannot be sent to a worker process ({error}): it can run in this one, without workers"
            raise EnvironmentFault(env, what) from error
        found = self._ask("make", *((spec, make, rows.stop - rows.start) for rows in self._rows))
        if any(spaces != found[0] for spaces in found):
            raise ValueError(f"copies of {env} have different spaces: all must agree")
        self.single_observation_space, self.single_action_space = found[0]
        layout = _layout(self.single_observation_space)
        self._memory = SharedMemory(create=True, size=copies * layout.itemsize)
        try:
            self._shared = np.ndarray(copies, layout, self._memory.buf)
            self._ask("share", *((self._memory.name, copies, rows) for rows in self._rows))
        finally:
            self._memory.unlink()  # all who need it have it: nothing is left behind, however they end

    def _ask(self, order: str, *arguments: tuple[Any, ...]) -> list[Any]:
        each = arguments or [()] * len(self._rows)
        return self._workers.ask(self._env, [(order, *own) for own in each])

    def reset(self, seeds: Sequence[int]) -> np.ndarray:
        """Seed and reset all environments, one seed each; returns their observations, (n, *shape)."""
        if len(seeds) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many seeds, got {len(seeds)}")
        self._ask("reset", *((seeds[rows],) for rows in self._rows))
        return self._shared["obs"].copy()

    def step(self, actions: np.ndarray) -> StepResult:
        """Take one step of every environment; `actions` is (n, *action shape)."""
        if len(actions) != self.num_envs:
            raise ValueError(f"{self.num_envs} environments need as many actions, got {len(actions)}")
        episodes = self._episodes(self._ask("step", *((actions[rows],) for rows in self._rows)))
        shared = self._shared
        final_obs = obs = shared["obs"].copy()
        if episodes:
            done = [episode.index for episode in episodes]
            final_obs = obs.copy()
            final_obs[done] = shared["final_obs"][done]
        reward, terminated, truncated = (shared[name].copy() for name in ("reward", "terminated", "truncated"))
        return StepResult(obs, reward, terminated, truncated, final_obs, episodes)

    def restart(self) -> tuple[np.ndarray, list[Episode]]:
        """Break off all episodes and begin new ones, as `Vector` does."""
        episodes = self._episodes(self._ask("restart"))
        return self._shared["obs"].copy(), episodes

    def _episodes(self, found: list[list[Episode]]) -> list[Episode]:
        return [
            replace(episode, index=rows.start + episode.index)
            for rows, own in zip(self._rows, found, strict=True)
            for episode in own
        ]

    def progress(self, steps: int) -> None:
        """Say how many steps the task has had in all environments together, for shifts that come gradually."""
        self._ask("progress", *((steps,) for _ in self._rows))

    def close(self) -> None:
        """Close every environment; the workers go on."""
        del self._shared
        self._memory.close()
        under_way = sys.exception()  # which is then the one to be told
        if not self._workers.closed:
            try:
                self._ask("close")
            except EnvironmentFault:
                if under_way is None:
                    raise


class _Share:
    """In a worker: its copies, and where they write what the others are to see."""

    def make(self, spec: Any, make: Make, copies: int) -> tuple[gym.Space, gym.Space]:
        if spec is not None:
            gym.registry.setdefault(spec.id, spec)
        self.envs: Any = make(copies)
        return self.envs.single_observation_space, self.envs.single_action_space

    def share(self, name: str, copies: int, rows: slice) -> None:
        self.memory = SharedMemory(name)
        self.rows = np.ndarray(copies, _layout(self.envs.single_observation_space), self.memory.buf)[rows]

    def reset(self, seeds: Sequence[int]) -> None:
        self.rows["obs"] = self.envs.reset(seeds)

    def step(self, actions: np.ndarray) -> list[Episode]:
        result = self.envs.step(actions)
        for name in ("obs", "reward", "terminated", "truncated", *(["final_obs"] if result.episodes else [])):
            self.rows[name] = getattr(result, name)
        episodes: list[Episode] = result.episodes
        return episodes

    def restart(self) -> list[Episode]:
        episodes: list[Episode]
        self.rows["obs"], episodes = self.envs.restart()
        return episodes

    def progress(self, steps: int) -> None:
        self.envs.progress(steps)

    def close(self) -> None:
        del self.rows
        self.memory.close()
        self.envs.close()


def _layout(space: gym.Space) -> np.dtype:
    """Return one environment's row in the shared memory."""
    shape, numbers = space.shape or (), space.dtype
    fields = [("obs", numbers, shape), ("final_obs", numbers, shape), ("reward", np.float64)]
    return np.dtype([*fields, ("terminated", bool), ("truncated", bool)], align=True)


def _serve(pipe: connection.Connection, alive: connection.Connection, begin: Callable[[], object]) -> None:
    """Do what is ordered, until the other side lets go of the pipe or is gone."""
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
    warnings.simplefilter("ignore")  # what there is to warn of was said where the environment was looked at
    begin()
    share = _Share()
    answer: tuple[Any, BaseException | None]
    with suppress(EOFError, ConnectionError):  # of an environment, they are an EnvironmentFault by now
        while True:
            try:
                order, *arguments = pipe.recv()
                answer = getattr(share, order)(*arguments), None
            except (EOFError, ConnectionError):
                raise
            except BLAMED as error:
                answer = None, error
            pipe.send(answer)


def _end_with(alive: connection.Connection) -> None:
    with suppress(EOFError, ConnectionError):
        alive.recv_bytes()
    _exit(1)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are begun in here never hear of Ctrl-C: it reaches them too, but their parent decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
