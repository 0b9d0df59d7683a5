"""`supple resume` and `supple report` say in one line that a run's folder was changed."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supple.scripts.main import dispatch

pytestmark = pytest.mark.slow

Ask = Callable[..., tuple[int, str]]
WORDS = "train linear --tasks semantic,reversal --updates-per-task 60 --checkpoint-every 50 --keep-checkpoints 3"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "run"
    dispatch([*WORDS.split(), "--out", str(path)])
    return path


@pytest.fixture
def unfinished(made: Path, tmp_path: Path) -> Path:
    """Return the folder of a run that was stopped at step 100 of 120."""
    path = Path(shutil.copytree(made, tmp_path / "run"))
    shutil.rmtree(path / "checkpoints/000000000120")
    return path


def test_an_unchanged_run_resumes(unfinished: Path, made: Path, ask: Ask) -> None:
    assert ask("resume", unfinished) == (0, "")
    assert (unfinished / "tasks.jsonl").read_bytes() == (made / "tasks.jsonl").read_bytes()


def test_a_changed_number_of_steps_is_noticed(unfinished: Path, ask: Ask) -> None:
    file = unfinished / "config.json"
    file.write_text(file.read_text().replace('"total_steps": 120', '"total_steps": 12'))
    for command in ("resume", "report"):
        code, said = ask(command, unfinished)
        assert code
        assert said.count("\n") == 1
        assert 'config.json: "total_steps" was changed' in said


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        *((entry, junk) for entry in ("total_steps", "seed", "start_step") for junk in (None, "1", [1], True, 1.5)),
        *((entry, junk) for entry in ("settings", "tasks", "hooks", "data") for junk in (None, 3, "x", [None], [[]])),
        *(("algorithm", junk) for junk in (None, [], {}, "ppo ", 0)),
    ],
)
def test_a_value_of_another_type_is_an_error_in_one_line(unfinished: Path, entry: str, value: Any, ask: Ask) -> None:
    file = unfinished / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {entry: value}))
    code, said = ask("resume", unfinished)
    assert code in (1, 2)
    assert said.count("\n") == 1
    assert f'"{entry}" was changed' in said


def test_a_deeply_nested_config_is_an_error_in_one_line(unfinished: Path, ask: Ask) -> None:
    (unfinished / "config.json").write_text('{"settings": ' + "[" * 100_000 + "]" * 100_000 + "}")
    code, said = ask("resume", unfinished)
    assert (code, said.count("\n")) == (1, 1)
    assert "nested too deeply" in said


@pytest.mark.parametrize("log", ["metrics.jsonl", "tasks.jsonl", "events.jsonl"])
def test_a_log_that_is_a_link_is_not_followed(unfinished: Path, tmp_path: Path, log: str, ask: Ask) -> None:
    (tmp_path / "mine").write_text("mine " * 10_000)
    (unfinished / log).unlink()
    (unfinished / log).symlink_to(tmp_path / "mine")
    code, said = ask("resume", unfinished)
    assert (code, said.count("\n")) == (1, 1)
    assert f"{log}: a symbolic link" in said
    assert (tmp_path / "mine").read_text() == "mine " * 10_000


def test_a_folder_named_with_non_ascii_digits_is_not_a_checkpoint(unfinished: Path, ask: Ask) -> None:
    (unfinished / "checkpoints/²").mkdir()
    assert ask("resume", unfinished) == (0, "")


def test_a_pipe_in_place_of_config_json_does_not_block(unfinished: Path, ask: Ask) -> None:
    (unfinished / "config.json").unlink()
    os.mkfifo(unfinished / "config.json")
    for command in ("resume", "report"):
        code, said = ask(command, unfinished)
        assert code
        assert said.count("\n") == 1


def test_a_report_names_the_line_of_a_log_that_was_changed(unfinished: Path, ask: Ask) -> None:
    file = unfinished / "metrics.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, json.dumps(json.loads(rest[0]) | {"step": "ten"}), *rest[1:]]) + "\n")
    code, said = ask("report", unfinished)
    assert code in (1, 2)
    assert said == f"supple: {file}, line 2: 'step' should be an integer, but is \"ten\"\n"


@pytest.mark.parametrize("place", ["kept", "best", "checkpoints", "kept/000000000100", "model", "report", "trackers"])
def test_a_link_inside_a_run_is_refused_before_anything_is_removed(
    unfinished: Path, tmp_path: Path, place: str, ask: Ask
) -> None:
    photos = tmp_path / "photos"
    for name in ("2024", "tmp-2024", "000000000999"):
        (photos / name).mkdir(parents=True)
        (photos / name / "photo").write_text("mine")
    (unfinished / place).parent.mkdir(exist_ok=True)
    if (unfinished / place).exists():
        shutil.rmtree(unfinished / place)
    (unfinished / place).symlink_to(photos)
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    for command in ("resume", "report", "doctor"):
        code, said = ask(command, unfinished)
        assert (code, said) == (1, f"supple: {unfinished / place}: a symbolic link, which supple does not follow\n")
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_users_folders_inside_a_run_are_not_removed(unfinished: Path, ask: Ask) -> None:
    mine = [
        unfinished / place
        for place in ("kept/2019", "best/9999", "checkpoints/1", "kept/tmp-2019", "checkpoints/tmp-photos-2",
                      "tmp-my-model-photos", "tmp-model-zoo", "best/000000999999")
    ]  # fmt: skip
    for folder in mine[:-1]:
        folder.mkdir(parents=True)
        (folder / "photo").write_text("mine")
    mine[-1].write_text("mine")
    assert ask("resume", unfinished)[0] == 0
    assert all(((folder / "photo") if folder.is_dir() else folder).read_text() == "mine" for folder in mine)


def test_only_links_made_by_other_libraries_are_accepted(unfinished: Path, tmp_path: Path, ask: Ask) -> None:
    (unfinished / "trackers/wandb").mkdir(parents=True)
    (unfinished / "trackers/wandb/latest-run").symlink_to("run-1")  # as Weights & Biases makes one
    path = unfinished.rename(tmp_path / "trackers")  # a name that a user may give
    assert ask("resume", path) == (0, "")
    (path / "kept").mkdir()
    (path / "kept/1").symlink_to(tmp_path)
    code, said = ask("resume", path)
    assert (code, said) == (1, f"supple: {path / 'kept/1'}: a symbolic link, which supple does not follow\n")


def test_a_run_given_by_a_link_resumes(unfinished: Path, tmp_path: Path, made: Path, ask: Ask) -> None:
    (tmp_path / "link").symlink_to("run")
    assert ask("resume", tmp_path / "link") == (0, "")
    assert (unfinished / "tasks.jsonl").read_bytes() == (made / "tasks.jsonl").read_bytes()


def test_a_report_replaces_only_a_report(made: Path, tmp_path: Path, ask: Ask) -> None:
    for name in ("report", "report.tmp", "report.old"):
        shutil.copytree(made, tmp_path / name)
        code, said = ask("report", made, "--out", tmp_path)
        assert (code, said.count("\n")) == (2, 1)
        assert f"{tmp_path / name} is not a report of supple" in said
        assert (tmp_path / name / "checkpoints").exists()
        shutil.rmtree(tmp_path / name)


@pytest.mark.parametrize("place", ["kept/7", "report", "mine"])
def test_a_run_inside_another_run_is_refused(unfinished: Path, place: str, ask: Ask) -> None:
    code, said = ask(*WORDS.split(), "--out", unfinished / place)
    assert (code, said.count("\n")) == (2, 1)
    assert f"lies inside {unfinished}" in said
    assert not (unfinished / place).exists()
