"""Logs: only one process appends to them, and it notices if another one has changed them."""

import os
from pathlib import Path

import pytest

from supple.engine.storage.logs import FULL, Log
from supple.registry.errors import RunError


def test_lines_wait_in_memory_until_they_are_flushed(tmp_path: Path) -> None:
    log = Log(file := tmp_path / "metrics.jsonl", 0)
    assert not log.add(b"1" * (FULL - 1))
    assert file.read_bytes() == b""
    assert log.add(b"\n")
    log.flush()
    assert file.stat().st_size == log.length == FULL
    log.add(b"lost")
    log.close()
    assert file.stat().st_size == FULL


def test_a_process_whose_log_was_truncated_by_another_notices(tmp_path: Path) -> None:
    former = Log(file := tmp_path / "metrics.jsonl", 0)
    former.add(b"one\ntwo\n")
    former.flush()
    Log(file, 4)
    assert file.read_bytes() == b"one\n"
    former.add(b"more\n")
    with pytest.raises(RunError, match="it has 4 bytes, but this process wrote 8: this log was truncated or replaced"):
        former.flush()


def test_lines_of_another_program_are_noticed(tmp_path: Path) -> None:
    log = Log(file := tmp_path / "metrics.jsonl", 0)
    with file.open("a") as other:
        other.write("x\n")
    log.add(b"1\n")
    with pytest.raises(RunError, match="whose first 0 bytes are the run's"):
        log.flush()
    file.unlink()
    with pytest.raises(RunError, match=r"metrics\.jsonl: this log was removed or renamed$"):
        Log(file, 7)
    assert not [*tmp_path.iterdir()]


def test_lines_that_could_not_be_written_are_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "metrics.jsonl", 0)
    log.add(b"1\n")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            log.flush()
    log.flush()
    assert log.length == 0
