"""Files with a checksum: written completely or not at all, and an edited file is refused."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from supple.engine.storage.signed_json import FORMAT, SIGNATURE, read_json, start_folder, write_json
from supple.registry.errors import RunError, UsageError

VALUE: dict[str, Any] = {"total_steps": 1000, "seed": 0, "settings": {"hidden": (8, 8), "rate": 1e-3, "name": "λ"}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    start_folder(tmp_path / "run", "config.json", VALUE)
    return tmp_path / "run/config.json"


def test_what_was_written_is_read_back_without_its_signature_in_any_order(file: Path) -> None:
    file.write_text(json.dumps(dict(reversed(json.loads(file.read_text()).items()))))
    assert read_json(file, "") == json.loads(json.dumps(VALUE))


@pytest.mark.parametrize(
    "edit", [{"total_steps": 100}, {"seed": False}, {"note": None}, {SIGNATURE: {"format": FORMAT, "sha256": ""}}]
)
def test_an_edited_file_is_refused_by_its_name(file: Path, edit: dict[str, Any]) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | edit))
    with pytest.raises(RunError, match=r"config\.json: changed since supple wrote it"):
        read_json(file, "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            json.dumps(VALUE),
            "x: its config.json was written by another version of supple: continue with",
        ),
        (json.dumps({SIGNATURE: {"format": FORMAT - 1, "version": "9.0"}}), "continue with the version 9.0"),
        ("[1]", "config.json: damaged"),
        ('{"kind": "pp', "config.json: damaged"),
    ],
)
def test_a_file_of_another_version_or_program_is_refused_by_its_name(file: Path, text: str, words: str) -> None:
    file.write_text(text)
    with pytest.raises((RunError, UsageError), match=words):
        read_json(file, "x")


def test_a_plain_file_is_refused_as_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"has no config\.json"):
        read_json(tmp_path / "file" / "config.json", "it")


def test_json_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path, "") == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["x.json"]


@pytest.mark.parametrize(("file", "what"), [("comparison.json", "a comparison"), ("sweep.json", "a sweep")])
def test_starting_in_the_folder_of_a_comparison_is_refused_with_the_command_that_joins_it(
    tmp_path: Path, file: str, what: str
) -> None:
    start_folder(tmp_path, file, VALUE)
    words = (
        rf"already holds {what}: `supple worker {tmp_path}` joins in its runs, `supple resume {tmp_path}` continues it"
    )
    with pytest.raises(UsageError, match=words):
        start_folder(tmp_path, file, VALUE)


def test_of_several_processes_that_start_in_one_folder_one_succeeds_and_the_others_are_refused(tmp_path: Path) -> None:
    for trial in range(20):
        path, together = tmp_path / str(trial), threading.Barrier(4)
        path.mkdir()

        def begin(number: int, path: Path = path, together: threading.Barrier = together) -> str:
            together.wait()
            try:
                start_folder(path, "config.json", {"number": number})
            except UsageError as error:
                return str(error)
            return "began"

        with ThreadPoolExecutor(4) as pool:  # whose open files lock each other out, as processes' do
            said = list(pool.map(begin, range(4)))
        assert sum("already holds another run" in line for line in said) == 3
        assert read_json(path / "config.json", "")["number"] == said.index("began")
