"""Names are printed in any encoding, and commands whose output fails end as they should."""

import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from supple.engine import runs
from supple.engine.spec import RunSpec
from supple.registry import shown, streams
from supple.scripts.cli.console import run
from supple.scripts.main import dispatch

LINEAR = ["--tasks", "semantic", "--updates-per-task", "8", "--measure-every", "4", "--checkpoint-every", "4"]
NAMES = ("[/red] x", "a[bold]b :smile:", "\x1b]0;x\x07\n", "caf\udce9", "\u202egnp", "−名 $\\foo$", "=1+1")


def said(words: Sequence[str], encoding: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, str]:
    """Return the exit status of a command, and what it prints on streams that refuse what their encoding lacks."""
    out, err = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding, write_through=True))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(err, encoding, write_through=True))
    monkeypatch.setattr(sys, "argv", ["supple", *words])
    with pytest.raises(SystemExit) as stop:
        run(dispatch)
    return int(stop.value.code or 0), out.getvalue().decode(encoding), err.getvalue().decode(encoding)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "cp1252"])
def test_names_are_printed_as_plain_text_in_any_encoding(
    name: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / name.replace("/", "|"))
    for words in (["report", path], ["resume", path], ["list", f" {path}"], ["train", "linear", "--hook", path]):
        code, out, err = said([*words, *(["--out", path] if words[0] == "train" else [])], encoding, monkeypatch)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert not set(err) & {"\x1b", "\x07", "\u202e"}
        if encoding == "utf-8" and words[0] == "report":
            assert shown(path) in err


@pytest.mark.slow
def test_a_run_in_a_folder_with_an_odd_name_prints_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a[/b]\x1b\udce9−"
    code, told, err = said(["train", "linear", *LINEAR, "--out", str(out)], "ascii", monkeypatch)
    assert (code, err) == (0, "")
    assert r"a[/b]\x1b\xe9\u2212" in told
    assert r"a[/b]\x1b\xe9\xe2\x88\x92'  (tables and figures)" in told
    assert json.loads((out / "config.json").read_text())["command"].endswith(f"'{out}'")
    assert said(["report", str(out)], "ascii", monkeypatch)[0] == 0
    assert (out / "report/index.html").exists()


@pytest.mark.parametrize("command", ["train", "compare"])
def test_a_run_finishes_although_nobody_reads_its_output(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Callable
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    monkeypatch.setattr(sys, "stdout", open(writer, "w"))  # noqa: SIM115
    monkeypatch.setattr(streams, "_lost", {})
    arms = ["--arm", "none", "--arm", "snp@0.5", "--seeds", "0", "--fork-at", "0"] if command == "compare" else []
    monkeypatch.setattr(sys, "argv", ["supple", command, "linear", *LINEAR, *arms, "--out", str(tmp_path / "r")])
    with here(), pytest.raises(SystemExit) as stop:
        run(dispatch)
    assert stop.value.code == 0
    assert [file.parent.name for file in (tmp_path / "r").rglob("checkpoints/*8")]


def test_an_error_of_the_display_is_not_taken_for_one_of_the_run(tmp_path: Path) -> None:
    from supple.tracks.linear.settings import LinearSettings

    settings = LinearSettings(tasks="semantic", updates_per_task=8, measure_every=8)
    trained = runs.prepare(RunSpec("linear", settings), tmp_path / "r", print)

    def progress(step: int) -> None:
        raise OSError(28, "of the display")

    with pytest.raises(OSError, match="of the display") as failed:
        trained.train(progress)
    assert type(failed.value) is OSError


@pytest.mark.parametrize(
    ("command", "code", "line"),
    [
        ("list kinds", 1, "supple: standard output: No space left on device\n"),
        ("--help", 1, "supple: standard output: No space left on device\n"),
        ("new metric mine --out {}", 0, ""),  # its result is a file
        ("list nothing", 2, "supple: unknown topic"),
    ],
)
def test_commands_that_only_print_fail_if_their_output_fails(
    command: str, code: int, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "argv", ["supple", *command.format(tmp_path).split()])
        monkeypatch.setattr(streams, "_lost", {})
        with pytest.raises(SystemExit) as stop:
            run(dispatch)
    assert stop.value.code == code
    assert capsys.readouterr().err.startswith(line)
