"""Texts that cannot be seen, words for a shell, and standard streams that fail."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supple.registry import quoted, shown, streams, tell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a[/b] :smile: $x$ 名前 😀", "a[/b] :smile: $x$ 名前 😀"),
        ("\x1b[31m\x07", r"\x1b[31m\x07"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("caf\udce9", r"caf\xe9"),  # as Python reads the byte 0xE9 of a file name
        ("\u202egnp.exe\u200b", r"\u202egnp.exe\u200b"),
        ("\ud800", r"\ud800"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_shell_reads_back_a_quoted_word(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    words = ["plain", "a b", "it's `x` $(y)", "a\n'b'\\", "caf\udce9", "é−", "\x1b[m", "\udcf0\udc9f1f"]
    line = " ".join(map(quoted, words))
    line.encode(encoding)
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], stdout=subprocess.PIPE, check=True)
    assert done.stdout.split(b"\0")[:-1] == [os.fsencode(word) for word in words]


def test_a_path_is_no_option() -> None:
    assert quoted(Path("-x")) == "./-x"


def test_a_line_is_printed_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(data, "ascii", write_through=True))
    tell("−5 \udcff\x1b")
    assert data.getvalue() == rb"\u22125 \xff\x1b" + b"\n"


def test_output_that_fails_is_dropped_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    monkeypatch.setattr(sys, "stdout", open(writer, "w"))  # noqa: SIM115
    monkeypatch.setattr(streams, "_lost", {})
    streams.protect_streams()
    os.close(reader)
    for _ in range(3):
        print("nobody reads this", flush=True)
    failed = streams._lost[writer]
    assert streams.is_broken_pipe(failed)


def test_a_full_pipe_that_does_not_block_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    program = f"import os, time; time.sleep(0.2)\nwhile os.read({reader}, 1 << 20): pass"
    child = subprocess.Popen([sys.executable, "-c", program], pass_fds=(reader,))
    os.close(reader)
    with streams.Outlet(writer, "w") as outlet:
        sizes = [outlet.write(b"x" * 50_000) for _ in range(8)]
    assert min(sizes) > 0
    assert child.wait() == 0
