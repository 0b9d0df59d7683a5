"""A page for each run: its curves, its events, and commands that do what they say."""

import json
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from supple.engine.user_code import plugins
from supple.experiments.history.collect import load_runs
from supple.experiments.history.data import RunData
from supple.reports.figures.sketch import POINTS, draw_curves, thin
from supple.reports.pages.run_list import page_names, run_lines
from supple.reports.pages.run_pages import render_run
from supple.scripts.cli.console import parse
from supple.scripts.cli.options import Options, parse_request
from supple.scripts.train import options_of
from tests import records

EVIL = "<script>alert(1)</script>"
SETTINGS = {
    "env": "CartPole-v1", "steps": 2_000, "hidden": [8, 16], "hook": ["fire@0.5", "redo(tau=0.1)@every:500"],
    "normalize_rewards": False, "learning_rate": 1e-3, "seed": 3,
}  # fmt: skip


def run(folder: Path, arm: str = "fire@0.5", **changes: Any) -> RunData:
    task = {"index": 0, "cycle": 0, "env": "CartPole-v1", "name": "CartPole-v1", "start": 0, "end": 2_000}
    changes = {"command": "supple compare ppo", "hooks": ("fire@0.5",), **changes}
    records.write_run(folder, "ppo", [task], SETTINGS, labels={"arm": arm}, **changes)
    rows = [{"step": step, "agent/srank": float(step), EVIL: 1.0} for step in (500, 1_000)]
    event = {"event": "intervention", "step": 1_000, "intervention": "fire", "learner": EVIL, "after": {"srank": 7.0}}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "episodes.jsonl").write_text(json.dumps({"step": 90, "return": 9.0}) + "\n")
    evaluation = {"event": "evaluation", "step": 2_000, "task": 0, "evaluated": 0, "return": 9.0}
    (folder / "events.jsonl").write_text(f"{json.dumps(event)}\n{json.dumps(evaluation)}\n")
    return load_runs(folder)[0]


def test_a_page_has_curves_events_and_settings_and_escapes_what_they_say(tmp_path: Path) -> None:
    text = render_run("name", [run(tmp_path / "seed-3/a", arm=EVIL)])
    assert EVIL not in text
    assert text.count("<polyline") == 3  # returns, a metric, and the one with a bad name
    assert "srank 7" in text
    assert "evaluated" not in text  # evaluations are in the curves
    assert "learning_rate" in text


def test_the_command_for_the_same_run_gives_its_settings(tmp_path: Path) -> None:
    text = render_run("name", [run(tmp_path / "seed-3/a")])
    line = next(line for line in text.splitlines() if "supple train" in line).removeprefix("<pre>")
    words = shlex.split(line.replace("&#39;", "'").removesuffix("</pre>"))
    assert words[:2] == ["supple", "train"]
    what = parse_request("train", words[2:])
    default = Options(settings=what.settings(), out=Path("x"))
    made = parse(options_of(what.kind), what.options, what.prog, "", default).settings
    assert made == what.kind.settings_class()(**{**SETTINGS, "hidden": (8, 16), "hook": tuple(SETTINGS["hook"])})  # type: ignore[arg-type]


def test_no_command_trains_a_forked_run_alone(tmp_path: Path) -> None:
    text = render_run("name", [run(tmp_path / "seed-3/a", start=1_000)])
    assert "supple train" not in text
    assert f"supple resume {tmp_path}/seed-3/a" in text


def test_the_command_that_resumes_names_the_plug_ins_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "loaded", lambda: (SimpleNamespace(source="mine.py"),))
    text = render_run("name", [run(tmp_path / "seed-3/a")])
    assert f"supple resume {tmp_path}/seed-3/a --plugin mine.py" in text


def test_page_names_come_from_folders_and_are_unique(tmp_path: Path) -> None:
    runs = [run(tmp_path / place) for place in ("c/seed-0/lr=1/none", "d/seed-0/lr=1/none", "alone")]
    assert list(page_names(runs).values()) == ["seed-0.lr=1.none", "seed-0.lr=1.none.1", "alone"]


def test_a_line_of_the_list_has_the_folder_of_its_run_and_the_command_that_repeats_it(tmp_path: Path) -> None:
    runs = [run(tmp_path / "all/seed-3/a"), run(tmp_path / "all/seed-3/b", start=1_000)]
    own, forked = run_lines(tmp_path / "elsewhere", runs)
    assert (own.page, own.folder, own.outcome) == ("seed-3.a", "../all/seed-3/a", "left")
    assert own.command.startswith("supple train ppo --hook fire@0.5")
    assert forked.command == "supple compare ppo"


def test_a_long_curve_is_thinned_to_means() -> None:
    steps, values = thin(np.arange(1_000.0), np.arange(1_000.0) % 2)
    assert len(steps) == POINTS
    assert np.allclose(values, 0.5, atol=0.1)
    assert draw_curves("x", [(np.array([5.0]), np.array([1.0]))], 10).count("<polyline") == 1
