"""The exceptions of runs. `scripts/` prints each as one line and ends with an exit code."""

from collections.abc import Iterable

from . import message_of, one_line


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


class EnvironmentFailed(RunError):
    """An environment failed. The run can be resumed when the environment is fixed."""


class PluginFailed(RunError):
    """Code of a plug-in failed. The run can be resumed with a plug-in that does better."""


class DiskError(RunError):
    """The disk failed, for example because it is full. Every other run would fail too."""


# parts of the messages of PyTorch, CUDA and the loader of shared libraries
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "cannot allocate memory",
    "failed to map segment",
)


def describe_error(error: BaseException) -> str:
    """Return a one-line description of an exception."""
    if isinstance(error, (RunError, UsageError)):
        return " ".join(str(error).split())
    text = message_of(error)
    if is_out_of_memory(error):
        return f"out of memory ({text or 'an allocation failed'}): use a smaller network, batch or replay memory"
    return one_line(error)


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in message_of(error).lower() for words in OUT_OF_MEMORY)
