"""A thread to which work is handed over quickly."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

import numpy as np


class WorkerThread:
    """A thread that steps a share of the copies, again and again. An executor would take twice as long to hand over.

    The thread starts at the first call, so it inherits the treatment of denormal numbers from the calling thread.
    """

    def __init__(self, take: Callable[[np.ndarray], None]) -> None:
        self._take = take
        self._thread: Thread | None = None
        self._todo: SimpleQueue[np.ndarray | None] = SimpleQueue()
        self._done: SimpleQueue[Exception | None] = SimpleQueue()

    def begin(self, actions: np.ndarray) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._work, daemon=True)
            self._thread.start()
        self._todo.put(actions)

    def end(self) -> Exception | None:
        """Wait until the share is stepped, and return the error that prevented it, if any."""
        return self._done.get()

    def close(self) -> None:
        self._todo.put(None)
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while (actions := self._todo.get()) is not None:
            try:
                self._take(actions)
            except Exception as error:
                self._done.put(error)
            else:
                self._done.put(None)
