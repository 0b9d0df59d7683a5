"""Calls of code that is not supple's own: whatever it does, it ends in one exception, which names it in one line.

    with calling(intervention, "hook", "halve@task", "apply on 'agent'") as call:
        written = intervention.apply(learner)
        call.require(isinstance(written, list), "a list of names", written)

Code is foreign if its module lies outside supple, such as that of a plug-in. Exceptions of supple's own code pass.
"""

import contextlib
import inspect
import os
import reprlib
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from .messages import message_of, one_line
from .shown import shown
from .signals import is_interruption

OWN = __name__.partition(".")[0]  # the package whose code is not foreign


class PluginFault(RuntimeError):
    """Foreign code raised an exception, returned a wrong value, or left a changed process behind.

    Args:
        owner: The file or package with the code.
        word: The kind of thing that was called, such as "hook".
        name: Its name, such as "halve@task".
        what: What happened, in one line.

    All are attributes, too.
    """

    def __init__(self, owner: str, word: str, name: str, what: str) -> None:
        super().__init__(owner, word, name, what)  # so that it can be sent to another process
        self.owner, self.word, self.name, self.what = owner, word, name, what

    def describe(self, when: str = "") -> str:
        """Return the line. `when` says at which step it happened, as " at step 20"."""
        return f"plug-in {self.owner}: {self.word} {self.name}{when}: {self.what}"

    def __str__(self) -> str:
        return self.describe()


class calling:
    """A block in which foreign code may run. It raises PluginFault for all that the code does wrong.

    That is every exception (also SystemExit and the like, but not the user's Ctrl-C), and any change of what `KEPT`
    lists, which is undone. If `entry` belongs to supple, nothing is caught or compared. A process that the code forked
    ends here: it must not go on as this one does.

    Args:
        entry: The object whose code is called.
        word: The kind of thing that is called, such as "hook".
        name: Its name, such as "halve@task".
        call: The call in messages, such as "apply on 'agent'".
        refusals: Exceptions by which the code may refuse, which pass. A ValueError gets one line that names the code.
    """

    __slots__ = ("before", "call", "name", "owner", "process", "refusals", "word")

    def __init__(
        self, entry: object, word: str, name: str, call: str, refusals: tuple[type[BaseException], ...] = ()
    ) -> None:
        self.owner = owner_of(entry)
        self.word, self.name, self.call, self.refusals = word, name, call, refusals

    def __enter__(self) -> Self:
        self.before = look_up() if self.owner else {}
        self.process = os.getpid() if self.owner else 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.owner:
            return
        if os.getpid() != self.process:
            os.write(2, f"supple: {self.fault(f'{self.call} forked; the new process ends here')}\n".encode())
            os._exit(1)
        changed = put_back(self.before)
        if error is None:
            if changed:
                raise self.fault(f"{self.call} changed {changed}, which has been put back")
            return
        if isinstance(error, PluginFault) or is_interruption(error):
            return
        if isinstance(error, self.refusals):
            if isinstance(error, ValueError):
                raise ValueError(f"{message_of(error)} (plug-in {self.owner})") from error
            return
        raise self.fault(f"{self.call} raised {describe_raised(error, self.owner)}") from error

    def fault(self, what: str) -> PluginFault:
        return PluginFault(self.owner, self.word, self.name, what)

    def require(self, holds: bool, wanted: str, value: object) -> None:
        """Raise PluginFault if what the code returned is not what was wanted; TypeError if the code is supple's own."""
        if not holds:
            what = f"{self.call} must return {wanted}, not {summary(value)}"
            raise self.fault(what) if self.owner else TypeError(f"{self.name}: {what}")


Kept = tuple[Callable[[], Any], Callable[[Any], Any]]


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


_getsignal = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)  # which makes no member of an enum


def _handlers() -> tuple[Any, ...]:
    return _getsignal(2), _getsignal(15)  # SIGINT and SIGTERM


def _set_handlers(handlers: tuple[Any, ...]) -> None:
    for number, handler in zip((signal.SIGINT, signal.SIGTERM), handlers, strict=True):
        signal.signal(number, handler)


def _streams() -> tuple[Any, ...]:
    streams = sys.stdout, sys.stderr
    return *streams, *(getattr(stream, "closed", None) for stream in streams)


