"""Keep memory that was freed, for what is allocated next.

The gradients of a stack are megabytes that every update allocates and frees. The GNU C library returns such blocks to
the system, which then hands out and clears each page again: up to 700 page faults an update, for a stack of five agents
with three layers of 128, which took as long as the update's arithmetic.
"""

import ctypes
from functools import cache

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # names of mallopt's options in malloc.h
KEPT = 256 * 2**20  # bytes at the end of the heap that stay with the process
FROM_HEAP = 32 * 2**20  # blocks up to so many bytes come from the heap; the largest value that is allowed


@cache
def keep_freed_memory() -> bool:
    """Let this process keep up to 256 MiB that it freed. Return whether its C library can do so, as GNU's can."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return False
    return bool(mallopt(TRIM_THRESHOLD, KEPT) and mallopt(MMAP_THRESHOLD, FROM_HEAP))
