"""The two ways in which a run can be refused; `scripts/` turns each into one line and an exit code."""


class UsageError(ValueError):
    """A request cannot be met as it was made (exit code 2)."""


class RunError(RuntimeError):
    """The run could not go on (exit code 1)."""


class CheckpointError(RunError):
    """A checkpoint that is truncated, corrupted or foreign; the message names the file."""
