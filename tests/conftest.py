"""What all tests share: one thread for PyTorch, and comparisons without processes of their own."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch

from supple.experiments import compare

torch.set_num_threads(1)  # the networks here are small, and the tests run side by side


class Here:
    """Stands in for the pool of worker processes: what is submitted is done at once, in this process."""

    def __init__(self, jobs: int, context: Any, begin: Callable[..., None], arguments: tuple[Any, Any]) -> None:
        compare._messages = arguments[0]

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None:
        compare._messages = None

    def submit(self, work: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(work(*arguments))
        return done


@contextmanager
def in_this_process() -> Iterator[None]:
    """Comparisons without workers and without a report, which take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "ProcessPoolExecutor", Here)
        patch.setattr("supple.scripts.compare.show", lambda path: None)
        yield


@pytest.fixture(scope="session")
def here() -> Callable[[], AbstractContextManager[None]]:
    """`with here():` comparisons are made in this process."""
    return in_this_process
