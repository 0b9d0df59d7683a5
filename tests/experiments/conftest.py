"""What tests of comparisons and sweeps share: their runs in this process."""

from collections.abc import Callable
from typing import Any

import pytest

from supple.experiments.queue.queue import Queue, QueuedRun

Worked = Callable[[list[QueuedRun]], list[str]]


@pytest.fixture
def worked() -> Worked:
    """Work jobs off in this process; returns their labels, in order."""

    def work(jobs: list[QueuedRun]) -> list[str]:
        done: list[str] = []

        def attempt(job: QueuedRun, held: Any) -> None:
            done.append(job.label)
            job.train(held, lambda step, end: None, lambda line: None)

        Queue(jobs).work_off(attempt)
        return done

    return work