def _set_streams(before: tuple[Any, ...]) -> None:
    for i, name in enumerate(("stdout", "stderr")):
        stream = before[i]
        if stream is not None and stream.closed and not before[i + 2]:
            try:  # Python closes its own object only
                encoding = getattr(stream, "encoding", None)
                stream = open(i + 1, "w", encoding=encoding, errors="backslashreplace", closefd=False)  # noqa: SIM115
            except OSError:
                stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        setattr(sys, name, stream)


def _errors() -> list[Any]:
    return [entry for entry in warnings.filters if entry[0] == "error"]


def _set_errors(before: list[Any]) -> None:
    for entry in _errors():
        if entry not in before:
            warnings.filters.remove(entry)  # type: ignore[attr-defined]


KEPT: dict[str, Kept] = {  # what foreign code must leave as it was: how it is looked up, and put back
    "the working directory": (_folder, os.chdir),
    "the handlers of SIGINT or SIGTERM": (_handlers, _set_handlers),
    "standard output or standard error": (_streams, _set_streams),
    "warnings to errors": (_errors, _set_errors),
}


def look_up() -> dict[str, Any]:
    """Return all that must stay as it is, by its name in messages."""
    return {what: look() for what, (look, _) in KEPT.items()}


def put_back(before: Mapping[str, Any]) -> str:
    """Undo changes since `look_up`, and return what was changed, in words."""
    now = look_up()
    if now == before:
        return ""
    changed = [what for what, value in before.items() if now.get(what) != value]
    for what in changed:
        with contextlib.suppress(Exception):  # such as a folder that was removed
            KEPT[what][1](before[what])
    return " and ".join(changed)


def require_callable(entry: object, base: type) -> None:
    """Raise ValueError if what overrides a public method of `base` is none, or would not run when it is called."""
    for name, function in vars(base).items():
        if not inspect.isfunction(function) or name.startswith("_"):
            continue
        method = getattr(entry, name)
        if not callable(method):
            raise ValueError(f"{name} must be a method, not {summary(method)}")
        if inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method):
            raise ValueError(f"{name} is declared by `async def`, so that a call of it does nothing: leave out `async`")
        if inspect.isgeneratorfunction(method):
            raise ValueError(f"{name} has `yield` in it, so that a call of it does nothing: leave it out")


def owner_of(entry: object) -> str:
    """Return the file or package that an object's code comes from, or "" if that is supple.

    The object is a function, a class or an instance of one.
    """
    while hasattr(entry, "func"):  # functools.partial
        entry = entry.func
    name = getattr(entry, "__module__", None) or type(entry).__module__
    top = str(name).partition(".")[0]
    if top == OWN:
        return ""
    file = str(getattr(sys.modules.get(str(name)), "__file__", None) or "")
    single = file and "." not in str(name) and not file.endswith("__init__.py")
    return os.path.basename(file) if single else top


def describe_raised(error: BaseException, owner: str = "") -> str:
    """Return an exception in one line, with the innermost place in foreign code that it went through.

    owner: The file that is named already. A place in it comes before those in libraries that it calls.
    """
    places = [(shown(frame.f_code.co_filename), module_of(frame), line) for frame, line in reversed(frames(error))]
    for file, _, line in places:
        if Path(file).name == owner:
            return f"{one_line(error)} (line {line})"
    for file, name, line in places:
        if name not in (OWN, "torch", "numpy", *sys.stdlib_module_names) and not file.startswith("<"):
            return f"{one_line(error)} ({file}, line {line})"
    return one_line(error)


def frames(error: BaseException) -> list[tuple[FrameType, int]]:
    """Return the frames that an exception went through, the outermost first, each with its line."""
    return list(traceback.walk_tb(error.__traceback__))


def module_of(frame: FrameType) -> str:
    """Return the top package or the module of the code in a frame."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def summary(value: object) -> str:
    """Return a short description of a value, in one line. A coroutine is closed, so that Python does not warn of it."""
    if inspect.iscoroutine(value):
        value.close()
    if (shape := getattr(value, "shape", None)) is not None and getattr(value, "dtype", None) is not None:
        return shown(f"a {type(value).__name__} of {value.dtype} with the shape {tuple(shape)}")  # type: ignore[attr-defined]
    if isinstance(value, type):
        return f"the class {shown(value.__name__)}"
    if value is None or isinstance(value, Mapping | str | bytes | list | tuple | set | int | float | complex):
        with contextlib.suppress(Exception):  # of its own code
            return shown(" ".join(reprlib.repr(value).split()))
    return f"a value of type {shown(type(value).__name__)}"
