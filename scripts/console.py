"""What every script shares: tyro with one-line errors, and a progress display."""

import contextlib
import io
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tyro
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from supple.experiments.errors import RunError, UsageError

screen = Console()


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script on the command line's arguments and exit: 0, 1 (could not go on) or 2 (wrong usage)."""
    code, message = 0, ""
    try:
        main(sys.argv[1:])
    except UsageError as error:
        code, message = 2, str(error)
    except (RunError, OSError) as error:
        code, message = 1, str(error)
    except KeyboardInterrupt:
        code, message = 130, "interrupted; `--resume` goes on from the last checkpoint"
    if message:
        warn(" ".join(message.split()))
    sys.exit(code)


def parse(
    kind: Any, settings: type | None, args: Sequence[str], prog: str, description: str, default: Any = None
) -> Any:
    """Read a dataclass from the command line: `kind`, or `kind[settings]` where it is generic.

    Raises UsageError, in one line, for what tyro refuses.
    """
    wanted = kind if settings is None else kind[settings]
    options: dict[str, Any] = {} if default is None else {"default": default}
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            return tyro.cli(
                wanted,
                args=list(args),
                prog=prog,
                description=description,
                config=(tyro.conf.FlagConversionOff,),
                **options,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        # tyro draws a box of several lines; keep its words, up to the hint about --help.
        words = " ".join(line.strip("│╭╮╰╯─ ") for line in errors.getvalue().splitlines())
        message = " ".join(words.split()).removeprefix("Parsing error").removeprefix("Unrecognized options").strip(" ─")
        raise UsageError(message.split(" For full helptext")[0].split("──")[0].strip()) from None


def typed(prog: str, args: Sequence[str]) -> str:
    """The command line as it was typed, for the record."""
    return shlex.join([*prog.split(), *args])


def warn(line: str) -> None:
    """One line to stderr."""
    print(f"supple: {line}", file=sys.stderr)


@contextlib.contextmanager
def progress_display() -> Iterator[Progress]:
    """Live bars; on a pipe or a file, nothing but the end result is printed."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=screen) as display:
        yield display
