"""What all scripts share: the parser with one-line errors, the screen, and exit statuses."""

import atexit
import contextlib
import gc
import io
import logging
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from itertools import takewhile
from math import isfinite
from typing import Any

import tyro
from rich.console import Console
from rich.text import Text

from supple.engine.settings import LARGEST
from supple.registry import BrokenPackage
from supple.registry.errors import RunError, UsageError, describe_error, is_of_user, is_out_of_memory
from supple.registry.interruption import end_on_signals
from supple.scripts.cli import describing
from supple.scripts.cli.peers import name_here

EXPECTED = (UsageError, RunError, BrokenPackage, OSError)  # which say themselves what is wrong
MOST_DIGITS = 40  # of an integer that are read: longer ones are too large in any case
READERS = tyro.constructors.ConstructorRegistry()
READERS.struct_rule(describing.read_options)


@READERS.primitive_rule
def _read_integers(info: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[int] | None:
    """Read integers in every option as in hooks: 1_000_000, 1e6, 2.5e6."""
    if info.type is not int:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="INT",
        instance_from_str=lambda words: read_integer(words[0]),
        is_instance=lambda value: isinstance(value, int),
        str_from_instance=lambda value: [str(value)],
    )


def read_integer(text: str) -> int:
    """Return the integer that a text denotes, with or without an exponent.

    Raises:
        ValueError: It is not an integer, or its magnitude is larger than 2^53.
    """
    value = float(text) if "e" in text.lower() else int(text[:MOST_DIGITS])
    if not isfinite(value) or abs(value) > LARGEST:
        raise ValueError("larger than 2^53")
    if value != int(value):
        raise ValueError(f"'{text}' is not an integer")
    return int(value)


screen = Console(markup=False, emoji=False, highlight=False)
"""Standard output. Texts are shown as they are: no markup, no emoji codes."""


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script with the arguments of the command line, and exit: 0 done, 1 failed, 2 wrong usage.

    A failure is one line. If a user's own code raised it, or supple's by a fault of supple, its traceback follows.
    """
    code = 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        with end_on_signals(), warnings.catch_warnings():
            warnings.showwarning = _show_warning
            main(sys.argv[1:])
            print(end="", flush=True)
    except BrokenPipeError:  # the reader of the output has gone, as in `supple list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141  # the shell's status of a process that SIGPIPE ended
    except Exception as error:
        code = 2 if isinstance(error, UsageError) else 1
        warn(_describe(error))
        if is_of_user(error) or not (isinstance(error, EXPECTED) or is_out_of_memory(error)):
            traceback.print_exception(error)
    _exit_quickly()
    raise SystemExit(code)


def _describe(error: Exception) -> str:
    """Return the line about a failure."""
    if isinstance(error, OSError) and error.filename and not is_of_user(error):
        return f"{error.filename}: {error.strerror}"
    return describe_error(error)


def _exit_quickly() -> None:
    """Keep PyTorch from making its list of compile times at exit, which takes 0.4 s, unless it would be logged.

    Nor does Python's garbage collector pass over everything that was imported once more, which takes as long.
    """
    gc.collect(1)
    gc.freeze()
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo and not dynamo.log.isEnabledFor(logging.INFO):
        atexit.unregister(dynamo.dump_compile_times)


def parse(
    options_class: Any,
    args: Sequence[str],
    prog: str,
    doc: str | None,
    default: Any = None,
    flags: bool = False,
    kind: str = "",
) -> Any:
    """Read a dataclass from the command line.

    Args:
        options_class: The dataclass.
        args: The words behind those of `prog`.
        prog: The words of the command, which help shows first.
        doc: The description that help shows.
        default: An instance with the values of options that are not given.
        flags: Whether a bool is a flag, as `--retry-failed`, or takes a value, as `--curvature True`.
        kind: The kind of run, whose options other libraries may call otherwise.

    Raises:
        UsageError: tyro refuses the arguments. The message is one line.
    """
    more: dict[str, Any] = {} if default is None else {"default": default}

    def read(words: Sequence[str]) -> tuple[Any, str]:
        """Return the options, and the reason if tyro refuses them."""
        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                options = tyro.cli(
                    options_class,
                    args=list(words),
                    prog=prog,
                    description=indent_commands(doc),
                    registry=READERS,
                    config=(tyro.conf.FlagCreatePairsOff if flags else tyro.conf.FlagConversionOff,),
                    **more,
                )
        except SystemExit as stop:
            if not stop.code:
                raise
            return None, shorten_refusal(errors.getvalue(), args)
        return options, ""

    options, refusal = read(args)
    if missing := re.match(r"(--[\w-]+) is missing", refusal):  # tyro names a missing option before an unknown one
        other = read([*args, missing[1], "."])[1]
        refusal = other if other.startswith("unknown option") else refusal
    if unknown := re.match(r"unknown option ([^\s,]+)", refusal):
        raise UsageError(f"{name_here(kind, unknown[1]) or refusal} (`{prog} --help` lists all)")
    if refusal:
        raise UsageError(refusal)
    return options


def indent_commands(doc: str | None) -> str:
    """Return a module's docstring with its commands indented, which ruff undoes if all other lines are indented."""
    return re.sub(r"^(?=supple |torchrun )", "  ", (doc or "").strip(), flags=re.MULTILINE)


