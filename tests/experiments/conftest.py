"""What tests of comparisons and sweeps share: their runs in this process."""

from collections.abc import Callable
from typing import Any

import pytest

from supple.experiments.queue.jobs import Job, work_off

Worked = Callable[[list[Job]], list[str]]


@pytest.fixture
def worked() -> Worked:
    """Work jobs off in this process; returns their labels, in order."""

    def work(jobs: list[Job]) -> list[str]:
        done: list[str] = []

        def attempt(job: Job, held: Any) -> None:
            done.append(job.label)
            job.attempt(held, lambda step, end: None, lambda line: None)

        work_off(jobs, attempt)
        return done

    return work
