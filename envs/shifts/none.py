"""No shift, for streams that repeat the same task."""

from .base import Shift, shifts


@shifts.register("none")
class Unshifted(Shift):
    """Change nothing: all tasks are the same."""

    takes_rows = True
