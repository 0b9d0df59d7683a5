"""A command of `supple` in this process, as the stress tests of inputs and damage ask for it."""

import contextlib
import io
import signal
import sys

from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

REFUSED = "refused in one line"


def ask(*words: str, limit: int) -> tuple[str, str]:
    """Run `supple` with these words, for `limit` seconds at most.

    Returns:
        What came of it: "" for exit status 0, REFUSED, "several lines", "hung" or "traceback"; and what it said on
        stderr.
    """
    said, sys.argv = io.StringIO(), ["supple", *words]
    signal.signal(signal.SIGALRM, _raise_timeout)
    signal.alarm(limit)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            run(dispatch)
    except SystemExit as stop:
        if stop.code == 0:
            return "", said.getvalue()
        return REFUSED if said.getvalue().count("\n") == 1 else "several lines", said.getvalue()
    except TimeoutError:
        return "hung", said.getvalue()
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    raise AssertionError("the entry always exits")


def _raise_timeout(*_: object) -> None:
    raise TimeoutError
