"""What every script shares: tyro with one-line errors, and a screen."""

import contextlib
import io
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import takewhile
from math import isfinite
from typing import Any

import tyro
from rich.console import Console

from supple.experiments.errors import RunError, UsageError, in_words, is_out_of_memory
from supple.experiments.interruption import watching
from supple.experiments.settings import LARGEST
from supple.registry import BrokenPackage

NUMBERS = tyro.constructors.ConstructorRegistry()


@NUMBERS.primitive_rule
def _integers(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[int] | None:
    """Let every option that takes an integer take it as hooks do: 1_000_000, 1e6, 2.5e6."""
    if info.type is not int:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: integer(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def integer(text: str) -> int:
    """Return the integer that a text writes, with an exponent or without. Raises ValueError."""
    value = float(text) if "e" in text.lower() else int(text[:MOST_DIGITS])
    if not isfinite(value) or abs(value) > LARGEST:
        raise ValueError("larger than 2^53")
    if value != int(value):
        raise ValueError(f"'{text}' is not an integer")
    return int(value)


class Screen(Console):
    def on_broken_pipe(self) -> None:
        """Stop quietly where the reader of our output has seen enough, as in `supple list | head`; see `run`."""
        raise BrokenPipeError


screen = Screen()


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script on the command line's arguments and exit: 0, 1 (could not go on) or 2 (wrong usage)."""
    code, message = 0, ""
    _open_streams()
    try:
        with watching(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            main(sys.argv[1:])
        sys.stdout.flush()
    except UsageError as error:
        code, message = 2, str(error)
    except (RunError, BrokenPackage) as error:
        code, message = 1, str(error)
    except BrokenPipeError:
        code = 141  # as the shell counts a process that SIGPIPE ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        code, message = 1, f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except (MemoryError, RuntimeError, ImportError) as error:
        if not is_out_of_memory(error):
            raise
        code, message = 1, in_words(error)
    if message:
        warn(message)
    sys.exit(code)


def _open_streams() -> None:
    """Let standard output and error be there, where the shell closed them (`>&-`)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  (open to the end)


def parse(
    kind: Any,
    settings: type | None,
    args: Sequence[str],
    prog: str,
    description: str,
    default: Any = None,
    flags: bool = False,
) -> Any:
    """Read a dataclass from the command line: `kind`, or `kind[settings]` where it is generic.

    flags: whether a bool is a flag, `--retry-failed`; else it takes a value, `--curvature True`.

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
                registry=NUMBERS,
                config=(tyro.conf.FlagCreatePairsOff if flags else tyro.conf.FlagConversionOff,),
                **options,
            )
    except SystemExit as stop:
        if not stop.code:
            raise
        raise UsageError(plainly(errors.getvalue(), args)) from None


MOST_DIGITS = 40  # of an integer that is looked at: what is longer is too large in any case

# What tyro says, as a pattern whose first group is the option, and what to say instead.
REFUSALS = (
    (r"Error parsing (--[\w-]+).*larger than 2\^53", "{0}: '{given:.40}' is larger than 2^53"),
    (r"Error parsing (--[\w-]+).* \1 [^ ]*\[INT", "{0}: '{given}' is not made of integers"),
    (r"Error parsing (--[\w-]+).* \1 [^ ]*INT", "{0}: '{given}' is not an integer"),
    (r"Error parsing (--[\w-]+).* \1 [^ ]*FLOAT", "{0}: '{given}' is not a number"),
    (r"invalid choice .* for argument '(--[\w-]+)'. Expected one of \((.*)\)", "{0}: '{given}' is none of {1}"),
    (r"Missing value for argument '(--[\w-]+)'", "{0} needs a value"),
    (r"Required options Missing from .*?: (--\S+) [A-Z]+ (.*?) \(required\)", "{0} is missing: {1}"),
    (r"Required options Missing from (.*?): [A-Z]+ (.*?) \(required\)", "{0} what? {1}"),
    (r"Unrecognized options: ([^\s,]+).*Perhaps you meant: (--[\w-]+)", "unknown option {0}, did you mean {1}?"),
    (r"Unrecognized options: ([^\s,]+)", "unknown option {0}"),
    (r"Error parsing (--[\w-]+): (.*?) Argument helptext", "{0}: {1}"),
)


def plainly(box: str, args: Sequence[str]) -> str:
    """Return what tyro says in a box of several lines, in one."""
    lines = re.sub("─{3,}|-{3,}", " ", box).splitlines()
    text = " ".join(" ".join(line.strip("│╭╮╰╯─|+ ") for line in lines).split()).split(" For full helptext")[0]
    for pattern, words in REFUSALS:
        if found := re.search(pattern, text):
            return words.format(*found.groups(), given=_given(args, found[1]))
    return text


def _given(args: Sequence[str], option: str) -> str:
    """Return what the command line gives an option (the last time), as it was typed."""
    places = [i for i, word in enumerate(args) if word.split("=")[0].replace("_", "-") == option]
    if not places:
        return ""
    first = args[places[-1]].partition("=")[2]
    rest = takewhile(lambda word: not word.startswith("--"), args[places[-1] + 1 :])
    return " ".join([first, *rest]).strip()


def typed(prog: str, args: Sequence[str]) -> str:
    """Return the command line as it was typed, for the record."""
    return shlex.join([*prog.split(), *args])


def warn(line: str) -> None:
    """Write one line to stderr."""
    print(f"supple: {' '.join(line.split())}", file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Warnings are for the user, whom the line of code that gave one does not concern."""
    warn(str(message))
