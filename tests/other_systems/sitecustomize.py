"""Makes the interpreter behave like one on Windows or macOS, as far as supple can tell: SUPPLE_PRETEND=windows|macos.

Python imports this file at its start in every process, worker processes too, if its folder is in PYTHONPATH.

Windows: modules, functions and signals that only POSIX has are missing; a folder cannot be opened; files and folders
that are open cannot be replaced, renamed or removed; names with `:` and the like, and names of devices, are refused;
texts without an encoding are cp1252, and `\\n` becomes `\\r\\n` in those that are written as text; no fork; no `/proc`.
macOS: no affinity, no `/proc`, no fork.

Only supple is deceived; what other libraries do on those systems is not imitated.
"""

import builtins
import io
import multiprocessing.context
import os
import re
import shutil
import signal
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

OF_POSIX = ("fcntl", "resource", "pwd", "grp", "termios")  # modules
OF_OS = (
    *("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_TMPFILE", "sched_getaffinity", "sched_setaffinity", "fork"),
    *("forkpty", "getuid", "geteuid", "getpgid", "killpg", "setsid", "statvfs", "mkfifo", "getloadavg"),
)
OF_SIGNAL = ("SIGKILL", "SIGHUP", "SIGALRM", "SIGPIPE", "SIGSTOP", "SIGQUIT", "pthread_sigmask", "alarm", "setitimer")
NO_NAME = re.compile(r'[<>:"|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.IGNORECASE)
OF_LINUX = ("/proc", "/sys")


def asks() -> str:
    """The module that asked for a file: the first outside pathlib."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals.get("__name__") in ("pathlib", __name__):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


def ours(module: str) -> bool:
    return module.split(".")[0] == "supple"


def refuse(path: Any, why: str) -> None:
    raise PermissionError(13, f"Permission denied ({why})", os.fspath(path))


def check_name(path: Any) -> None:
    if isinstance(path, (str, os.PathLike)) and not os.fspath(path).startswith("/dev/"):
        for part in Path(path).parts[1:] if os.path.isabs(path) else Path(path).parts:
            if part not in (".", "..") and NO_NAME.search(part):
                raise OSError(22, "Invalid argument (no name of Windows)", os.fspath(path))


def check_closed(path: Any) -> None:
    """Refuse a change of what this process has open or mapped, be it the file itself or one in the folder."""
    real = os.path.realpath(path)
    mapped = [line.split(maxsplit=5)[-1].rstrip("\n") for line in plain_open("/proc/self/maps") if "/" in line]
    held = list(mapped)
    for number in os.listdir("/proc/self/fd"):
        try:
            held.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            continue
    if any(file == real or file.startswith(f"{real}/") for file in held):
        refuse(path, "it is open")


plain_open, plain_os_open = io.open, os.open


def without_linux() -> None:
    """No `/proc` and no affinity, for supple; no fork, for all."""

    def opened(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        if str(file).startswith(OF_LINUX) and ours(asks()):
            raise FileNotFoundError(2, "No such file or directory", str(file))
        return plain_open(file, mode, *args, **more)

    io.open = builtins.open = opened  # type: ignore[assignment]
    for method in ("fork", "forkserver"):
        multiprocessing.context._concrete_contexts.pop(method)  # type: ignore[attr-defined]
    multiprocessing.context._default_context.set_start_method("spawn", force=True)  # type: ignore[attr-defined]


def hide(module: types.ModuleType, names: Sequence[str]) -> None:
    """Hide names of a module from supple. Other libraries need them where they find Linux."""
    hidden = {name: vars(module).pop(name) for name in names if name in vars(module)}

    def attribute(name: str) -> Any:
        if name in hidden and not ours(str(sys._getframe(1).f_globals.get("__name__"))):
            return hidden[name]
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")

    module.__getattr__ = attribute  # type: ignore[method-assign]


def like_macos() -> None:
    without_linux()
    hide(os, ("sched_getaffinity", "sched_setaffinity", "O_TMPFILE"))


def like_windows() -> None:
    without_linux()
    plain_import = builtins.__import__

    def imported(name: str, globals: Any = None, *args: Any, **more: Any) -> Any:
        if name in OF_POSIX and ours((globals or {}).get("__name__", "")):  # others need them where they find Linux
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return plain_import(name, globals, *args, **more)

    builtins.__import__ = imported
    hide(os, OF_OS)
    hide(signal, OF_SIGNAL)
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    opened_so_far = io.open

    def opened(file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, *args: Any, **more: Any) -> Any:
        if ours(module := asks()) and "b" not in mode:
            if encoding in (None, "locale"):
                encoding = "cp1252"
            errors, newline = [*args, None, None][:2]
            if mode[0] in "wax" and newline is None and more.get("newline") is None:
                args, more = (), {"errors": errors, "newline": "\r\n"} | more
        if mode[0] in "wax" and ours(module):
            check_name(file)
        if isinstance(file, (str, os.PathLike)) and ours(module) and os.path.isdir(file):
            refuse(file, "a folder")
        return opened_so_far(file, mode, buffering, encoding, *args, **more)

    def os_opened(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if os.path.isdir(path):
            refuse(path, "a folder")
        if flags & os.O_CREAT:
            check_name(path)
        return plain_os_open(path, flags, *args, **more)

    io.open = builtins.open = opened  # type: ignore[assignment]
    os.open = os_opened  # type: ignore[assignment]
    plain_fsync = os.fsync

    def fsync(handle: int) -> None:
        number = handle if isinstance(handle, int) else handle.fileno()
        with plain_open(f"/proc/self/fdinfo/{number}") as about:
            flags = next(int(line.split()[1], 8) for line in about if line.startswith("flags:"))
        if flags & 3 == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor (only what can be written is flushed)")
        plain_fsync(handle)

    os.fsync = fsync
    for name in ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link"):
        setattr(os, name, guarded(name, getattr(os, name)))


def guarded(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    def call(path: Any, *args: Any, **more: Any) -> Any:
        if more.get("dir_fd") is None and name not in ("mkdir", "link"):
            check_closed(path)
        if name in ("replace", "rename", "link"):
            check_name(args[0])
            if name != "link" and os.path.lexists(args[0]):
                if name == "rename" or os.path.isdir(args[0]):
                    raise FileExistsError(17, "File exists", os.fspath(path), None, os.fspath(args[0]))
                check_closed(args[0])
        if name == "mkdir":
            check_name(path)
        return plain(path, *args, **more)

    return call


{"windows": like_windows, "macos": like_macos}.get(os.environ.get("SUPPLE_PRETEND", ""), lambda: None)()
