"""The exceptions of runs. `scripts/` prints each as one line and ends with an exit code."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from . import notes_of, one_line


class UsageError(ValueError):
    """A request is invalid (exit code 2)."""


class RunError(RuntimeError):
    """A run cannot continue (exit code 1)."""


class CheckpointError(RunError):
    """A checkpoint is truncated, corrupted or not one of this run; the message names the file."""


class Diverged(RunError):
    """Training produced a number that is not finite.

    Attributes:
        members: The members of a stack of seeds that diverged, by their positions. Empty: the whole run did.
    """

    def __init__(self, message: str, members: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.members = tuple(members)


class DiskError(RunError):
    """The disk failed, for example because it is full. Every other run would fail too."""


@contextmanager
def refusing(what: str, kind: type[Exception] = UsageError) -> Iterator[None]:
    """Raise a ValueError of a block as an error of this kind, which first says what was refused."""
    try:
        yield
    except ValueError as error:
        raise kind(f"{what}: {error}") from error


# parts of the messages of PyTorch, CUDA and the loader of shared libraries
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "cannot allocate memory",
    "failed to map segment",
)


def describe_error(error: BaseException) -> str:
    """Return a one-line description of an exception, after its notes."""
    if isinstance(error, (RunError, UsageError)):
        text = " ".join(str(error).split())
    elif is_out_of_memory(error):
        text = f"out of memory ({one_line(error)}): use a smaller network, batch or replay memory"
    else:
        text = one_line(error)
    return notes_of(error) + text


def is_of_user(error: BaseException) -> bool:
    """Return whether a user's own code raised an exception or its cause, so that the traceback says most."""
    return any(each is not None and notes_of(each) for each in (error, error.__cause__))


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in OUT_OF_MEMORY)
