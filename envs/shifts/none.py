"""No shift: the arm that meets the same task again and again."""

from .base import Shift, shifts


@shifts.register("none")
class Unshifted(Shift):
    """Leave every task as it is."""
