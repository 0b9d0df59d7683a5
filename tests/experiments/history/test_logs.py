"""Invalid lines of logs are named by file and number."""

import json
from pathlib import Path
from typing import Any

import pytest

from supple.experiments.history.logs import read_log

GOOD: dict[str, dict[str, Any]] = {
    "metrics": {"step": 8, "time": 0.5, "task": 1, "loss": None},
    "episodes": {"step": 8, "return": 1.5, "length": 3, "env": "x", "exploded": True},
    "events": {"event": "intervention", "step": 8, "before": {"dfi": None}, "contract": {"weights": "all"}},
    "tasks": {"step": 8, "task": 1, "name": "x", "accuracies": [0.5, None], "score_of": "accuracy"},
}


@pytest.mark.parametrize("log", GOOD)
def test_lines_as_runs_write_them_are_read(tmp_path: Path, log: str) -> None:
    (tmp_path / f"{log}.jsonl").write_text(2 * (json.dumps(GOOD[log]) + "\n"))
    assert read_log(tmp_path, log, 2) == 2 * [GOOD[log]]


@pytest.mark.parametrize("reward", [-3e7, "nan", "-inf"])
def test_an_explosion_has_any_reward(tmp_path: Path, reward: float | str) -> None:
    row = {"event": "explosion", "step": 8, "task": 0, "reward": reward}
    (tmp_path / "events.jsonl").write_text(json.dumps(row) + "\n")
    assert read_log(tmp_path, "events", 1) == [row]


@pytest.mark.parametrize(
    ("log", "edit", "words"),
    [
        ("metrics", {"step": None}, "'step' should be an integer, but is null"),
        ("metrics", {"step": -1}, "'step' is -1"),
        ("metrics", {"loss": "low"}, "'loss' should be a number or null, but is \"low\""),
        ("metrics", {"step": 10**30}, "'step' is too large"),
        ("metrics", {"task": 2}, "it belongs to task 2, but config.json lists 2 tasks"),
        ("metrics", {"task": True}, "'task' should be an integer, but is true"),
        ("episodes", {"return": []}, "'return' should be a number, but is a list of 0"),
        ("episodes", {"env": 3}, "'env' should be a text, but is 3"),
        ("events", {"event": 1}, "'event' should be a text, but is 1"),
        ("events", {"before": {"dfi": "x"}}, "'before' should hold numbers, but holds \"x\""),
        ("events", {"contract": []}, "'contract' should be an object, but is a list of 0"),
        ("tasks", {"accuracies": [0.5, {}]}, "'accuracies' should hold numbers, but holds an object of 0"),
    ],
)
def test_an_invalid_line_is_named_by_its_number(tmp_path: Path, log: str, edit: Any, words: str) -> None:
    (tmp_path / f"{log}.jsonl").write_text(json.dumps(GOOD[log]) + "\n" + json.dumps(GOOD[log] | edit) + "\n")
    with pytest.raises(ValueError, match=rf"{log}\.jsonl, line 2: ") as caught:
        read_log(tmp_path, log, 2)
    assert words in str(caught.value)


@pytest.mark.parametrize(("log", "field"), [("metrics", "step"), ("episodes", "return"), ("tasks", "task")])
def test_a_line_without_a_required_field_is_named(tmp_path: Path, log: str, field: str) -> None:
    rest = {name: value for name, value in GOOD[log].items() if name != field}
    (tmp_path / f"{log}.jsonl").write_text(json.dumps(rest) + "\n")
    with pytest.raises(ValueError, match=rf"{log}\.jsonl, line 1: it has no '{field}'"):
        read_log(tmp_path, log, 2)
