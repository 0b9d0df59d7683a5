"""`supple sweep` and `supple worker` share a queue: no run is lost or trained twice if processes are killed."""

import json
import os
import random
import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from supple.engine.storage.signed_json import read_json, write_json
from supple.experiments.sweeps import gpu_rates
from supple.experiments.sweeps.file import read_sweep
from supple.experiments.sweeps.sweep import open_sweep
from supple.registry.errors import RunError
from supple.scripts.main import dispatch
from tests.processes import die_when, ended
from tests.records import results

pytestmark = pytest.mark.slow

FILE = """
[lin]
kind = "linear"
settings = { tasks = "semantic,reversal", updates_per_task = 60, checkpoint_every = 15, measure_every = 30 }
arms = ["none", "snp(lam={lam})"]
fork_at_task = 1
seeds = "0-1"
grid = { lam = [0.3, 0.6] }
random = { count = 2, learning_rate = { low = 0.01, high = 0.1 } }
"""
SEARCH = """
[lin]
kind = "linear"
settings = { tasks = "semantic,reversal", updates_per_task = 20, checkpoint_every = 10, measure_every = 10 }
arms = ["none", "snp(lam={lam})@task"]
seeds = "0"
search = { method = "tpe", points = 5, seeds = [100], share = 1.0, lam = { low = 0.1, high = 0.9 } }
"""
DRAWN = "random = { count = 2, learning_rate = { low = 0.01, high = 0.1 } }"
DIVERGES = "points = [{ learning_rate = 0.01 }, { learning_rate = 1e30 }]"
RUNS = 2 * 2 + 2 * 2 * 3  # trunks of each seed and step size, and their arms
Process = Callable[..., int]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(FILE)
    return tmp_path / "s.toml"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, here: Any) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "s.toml").write_text(FILE)
    with here():
        dispatch(["sweep", str(folder / "s.toml"), "--out", str(folder / "out")])
    assert len(open_sweep(folder / "out")) == RUNS
    return results(folder / "out")


def begun(file: Path, out: Path) -> Path:
    """Make the folder of a sweep, and train nothing."""
    read_sweep(file).begin(out)
    return out


def test_other_workers_finish_the_runs_of_killed_ones_to_the_same_bytes(
    file: Path, undisturbed: dict[str, Any], process: Process, tmp_path: Path
) -> None:
    out, draw, killed = begun(file, tmp_path / "out"), random.Random(0), 0

    def checkpoints() -> int:
        folders = (name for _, names, _ in os.walk(out) for name in names)  # some vanish while they are looked at
        return sum(name.isdecimal() for name in folders)

    def reached(goal: int) -> bool:
        return checkpoints() >= goal

    for _ in range(5):
        goal = checkpoints() + draw.randint(1, 4)
        dies = partial(die_when, partial(reached, goal))
        children = [process(["worker", str(out)], tmp_path / f"errors-{i}", dies) for i in range(2)]
        killed += sum(ended(child) == -signal.SIGKILL for child in children)
    assert killed == 10
    assert ended(process(["worker", str(out)], tmp_path / "errors")) == 0, (tmp_path / "errors").read_text()
    assert results(out) == undisturbed


@pytest.mark.usefixtures("forked_workers", "without_figures")
@pytest.mark.parametrize("command", ["resume", "worker"])
def test_a_search_killed_in_its_first_round_goes_on_to_the_runs_of_one_that_was_not(
    command: str, process: Process, tmp_path: Path
) -> None:
    (file := tmp_path / "s.toml").write_text(SEARCH)
    words, out = ["sweep", str(file), "--jobs", "1", "--out"], tmp_path / "killed"
    assert ended(process([*words, str(tmp_path / "whole")], tmp_path / "errors")) == 0
    dies = partial(die_when, lambda: any(out.glob("lin/tuning/seed-*/*/outcome.json")))
    assert ended(process([*words, str(out)], tmp_path / "errors", dies)) == -signal.SIGKILL
    assert not (out / "lin/comparison.json").exists()
    assert ended(process([command, str(out)], tmp_path / "errors")) == 0, (tmp_path / "errors").read_text()
    assert results(out) == results(tmp_path / "whole")
    commands = {json.loads(config.read_text())["command"] for config in out.rglob("config.json")}
    assert commands == {f"supple {' '.join(words)} {out}"}


def test_a_sweep_killed_while_writing_its_folder_starts_again(file: Path, tmp_path: Path) -> None:
    """sweep.json is written first, then a comparison.json in each study's folder."""
    file.write_text(FILE + FILE.replace("[lin]", "[second]"))
    out = begun(file, tmp_path / "out")
    (out / "second/comparison.json").unlink()
    (out / "second").rmdir()
    assert len(open_sweep(begun(file, out))) == 2 * RUNS


@pytest.mark.usefixtures("forked_workers", "without_figures")
def test_failed_runs_are_skipped_and_the_others_finish(file: Path, process: Process, tmp_path: Path) -> None:
    file.write_text(FILE.replace(DRAWN, DIVERGES))
    out, errors = tmp_path / "out", tmp_path / "errors"
    assert ended(process(["sweep", str(file), "--out", str(out), "--jobs", "1"], errors)) == 1
    said = errors.read_text()
    assert "training diverged" in said
    jobs = open_sweep(out)
    assert {job.spec.labels.variant["learning_rate"] for job in jobs if job.failed} == {1e30}
    assert all(job.outcome.get("outcome") == "finished" for job in jobs if job.spec.labels.variant["learning_rate"] < 1)
    assert f"that depend on them did not start; `supple resume {out} --retry-failed` trains them again" in said
    assert ended(process(["worker", str(out)], errors)) == 1
    assert "--retry-failed" in errors.read_text()


