"""Running code of a user's own: whatever it raises, even SystemExit, becomes one line that names the place."""

import inspect
import sysconfig
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...registry import OWN, frames, look_up, module_of, put_back, shown
from ...registry.errors import RunError, UsageError, describe_error, is_out_of_memory, one_line

LIBRARIES = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
INSTALLED = {"site-packages", "dist-packages"}  # of another environment


@contextmanager
def in_one_line(what: str, kind: type[UsageError] | type[RunError] = UsageError) -> Iterator[None]:
    """Raise one of our exceptions, with one line, for whatever is raised in this block, and undo changes of `KEPT`.

    SystemExit and KeyboardInterrupt are among it: commands handle the signal of Ctrl-C themselves, so that user code
    raised it. Without this, SystemExit(0) would end a command as if it had done its work.

    Args:
        what: Beginning of the line.
        kind: The exception. If memory ran out it is RunError.
    """
    process = look_up()
    try:
        yield
    except (UsageError, RunError):
        raise
    except BaseException as error:
        place = place_of(error)
        if isinstance(error, BrokenPipeError) and not place:  # the reader of our output is gone
            raise
        if is_out_of_memory(error):
            raise RunError(f"{what}: {describe_error(error)}") from error
        # the machinery of `with` takes an exception that StopIteration causes for that StopIteration
        cause = None if isinstance(error, StopIteration) else error
        raise kind(": ".join(filter(None, (what, place, _describe(error))))) from cause
    finally:
        put_back(process)


def place_of(error: BaseException) -> str:
    """Return where in a user's own file an exception was raised, as in "my_net.py, line 12, in forward", or ""."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}"
    places = [(frame, line) for frame, line in frames(error) if _is_of_a_user(frame)]
    if not places:
        return ""
    frame, line = places[-1]
    within = f", in {frame.f_code.co_name}" if frame.f_code.co_name != "<module>" else ""
    return f"{Path(frame.f_code.co_filename).name}, line {line}{within}"


@contextmanager
def delaying_warnings() -> Iterator[None]:
    """Show warnings only after this block, and not if it raises: then its line is what the user should read."""
    with warnings.catch_warnings(record=True) as delayed:
        yield
    for warning in delayed:
        warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


def type_of(value: Any) -> str:
    """Return a value's type in words, for messages. A coroutine is closed, so that Python does not warn of it."""
    if inspect.iscoroutine(value):
        value.close()
    return f"of type {type(value).__name__}"


def _describe(error: BaseException) -> str:
    """Return an exception's text, with its type unless it is a ValueError that this package raised."""
    places, kind = frames(error), type(error)
    ours = isinstance(error, ValueError) and places and module_of(places[-1][0]) == OWN
    ours = ours and (kind is ValueError or kind.__module__.partition(".")[0] == OWN)
    return shown(" ".join(str(error).split())) if ours else one_line(error)  # ours is short enough


def _is_of_a_user(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    if file.startswith("<") or module_of(frame) == OWN:
        return False
    return not file.startswith(LIBRARIES) and not INSTALLED & {*Path(file).parts}
