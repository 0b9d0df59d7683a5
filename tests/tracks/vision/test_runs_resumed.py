"""`kill -9` at any moment, then `supple resume`: the same bytes as a run that was never killed."""

import math
import random
import shlex
import shutil
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from supple.scripts.main import dispatch
from tests.processes import die_when, ended
from tests.tracks.logs import require_same

pytestmark = pytest.mark.slow

RUNS = {
    "split": shlex.split(  # tasks of 24 updates, 3 to an epoch: checkpoints lie within tasks and within epochs
        "split-cifar-100 --dataset mnist --tasks 2 --classes-per-task 2 --epochs 10 --batch-size 10 --replay 20 "
        "--network mlp --width 10 --seeds 0 1 --checkpoint-every 11 --measure-every 9 --eval-epochs 2 --compile off "
        "--activation rand_smooth_leaky --hook redo(tau=0.5)@every:7 --hook l2_init(strength=1e-3) "
        "--hook snp(noise=0.1)@task --hook ewc(samples=16)"
    ),
    "resnet18": shlex.split(
        "warm-start --dataset mnist --network resnet18 --width 4 --first-epochs 4 --epochs 1 --batch-size 12 "
        "--checkpoint-every 4 --measure-every 5 --hook cbp(replacement_rate=0.1,maturity=2) --hook dash@task"
    ),
}


@pytest.fixture(scope="module")
def references(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that are never killed; in this process, so that its children find imported what they need."""
    folder = tmp_path_factory.mktemp("references")
    for name, words in RUNS.items():
        dispatch(lab.command(*words, "--out", folder / name))
    return {name: folder / name for name in RUNS}


@pytest.mark.parametrize("name", RUNS)
def test_runs_killed_at_random_moments_resume_to_the_same_result(
    lab: Any, process: Any, tmp_path: Path, references: dict[str, Path], name: str
) -> None:
    run, kills, moments = tmp_path / "run", 0, random.Random(name)
    while True:
        begun = (run / "config.json").exists()
        words = ["resume", str(run)] if begun else lab.command(*RUNS[name], "--out", run)
        size = moments.uniform(0, log_size(references[name])) if kills < 3 else math.inf
        code = ended(process(words, tmp_path / "errors", partial(die_when, lambda size=size: log_size(run) >= size)))
        if code == 0:
            break
        assert code == -signal.SIGKILL, (tmp_path / "errors").read_text()
        kills += 1
    require_same(run, references[name])


def log_size(run: Path) -> int:
    """Bytes of the run's logs."""
    return sum(file.stat().st_size for file in run.glob("*.jsonl"))


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_leads_to_the_same_end(
    lab: Any, process: Any, tmp_path: Path, references: dict[str, Path]
) -> None:
    run = shutil.copytree(references["split"], tmp_path / "run")
    damaged = max((run / "checkpoints").iterdir()) / "state.safetensors"
    content = damaged.read_bytes()
    damaged.write_bytes(content[:999] + bytes([content[999] ^ 1]) + content[1000:])
    assert ended(process(["resume", str(run)], tmp_path / "errors")) == 0
    (line,) = (tmp_path / "errors").read_text().splitlines()
    assert str(damaged) in line
    assert "going back to the checkpoint before it" in line
    require_same(run, references["split"])
