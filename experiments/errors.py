"""The exceptions of runs. `scripts/` prints each as one line and ends with an exit code."""

from ..registry import message_of


class UsageError(ValueError):
    """A request is invalid (exit code 2)."""


class RunError(RuntimeError):
    """A run cannot continue (exit code 1)."""


class CheckpointError(RunError):
    """A checkpoint is truncated, corrupted or not one of this run; the message names the file."""


class Diverged(RunError):
    """Training produced a number that is not finite."""


class EnvironmentFailed(RunError):
    """An environment failed. The run can be resumed when the environment is fixed."""


class DiskError(RunError):
    """The disk failed, for example because it is full. Every other run would fail too."""


LETTERS = 300  # of another program's message that are shown


def one_line(error: BaseException) -> str:
    """Return an exception of other people's code in one line: its type, and the beginning of its message."""
    words = message_of(error)
    cut = f"{words[:LETTERS]} …" if len(words) > LETTERS else words
    return f"{type(error).__name__}: {cut}".removesuffix(": ")


# parts of the messages of PyTorch, CUDA and the loader of shared libraries
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "cannot allocate memory",
    "failed to map segment",
)


def in_words(error: BaseException) -> str:
    """Return a one-line description of an exception."""
    text = message_of(error)
    if isinstance(error, (RunError, UsageError)):
        return text
    if is_out_of_memory(error):
        return f"out of memory ({text or 'an allocation failed'}): use a smaller network, batch or replay memory"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in message_of(error).lower() for words in OUT_OF_MEMORY)
