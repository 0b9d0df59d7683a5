"""Other systems: nothing that only Linux has is needed. Windows and macOS are imitated (tests/other_systems)."""

import ast
import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supple.engine.machine.denormals import flushing_denormals
from supple.registry import signals
from tests.processes import skipping_without_posix

ROOT = Path(__file__).parent.parent
ROOMS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["supple"]["rooms"]
SOURCES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
LINEAR = ("linear", "--tasks", "semantic,reversal", "--updates-per-task", "30", "--checkpoint-every", "10")
RUN = (*LINEAR, "--hook", "snp@0.5", "--out")

# Names of os and signal that Windows or macOS lacks, and where each is used because it was looked for first.
ONLY_POSIX = {
    *("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "sched_getaffinity", "sched_setaffinity", "fork"),
    *(
        "getuid",
        "geteuid",
        "getgid",
        "getpgid",
        "killpg",
        "setsid",
        "uname",
        "statvfs",
        "mkfifo",
        "chown",
        "getloadavg",
    ),
    *("SIGKILL", "SIGHUP", "SIGALRM", "SIGPIPE", "SIGSTOP", "SIGCONT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD"),
    *("pthread_sigmask", "alarm", "setitimer", "pause", "sigwait"),
}
LOOKED_FOR = {
    "registry/signals.py": {"pthread_sigmask"},
    "engine/machine/resources.py": {"sched_getaffinity"},
    "engine/storage/files.py": {"O_DIRECTORY", "O_NOFOLLOW"},
}
POSIX_MODULES = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "readline"}


def pretended(system: str, commands: list[list[str]], *saves: int) -> tuple[int, list[Any]]:
    """Run commands in an interpreter that behaves like one on Windows or macOS; return its status and the results."""
    own = {"PYTHONPATH": str(ROOT / "tests" / "other_systems"), "SUPPLE_PRETEND": system, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "pretended", json.dumps(commands), *map(str, saves)]
    done = subprocess.run(words, env=os.environ | own, stdout=subprocess.PIPE, text=True, timeout=600)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def contents(run: Path) -> dict[str, Any]:
    """All that a run wrote, without clocks."""
    found: dict[str, Any] = {
        str(file.relative_to(run)): file.read_bytes()
        for file in run.rglob("*.safetensors")
        if "report" not in file.parts
    }
    for log in run.glob("*.jsonl"):
        found[log.name] = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
        for row in found[log.name]:
            row.pop("time", None)
            row.pop("seconds", None)
    return found


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_only_some_systems_have_is_looked_for_first(file: Path) -> None:
    known = LOOKED_FOR.get(str(file.relative_to(ROOT)), set())
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "signal"):
            assert node.attr not in ONLY_POSIX - known, f"line {node.lineno}: {node.attr}"
        if isinstance(node, ast.Import):
            assert not {alias.name.split(".")[0] for alias in node.names} & POSIX_MODULES
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            assert node.module not in POSIX_MODULES
            if node.module in ("os", "signal"):
                assert not {alias.name for alias in node.names} & ONLY_POSIX


def texts(file: Path) -> Iterator[ast.Call]:
    """The calls in a file that read or write text, or start a program whose output is text."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        words = {word.arg: word.value for word in node.keywords}
        if name in ("read_text", "write_text") or (name in ("run", "Popen", "check_output") and "text" in words):
            yield node
        elif name in ("open", "fdopen", "NamedTemporaryFile", "TemporaryFile"):
            # open(file, mode), and path.open(mode), which another `open(…)` of ours is not if it is given no mode
            place = 0 if isinstance(node.func, ast.Attribute) and name == "open" else 1
            mode = words.get("mode") or (node.args[place] if len(node.args) > place else None)
            if isinstance(mode, ast.Constant) and isinstance(mode.value, str) and set(mode.value) <= set("rwaxt+"):
                yield node


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_texts_are_utf_8_with_the_same_line_ends_everywhere(file: Path) -> None:
    for call in texts(file):
        words = {word.arg for word in call.keywords}
        assert "encoding" in words, f"line {call.lineno}: cp1252 on Windows"
        if isinstance(call.func, ast.Attribute) and call.func.attr == "write_text":
            assert "newline" in words, f"line {call.lineno}: \\r\\n on Windows"


# -- single differences ------------------------------------------------------------------------------------------


def test_a_processor_that_cannot_flush_denormal_numbers_is_not_said_to_have_started_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("torch.set_flush_denormal", lambda _: False)
    monkeypatch.setattr("torch.set_num_threads", lambda _: None)
    told: list[str] = []
    with flushing_denormals(2, told.append):
        pass
    assert told == []


def test_signals_that_have_no_name_or_do_not_exist_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (signals.signal_name(-9), signals.signal_name(-42)) == ("SIGKILL", "signal 42")
    monkeypatch.delattr("signal.pthread_sigmask")
    with signals.block_signals():
        pass


def test_a_test_that_needs_posix_is_skipped_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "mkfifo", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"^os\.mkfifo is only on POSIX$"), skipping_without_posix():
        os.mkfifo("pipe")
    with pytest.raises(AttributeError, match="mkfifoo"), skipping_without_posix():
        exec(compile("os.mkfifoo('pipe')", "engine/storage/files.py", "exec"), {"os": os})  # of the library


def test_the_imitation_catches_what_it_is_for(tmp_path: Path) -> None:
    """Without it, the tests above would show nothing."""
    code = """
import os, signal, pathlib, json, sys
found = []
def caught(what):
    try:
        what()
    except (OSError, AttributeError, ImportError, ValueError) as error:
        found.append(type(error).__name__)
    else:
        found.append("")
def take_fcntl(): import fcntl
here = pathlib.Path(sys.argv[1])
(here / "open").write_text("a\\n"); held = (here / "open").open("rb")
caught(take_fcntl)
caught(lambda: os.O_NOFOLLOW)
caught(lambda: signal.SIGKILL)
caught(lambda: os.sched_getaffinity(0))
caught(lambda: os.open(here, os.O_RDONLY))
caught(lambda: (here / "open").unlink())
caught(lambda: (here / "open").rename(here / "b"))
caught(lambda: (here / "a:b").mkdir())
caught(lambda: (here / "nul").open("w"))
caught(lambda: (here / "x").write_text("\\u03bb\\u2192"))
caught(lambda: os.fsync(held.fileno()))
caught(lambda: open("/proc/cpuinfo"))
caught(lambda: __import__("multiprocessing").get_context("fork"))
found.append((here / "open").read_bytes().decode())
print(json.dumps(found))
"""
    asked = f"import types; m = types.ModuleType('supple.tried'); exec(compile({code!r}, 'tried', 'exec'), vars(m))"
    own = {"PYTHONPATH": str(ROOT / "tests" / "other_systems"), "SUPPLE_PRETEND": "windows"}
    done = subprocess.run([sys.executable, "-c", asked, str(tmp_path)], env=os.environ | own, capture_output=True)
    lacks, denied = ["ModuleNotFoundError", *["AttributeError"] * 3], ["PermissionError"] * 3
    rest = ["OSError", "OSError", "UnicodeEncodeError", "OSError", "FileNotFoundError", "ValueError", "a\r\n"]
    assert json.loads(done.stdout) == [*lacks, *denied, *rest], done.stderr.decode()
    assert isinstance(io.open, type(len))  # this process is as before