def test_a_dry_run_prints_the_runs_and_writes_nothing(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supple.experiments.sweeps.estimate.LEAST", 0.05)
    monkeypatch.setattr("supple.experiments.sweeps.estimate.SECONDS", 0.1)
    monkeypatch.setattr(gpu_rates, "RATES", {"linear": gpu_rates.Rate((), "", 3.0, lambda s: 2.0, "3 products/s")})
    dispatch(["sweep", str(file), "--out", str(tmp_path / "out"), "--dry-run"])
    said = capsys.readouterr().out
    assert said.count("to be trained") == RUNS
    assert f"{RUNS - 4} and 4 trunks" in said
    assert " min" in said
    assert re.search(r"h on one NVIDIA H200, one run at a time\. Measured there: 3 products/s", said)
    assert sorted(tmp_path.iterdir()) == [file]


def test_a_dry_run_does_not_time_the_random_actions_before_learning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[int] = []
    measure = "supple.experiments.sweeps.estimate.measure_speed"
    monkeypatch.setattr(measure, lambda train, seconds, begin=-1: begins.append(begin) or 1.0)
    settings = '{ env = "CartPole-v1", steps = 64, learning_starts = 8, batch_size = 8 }'
    (tmp_path / "a.toml").write_text(f'[a]\nkind = "dqn"\nsettings = {settings}\n')
    dispatch(["sweep", str(tmp_path / "a.toml"), "--out", str(tmp_path / "out"), "--dry-run"])
    assert begins == [8]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("sweep nowhere.toml --out OUT", "there is no sweep file nowhere.toml"),
        ("sweep FILE --out OUT --jobs -1", "--jobs must be 0 or more"),
        ("worker OUT", "contains no run"),
    ],
)
def test_wrong_usage_is_one_line(file: Path, process: Process, tmp_path: Path, words: str, says: str) -> None:
    line = words.replace("FILE", str(file)).replace("OUT", str(tmp_path / "out")).split()
    assert ended(process(line, tmp_path / "errors")) == 2
    said = (tmp_path / "errors").read_text()
    assert said.startswith("supple: ")
    assert said.count("\n") == 1
    assert says in said
    assert not (tmp_path / "out").exists()


def test_the_report_of_a_sweep_counts_its_runs_and_links_each_study(
    file: Path, here: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = FILE.replace("updates_per_task = 60", "updates_per_task = 20").replace('"0-1"', '"0"')
    file.write_text(text.replace(DRAWN, DIVERGES))
    with here(), pytest.raises(RunError, match="failed"):
        dispatch(["sweep", str(file), "--out", str(tmp_path / "out")])
    file.write_text(file.read_text() + FILE.replace("[lin]", "[not-begun]"))
    begun(file, tmp_path / "out")
    capsys.readouterr()
    file_of_sweep = tmp_path / "out/sweep.json"
    beside = {"source": "<b>Table 2</b>", "measure": "final excess loss", "rows": {"learning_rate=0.01/none": 0.125}}
    sweep = read_json(file_of_sweep, "")
    sweep["studies"][0]["published"] = beside
    write_json(file_of_sweep, sweep)
    dispatch(["report", str(tmp_path / "out")])
    said = capsys.readouterr()
    assert "not-begun: no run has started yet" in said.err
    page = (tmp_path / "out/report/index.html").read_text()
    assert re.findall(r'href="\.\./(.*?)/report/index.html"', page) == ["lin"]
    assert (tmp_path / "out/lin/report/index.html").is_file()
    rows = re.findall(r"<tr>((?:<td[^>]*>[^<]*</td>)+)</tr>", page)
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in rows]
    assert ["lin", "8", "4", "1", "3"] in cells  # of the trunk that diverged, three arms cannot begin
    assert ["not-begun", "16", "0", "0", "16"] in cells
    assert ["none", "0.01", "1"] in [each[:3] for each in cells]
    assert "0.125" in page
    assert "&lt;b&gt;Table 2" in page
    assert "<h3>Sensitivity to lam</h3>" in page
    links = [unquote(link) for link in re.findall(r'(?:href|src)="([^"#]+)"', page)]
    assert len([link for link in links if "/runs/" in link]) == 3
    assert "learning_rate=1e_30-4348e4/trunk failed: " in page
    assert all((tmp_path / "out/report" / link).exists() for link in links), links
    own = tmp_path / "out/lin/report"
    links = re.findall(r'(?:href|src)="([^"#]+)"', (own / "index.html").read_text())
    assert {".csv", ".tex", ".svg", ".png"} <= {Path(link).suffix for link in links}
    assert all((own / unquote(link)).exists() for link in links), links
    scores = json.loads((tmp_path / "out/report/scores.json").read_text())
    assert scores["studies"]["lin"] == json.loads((tmp_path / "out/lin/report/scores.json").read_text())


TUNED = """
[lin]
kind = "linear"
settings = { tasks = "semantic,reversal", updates_per_task = 20, checkpoint_every = 20, measure_every = 20 }
arms = ["none"]
[lin.search]
points = 4
share = 0.7
seeds = "100"
seed = 1
learning_rate = { choice = [0.05, 1e30] }
"""


def test_a_tuning_run_that_diverges_is_not_a_failure(
    tmp_path: Path, here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text(TUNED)
    with here():
        dispatch(["sweep", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out"), "--search", "random"])
    said = capsys.readouterr()
    assert "1 tuning runs failed" in said.out + said.err
    results = [job for job in open_sweep(tmp_path / "out") if job.spec.seeds == (0,)]
    assert [(job.spec.labels.arm, job.failed) for job in results] == [("none + learning_rate=0.05", False)]
