"""What all scripts share: the parser, the screen, and exit statuses."""

import gc
import io
import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import tyro
from rich.console import Console
from rich.text import Text

from supple.engine.settings import require_range
from supple.registry import BrokenPackage
from supple.registry.errors import RunError, UsageError, describe_error, is_of_user, is_out_of_memory
from supple.registry.interruption import end_on_signals
from supple.scripts.cli import describing
from supple.scripts.cli.peers import name_here

EXPECTED = (UsageError, RunError, BrokenPackage, OSError)  # which say themselves what is wrong
READERS = tyro.constructors.ConstructorRegistry()
READERS.struct_rule(describing.read_options)

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
            # a warning without the line of code that issued it
            warnings.showwarning = lambda message, *_, **__: warn(" ".join(str(message).split()))
            main(sys.argv[1:])
            print(end="", flush=True)
    except BrokenPipeError:  # the reader of the output has gone, as in `supple list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141  # the shell's status of a process that SIGPIPE ended
    except Exception as error:
        code = 2 if isinstance(error, UsageError) else 1
        of_disk = isinstance(error, OSError) and error.filename and not is_of_user(error)
        warn(f"{error.filename}: {error.strerror}" if of_disk else describe_error(error))  # type: ignore[attr-defined]
        if is_of_user(error) or not (isinstance(error, EXPECTED) or is_out_of_memory(error)):
            traceback.print_exception(error)
    gc.freeze()  # or Python would search for garbage among all that was imported once more at exit, for half a second
    raise SystemExit(code)


def parse(
    options_class: Any,
    args: Sequence[str],
    prog: str,
    doc: str | None,
    default: Any = None,
    kind: str = "",
) -> Any:
    """Read a dataclass from the command line.

    Args:
        options_class: The dataclass.
        args: The words behind those of `prog`.
        prog: The words of the command, which help shows first.
        doc: The description that help shows.
        default: An instance with the values of options that are not given.
        kind: The kind of run, whose options other libraries may call otherwise.

    If tyro refuses the arguments, it prints why in a box and ends the program with status 2.

    Raises:
        UsageError: An option has another name here, or a number is not possible.
    """
    for word in args:
        if word.startswith("--") and (answer := name_here(kind, word)):
            raise UsageError(f"{answer} (`{prog} --help` lists all)")
    options = tyro.cli(
        options_class,
        args=list(args),
        prog=prog,
        description=indent_commands(doc),
        registry=READERS,
        config=(tyro.conf.FlagCreatePairsOff,),
        **({} if default is None else {"default": default}),
    )
    require_range(options)
    return options


def indent_commands(doc: str | None) -> str:
    """Return a module's docstring with its commands indented, which ruff undoes if all other lines are indented."""
    return re.sub(r"^(?=supple |torchrun )", "  ", (doc or "").strip(), flags=re.MULTILINE)


def explain(doc: str | None, prog: str) -> None:
    """Print the description and the examples of a command without arguments, and what shows all options."""
    say(*f"{prog}: {indent_commands(doc)}\n\n`{prog} --help` lists all options.".split("\n"))


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
