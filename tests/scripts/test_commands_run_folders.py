"""`supple resume` and `supple report` say in one line that a run's folder was changed."""

import shutil
from collections.abc import Callable
from pathlib import Path

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


def test_a_report_names_the_line_of_a_log_that_was_damaged(unfinished: Path, ask: Ask) -> None:
    file = unfinished / "metrics.jsonl"
    first, second, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, second[:-2], *rest]) + "\n")
    code, said = ask("report", unfinished)
    assert code in (1, 2)
    assert said.startswith(f"supple: {file}, line 2: broken JSON")
    assert said.count("\n") == 1


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