def explain(doc: str | None, prog: str) -> None:
    """Print the description and the examples of a command without arguments, and what shows all options."""
    say(*f"{prog}: {indent_commands(doc)}\n\n`{prog} --help` lists all options.".split("\n"))


def parse_or_explain(options_class: Any, args: Sequence[str], prog: str, doc: str | None, flags: bool = False) -> Any:
    """Return what `parse` returns or, without arguments, print what `explain` prints and return None."""
    if args:
        return parse(options_class, args, prog, doc, flags=flags)
    explain(doc, prog)
    return None


# A pattern of tyro's message, whose first group is the option, and the line that replaces it.
REFUSALS = (
    (r"Error parsing (--[\w-]+).*larger than 2\^53", "{0}: '{given:.40}' is larger than 2^53"),
    (r"Error parsing (--[\w-]+).* \1 [^ ]*\[INT", "{0}: '{given}' is not a list of integers"),
    (r"Error parsing (--[\w-]+).* \1 [^ ]*INT", "{0}: '{given}' is not an integer"),
    (r"Error parsing (--[\w-]+).* \1 [^ ]*FLOAT", "{0}: '{given}' is not a number"),
    (r"invalid choice .* for argument '(--[\w-]+)'. Expected one of \((.*)\)", "{0}: '{given}' is not one of {1}"),
    (r"invalid choice '(.*?)' for argument '\w+'. Expected one of \((.*)\)", "'{0}' is not one of {1}"),
    (r"Missing value for argument '(--[\w-]+)'", "{0} needs a value"),
    (r"Missing value for argument '([\w-]+)'", "{0} is missing"),
    (r"Required options Missing from .*?: (--\S+) [A-Z]+ (.*?) \(required\)", "{0} is missing: {1}"),
    (r"Required options Missing from .*?: ([A-Z|]+) (.*?) \(required\)", "{0} is missing: {1}"),
    (r"Unrecognized options: ([^\s,]+).*Perhaps you meant: (--[\w-]+)", "unknown option {0}, did you mean {1}?"),
    (r"Unrecognized options: ([^\s,]+)", "unknown option {0}"),
    (r"Error parsing (--[\w-]+): (.*?) Argument helptext", "{0}: {1}"),
)


def shorten_refusal(box: str, args: Sequence[str]) -> str:
    """Return one line for the message that tyro prints in a box of several lines."""
    lines = re.sub("─{3,}|-{3,}", " ", box).splitlines()
    text = " ".join(" ".join(line.strip("│╭╮╰╯─|+ ") for line in lines).split()).split(" For full helptext")[0]
    for pattern, line in REFUSALS:
        if match := re.search(pattern, text):
            return line.format(*match.groups(), given=_find_text(args, match[1]))
    return text


def _find_text(args: Sequence[str], option: str) -> str:
    """Return the last value that the command line gives to an option, as it was typed."""
    places = [i for i, word in enumerate(args) if word.split("=")[0].replace("_", "-") == option]
    if not places:
        return ""
    first = args[places[-1]].partition("=")[2]
    rest = takewhile(lambda word: not word.startswith("--"), args[places[-1] + 1 :])
    return " ".join([first, *rest]).strip()


def join_command(prog: str, args: Sequence[str]) -> str:
    """Return the command line as it was typed, for config.json."""
    return shlex.join([*prog.split(), *args])


def say(*lines: str) -> None:
    """Print lines, however long."""
    for line in lines:
        screen.print(Text(line), soft_wrap=True)


def warn(line: str) -> None:
    """Print one line to stderr."""
    print(f"supple: {line.strip()}", file=sys.stderr)


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Print a warning without the line of code that issued it."""
    warn(" ".join(str(message).split()))
