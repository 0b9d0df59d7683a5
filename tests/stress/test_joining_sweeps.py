"""Equal commands at once on one folder: sweeps share the work, comparisons are refused in one line. Five minutes."""

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supple.experiments.queue.queue import QueuedRun
from supple.scripts.main import dispatch
from tests.scripts.test_sweep import FILE, ended, results

LINEAR = 'tasks = "semantic,reversal", updates_per_task = 60, checkpoint_every = 15, measure_every = 30'
TUNED = f"""
[lin]
kind = "linear"
settings = {{ {LINEAR} }}
arms = ["none", "snp(lam={{lam}})@task"]
seeds = "0-1"
search = {{ method = "METHOD", points = 3, seeds = [100], share = 1.0, lam = {{ low = 0.1, high = 0.9 }} }}
"""
SWEEPS = {"plain": FILE, "random": TUNED.replace("METHOD", "random"), "tpe": TUNED.replace("METHOD", "tpe")}
COMPARE = "compare linear --tasks semantic,reversal --updates-per-task 60 --arm none --arm snp@task --fork-at 0.5"
TRIALS = 3
counts = {"attempts": 0, "held": 0}


@pytest.fixture(scope="module", autouse=True)
def sums() -> Iterator[None]:
    yield
    print(f"\nequal commands at once: {counts['attempts']} attempts, {counts['held']} held")


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Any) -> Iterator[Path]:
    """Every run that a process trains to its end, in this process and those forked from it."""
    attempt, notes = QueuedRun.record, tmp_path / "notes"

    def ending(job: QueuedRun, outcome: str, **more: Any) -> None:
        attempt(job, outcome, **more)
        with notes.open("a") as log:
            log.write(f"{job.folder}\n")

    monkeypatch.setattr(QueuedRun, "record", ending)
    with here():
        yield notes


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("name", SWEEPS)
def test_equal_sweeps_on_one_folder_share_the_work(
    name: str, late: bool, process: Any, noted: Path, tmp_path: Path
) -> None:
    """late: the others start while the first one trains."""
    (tmp_path / "s.toml").write_text(SWEEPS[name])
    words = ["sweep", str(tmp_path / "s.toml"), "--jobs", "1", "--out"]
    dispatch([*words, str(tmp_path / "whole")])
    draw, wrong = random.Random(name), list[str]()
    for number in range(TRIALS):
        counts["attempts"] += 1
        out, crowd = tmp_path / f"out-{number}", []
        noted.unlink()
        for i in range(3):
            crowd.append(process([*words, str(out)], tmp_path / f"errors-{i}"))
            time.sleep(draw.uniform(0.5, 2) if late else 0)
        codes = [ended(child) for child in crowd]
        said = [(tmp_path / f"errors-{i}").read_text() for i in range(3)]
        twice = [run for run, count in Counter(noted.read_text().splitlines()).items() if count > 1]
        if codes != [0, 0, 0] or any(said) or twice or results(out) != results(tmp_path / "whole"):
            wrong.append(f"{number}: codes {codes}, said {said}, twice {twice}")
            continue
        counts["held"] += 1
        shutil.rmtree(out)
    assert not wrong, "\n".join(wrong)


def test_a_second_comparison_on_a_folder_is_refused_with_the_command_that_joins(
    process: Any, noted: Path, tmp_path: Path
) -> None:
    words = [*COMPARE.split(), "--jobs", "1", "--out"]
    dispatch([*words, str(tmp_path / "whole")])
    for number in range(3 * TRIALS):
        counts["attempts"] += 1
        out = tmp_path / f"out-{number}"
        crowd = [process([*words, str(out)], tmp_path / f"errors-{i}") for i in range(3)]
        codes = [ended(child) for child in crowd]
        said = [(tmp_path / f"errors-{i}").read_text() for i in range(3)]
        assert sorted(codes) == [0, 2, 2], said
        assert sorted(text.count(f"already holds a comparison: `supple worker {out}` joins") for text in said) == [
            0,
            1,
            1,
        ]
        assert sorted(text.count("\n") for text in said) == [0, 1, 1]
        assert results(out) == results(tmp_path / "whole")
        counts["held"] += 1
    assert os.path.exists(noted)
