"""The progress that is shown of runs: bars of active ones, the number of finished ones, and lines."""

import io
from pathlib import Path

from rich.console import Console

from supple.scripts.cli.progress import display


def screen() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def test_active_runs_have_bars_and_finished_runs_are_counted(tmp_path: Path) -> None:
    with display(screen(), runs=40, ended=3) as shown:
        for number in range(30):
            for step in (1, 10):
                shown.update(f"seed {number}", tmp_path / str(number), step, 10)
        shown.update("seed 30", tmp_path / "30", 4, 10)
        shown.update("seed 2", tmp_path / "2", 10, 10)  # said again: it is counted once
        tasks = shown.bars.tasks  # type: ignore[attr-defined]
        assert [(task.description, task.completed, task.total) for task in tasks] == [
            ("finished runs", 33, 40), ("seed 30", 4, 10),
        ]  # fmt: skip


def test_a_single_run_keeps_its_bar(tmp_path: Path) -> None:
    with display(screen()) as shown:
        shown.update("run", tmp_path, 10, 10)
        assert [task.description for task in shown.bars.tasks] == ["run"]  # type: ignore[attr-defined]


def test_a_line_about_an_agent_has_the_mean_return_of_its_last_ten_episodes(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    returns = [*[1000.0] * 5, *map(float, range(10))]
    (tmp_path / "episodes.jsonl").write_text("".join(f'{{"step": 1, "return": {value}}}\n' for value in returns))
    with display(console) as shown:
        shown.update("run", tmp_path, 10, 10)
    assert "return 4.5" in console.file.getvalue()  # type: ignore[attr-defined]
