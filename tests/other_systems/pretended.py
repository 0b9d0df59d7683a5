"""Runs commands of supple one after another in this process: python -m pretended '[["train", …], …]' [SAVES].

It prints one line of JSON for each: [exit status, what was written on stderr]. With SAVES, the process dies as by a
kill right before it would write its checkpoint of that number.
"""

import contextlib
import importlib
import io
import json
import os
import pkgutil
import sys
import traceback
from typing import Any


def die_before(saves: int) -> None:
    from supple.engine.storage import checkpoint

    plain, left = checkpoint.save, saves

    def save(*args: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            os._exit(9)
        return plain(*args, **more)

    checkpoint.save = save


def result(words: list[str]) -> list[Any]:
    from supple.scripts.cli.console import run
    from supple.scripts.main import dispatch

    said = io.StringIO()
    sys.argv = ["supple", *words]
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            run(dispatch)
    except SystemExit as stop:
        return [stop.code, said.getvalue()]
    except BaseException:
        return [70, traceback.format_exc()]
    return [71, "run() returned"]


def imported(rooms: list[str]) -> dict[str, str]:
    """Import every module of these rooms, and return the errors by name; "" where there is none."""
    found: dict[str, str] = {}
    for room in rooms:
        package = importlib.import_module(f"supple.{room}")
        for info in pkgutil.walk_packages(package.__path__, f"supple.{room}."):
            try:
                importlib.import_module(info.name)
                found[info.name] = ""
            except BaseException as error:
                found[info.name] = f"{type(error).__name__}: {error}"
    return found


if __name__ == "__main__":
    if len(sys.argv) > 2:
        die_before(int(sys.argv[2]))
    for words in json.loads(sys.argv[1]):
        print(json.dumps(imported(words[1:]) if words[0] == "import" else result(words)), flush=True)
