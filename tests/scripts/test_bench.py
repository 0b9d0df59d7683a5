"""`supple bench` trains and scores a method, here on a suite of some hundred steps."""

import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from supple.engine.storage.files import sha256
from supple.registry.errors import RunError, UsageError
from supple.scripts.main import dispatch

SUITE = """
[defaults]
kind = "ppo"
seeds = "1000-1001"
fork_at = 0.0
reference = "none"
settings = { cycles = 2, steps_per_task = 120, rollout_steps = 40, minibatch_size = 40, hidden = [8], compile = "off" }
[cart-pole]
preset = "gym-control-small"
settings = { measure_every = 40, epochs = 1 }
[nine-rooms]
preset = "nine-rooms-small"
settings = { num_envs = 1, measure_every = 40, epochs = 1 }
"""
METHOD = '''
import torch
from supple.interventions import Intervention, interventions

@interventions.register("halve")
class Halve(Intervention):
    """Halve every weight."""

    def apply(self, learner):
        with torch.no_grad():
            for parameter in learner.module.parameters():
                parameter.mul_(0.5)
        return []
'''
Here = Callable[[], AbstractContextManager[None]]
Bench = Callable[..., Path]
Process = Callable[[Sequence[str], Path], int]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: Here) -> Bench:
    """Let `supple bench` have a small suite and an empty board, and return the folder of its runs."""
    (tmp_path / "bench.toml").write_text(SUITE)
    monkeypatch.setattr("supple.experiments.board.scoring.FILE", tmp_path / "bench.toml")
    monkeypatch.setattr("supple.experiments.board.row.FOLDER", tmp_path / "rows")

    def run(*words: str) -> Path:
        with here():
            dispatch(["bench", *words, "--out", str(tmp_path / "out"), "--jobs", "1"])
        return tmp_path / "out"

    return run


@pytest.mark.slow
def test_a_method_gets_a_row_whose_check_agrees(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has been trained is not trained again: `none` once for all methods."""
    for method in ("none", "fresh", "fire@task"):
        out = bench(method, "--save", str(tmp_path / "rows" / method))
    shown = capsys.readouterr().out
    assert {"fire@task", "none", "fresh"} <= set(shown.split())
    folders = {str(file.parent.relative_to(out)) for file in out.rglob("seed-*/**/config.json")}
    assert "cart-pole/seed-1001/none_fresh=true-af0ea8" in folders
    assert len(folders) == 2 * 2 * 3
    assert (tmp_path / "rows" / "fire@task" / "about.md").is_file()

    bench("--check", str(tmp_path / "rows" / "fire@task"))
    said = " ".join(capsys.readouterr().out.split())
    assert "the row of fire@task agrees with the new runs, number by number: cart-pole, nine-rooms" in said
    assert list(out.parent.glob("out-check-*/cart-pole/seed-1001/fire_task-efebf3/config.json"))  # trained again
    file = tmp_path / "rows" / "fire@task" / "row.json"
    row = json.loads(honest := file.read_text())
    row["results"]["cart-pole"]["scores"] = {seed: 1e4 + int(seed) for seed in ("1000", "1001")}
    file.write_text(json.dumps(row))
    with pytest.raises(RunError, match="does not agree with the new runs in 1 of 2 studies"):
        bench("--check", str(file.parent))
    file.write_text(honest.replace('"machine": "', '"machine": "not '))
    bench("--check", str(file.parent))
    found = capsys.readouterr()
    assert "fire@task lies within the bounds of the new runs, not equal to them:" in " ".join(found.out.split())
    assert re.search(r"was not trained like the new runs: machine not .* \(row → new\)", found.err)


@pytest.mark.slow
def test_a_python_file_with_an_intervention_is_scored(
    bench: Bench, process: Process, here: Here, tmp_path: Path
) -> None:
    """In a process of its own, since what a plug-in registers stays."""
    (tmp_path / "halve.py").write_text(METHOD)
    words = ["bench", str(tmp_path / "halve.py"), "--save", str(tmp_path / "rows" / "halve")]
    with here():
        child = process([*words, "--out", str(tmp_path / "out"), "--jobs", "1"], tmp_path / "errors")
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    row = json.loads((tmp_path / "rows" / "halve" / "row.json").read_text())
    assert row["method"] == "halve@task"
    assert row["plugins"] == {"halve.py": sha256(METHOD.encode())}
    assert row["results"]["nine-rooms"]["cost"] > 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fire@task", "--studies", "cart-poles"], "--studies cart-poles: unknown study: did you mean 'cart-pole'?"),
        (["fire@task", "snp@task", "--save", "x"], "--save writes the row of one METHOD"),
        (["fire@task", "--check", "x"], "--check takes the method from the row"),
        (["--check", "nowhere"], "nowhere is not a row of the board: it has no row.json"),
        (["fier@task"], "did you mean 'fire'"),
    ],
)
def test_a_method_that_cannot_be_scored_is_refused_in_one_line(bench: Bench, words: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)):
        bench(*words)
