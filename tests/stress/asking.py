"""Commands of `supple` in this process, as the stress tests of inputs and damage ask for them, and their outcomes."""

import contextlib
import io
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from small_runs import places

from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

REFUSED = "refused in one line"
LIMIT = 120  # seconds
BAD = ("several lines", "something left", "other bytes", "traceback", "hung")
Attempt = tuple[
    str, str, str, str, str
]  # a table and its row, in which it counts; what was tried, outcome, what was said


def ask(*words: str) -> tuple[str, str]:
    """Run `supple` with these words, for `LIMIT` seconds at most.

    Returns:
        What came of it: "" for exit status 0, REFUSED, "several lines", "hung" or "traceback"; and what it said on
        stderr.
    """
    said, sys.argv = io.StringIO(), ["supple", *words]
    signal.signal(signal.SIGALRM, _raise_timeout)
    signal.alarm(LIMIT)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            run(dispatch)
    except SystemExit as stop:
        if stop.code == 0:
            return "", said.getvalue()
        in_a_box = "For full helptext" in said.getvalue()  # tyro's, of an option
        return REFUSED if in_a_box or said.getvalue().count("\n") == 1 else "several lines", said.getvalue()
    except TimeoutError:
        return "hung", said.getvalue()
    except BaseException as error:
        return "traceback", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    raise AssertionError("the entry always exits")


def _raise_timeout(*_: object) -> None:
    raise TimeoutError


def count(
    kinds: Sequence[str],
    make: Callable[[str, Path, dict[str, str]], Iterator[Attempt]],
    out: Path | None,
    /,
    **facts: Any,
) -> None:
    """Count the outcomes of all attempts on runs of these kinds, print the bad ones, and write the counts as JSON."""
    counts: dict[str, dict[str, Counter[str]]] = {}
    with tempfile.TemporaryDirectory() as name:
        (data := Path(name) / "data").mkdir()
        words = places(data)
        for kind in kinds:
            for table, row, tried, outcome, said in make(kind, Path(name), words):
                counts.setdefault(table, {}).setdefault(row, Counter())[outcome] += 1
                if outcome in BAD:
                    print(f"{kind}: {tried}: {outcome}: {said.strip()[:400]}", flush=True)
            print(f"{kind}: done", flush=True)
    print(json.dumps(counts, indent=1))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps({**facts, **counts}, indent=2) + "\n")
