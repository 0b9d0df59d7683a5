"""The two ways in which a run can be refused; `scripts/` turns each into one line and an exit code."""


class UsageError(ValueError):
    """A request cannot be met as it was made (exit code 2)."""


class RunError(RuntimeError):
    """The run could not go on (exit code 1)."""


class CheckpointError(RunError):
    """A checkpoint that is truncated, corrupted or foreign; the message names the file."""


class Diverged(RunError):
    """Training came to a number that is not finite."""


class EnvironmentFailed(RunError):
    """An environment misbehaved; once it is mended, the run can go on."""


class DiskError(RunError):
    """The disk failed (it is full, say), which is no fault of the run: every other run would fail as well."""


# what PyTorch, CUDA and the loader of shared libraries say
OUT_OF_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "out of memory",
    "cannot allocate memory",
    "failed to map segment",
)


def in_words(error: BaseException) -> str:
    """Return what happened, in one line."""
    text = " ".join(str(error).split())
    if isinstance(error, (RunError, UsageError)):
        return text
    if is_out_of_memory(error):
        return f"out of memory ({text or 'the system gave none'}): a smaller network, batch or memory needs less"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_out_of_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in OUT_OF_MEMORY)
