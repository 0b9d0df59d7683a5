"""`supple resume` goes on with whatever lies in a folder: runs of every kind, killed by `kill -9`, end as if never."""

import importlib.util
import json
import os
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.experiments.kinds import all_kinds
from supple.scripts.console import run
from supple.scripts.main import dispatch

TEXTS = "--max-length 64 --max-new-tokens 2 --test-examples 4 --eval-every 0 --measure-every 6 --checkpoint-every 5"
RUNS = {
    "ppo": "--env inverted_pendulum --steps 1024 --num-envs 4 --rollout-steps 32 --minibatch-size 64 --epochs 2 "
    "--hidden 8 --checkpoint-every 256 --measure-every 256 --eval-episodes 1 --hook snp@0.6",
    "dqn": "--env asterix --steps 160 --num-envs 2 --learning-starts 60 --replay-size 100 --batch-size 4 --hidden 16 "
    "--replay-ratio 0.25 "
    "--max-frames 120 --eval-episodes 1 --measure-every 80 --checkpoint-every 40 --device cpu --hook redo@every:90",
    "sac": "--env inverted_pendulum --steps 400 --num-envs 2 --learning-starts 20 --replay-size 100 --batch-size 8 "
    "--actor-width 8 --critic-width 8 --critic-blocks 1 --replay-ratio 0.5 --eval-episodes 1 --checkpoint-every 80 "
    "--measure-every 240 --device cpu --compile off --hook critic/fire@0.6",
    "vision": "permuted-mnist --data DIGITS --seeds 0-1 --tasks 3 --images 48 --epochs 3 --batch-size 8 "
    "--measure-every 10 --checkpoint-every 12 --device cpu --compile off --hook snp@task --hook ewc(samples=8)",
    "pretrain": "--first TEXT --second TEXT --tokenizer bytes --layers 1 --width 16 --heads 2 --block-size 16 "
    "--batch-size 4 --micro-batch 2 --pretrain-steps 12 --warmup 2 --steps 12 --val-sequences 2 --eval-every 5 "
    "--measure-every 8 --checkpoint-every 5 --device cpu --hook snp(lam=0.5)@task",
    "sft": f"--model llama:32x1 --learn TASK --epochs 1 --cooldown 4 --batch-size 4 --micro-batch 2 {TEXTS} "
    "--device cpu",
    "clip": "--model clip:32x1 --domains mnist --data DATA --updates 16 --batch-size 8 --warmup 2 --test-images 8 "
    "--eval-every 8 --measure-every 8 --checkpoint-every 4 --device cpu",
    "continual": f"--model llama:32x1 --tasks TASK OTHER --updates-per-task 8 --batch-size 2 --r 2 --k 2 {TEXTS} "
    "--train-examples 20 --device cpu",
    "linear": "--tasks semantic,reversal --updates-per-task 60 --measure-every 25 --checkpoint-every 20 "
    "--eval-every 10 --hook rebalance(lam=5)@task --hook ewc(strength=1,samples=4)",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Word of a command line → a file or folder for it: digits of 16 × 16, a text, two tasks of questions."""
    folder = tmp_path_factory.mktemp("data")
    draw, digits = np.random.default_rng(0), folder / "mnist"
    digits.mkdir()
    for split, count in (("train", 120), ("t10k", 40)):
        labels = (np.arange(count) % 10).astype(np.uint8)
        images = draw.integers(0, 256, (count, 16, 16), np.uint8)
        for name, array in (("images-idx3", images), ("labels-idx1", labels)):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (digits / f"{split}-{name}-ubyte").write_bytes(header + array.tobytes())
    (folder / "text.txt").write_text("\n".join("ash birch cedar elm fir"[i % 7 :] for i in range(400)))
    for name in ("a", "b"):
        rows = [{"prompt": f"{name} {i}?", "answer": str(i * 3 % 7)} for i in range(60)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "DIGITS": str(digits), "DATA": str(folder), "TEXT": str(folder / "text.txt"),
        "TASK": str(folder / "a.jsonl"), "OTHER": str(folder / "b.jsonl"),
    }  # fmt: skip


def train(kind: str, places: dict[str, str], out: Path) -> list[str]:
    """The command line of a run."""
    return [
        "train",
        kind,
        *(places.get(word, word) for word in shlex.split(RUNS[kind].replace("(", r"\(").replace(")", r"\)"))),
        "--out",
        str(out),
    ]


def logs(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Every log without its clocks."""
    return {
        file.name: [
            {key: value for key, value in json.loads(line).items() if key not in ("time", "seconds")}
            for line in file.read_text().splitlines()
        ]
        for file in path.glob("*.jsonl")
    }


def finished(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_every_kind_is_killed_here() -> None:
    assert RUNS.keys() == all_kinds().keys()


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_was_killed_goes_on_to_the_same_bytes(
    kind: str, places: dict[str, str], process: Any, tmp_path: Path
) -> None:
    if kind == "dqn" and importlib.util.find_spec("ale_py") is None:
        pytest.skip("ale-py is an extra")
    errors, whole, killed = tmp_path / "errors", tmp_path / "whole", tmp_path / "killed"
    dispatch(train(kind, places, whole))  # in this process, so that its children find imported what they need
    child = process(train(kind, places, killed), errors)
    while not list(killed.glob("checkpoints/0*")):  # the first checkpoint is there: somewhere behind it
        assert os.waitpid(child, os.WNOHANG) == (0, 0), errors.read_text()
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    assert finished(child) == -signal.SIGKILL
    assert finished(process(["resume", str(killed)], errors)) == 0, errors.read_text()
    assert logs(killed) == logs(whole)
    last, same = (max((path / "checkpoints").iterdir()) for path in (killed, whole))
    assert last.name == same.name
    for file in same.glob("*.safetensors"):
        assert (last / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize(
    "older", ["train --resume", "vision --resume", "language --resume", "linear --resume", "compare --resume"]
)
def test_older_spellings_go_on_with_any_kind(
    older: str, tmp_path: Path, places: dict[str, str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    out = tmp_path / "run"
    for words in (train("linear", places, out), [*older.split(), str(out)]):
        monkeypatch.setattr(sys, "argv", ["supple", *words])
        with pytest.raises(SystemExit) as stop:
            run(dispatch)
        assert stop.value.code == 0
        assert "done: " in capsys.readouterr().out
        shutil.rmtree(max((out / "checkpoints").iterdir()), ignore_errors=len(words) > 5)


def test_a_checkpoint_of_an_older_version_is_refused_in_one_line(
    tmp_path: Path, places: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    for words in (train("linear", places, out), ["resume", str(out)]):
        monkeypatch.setattr(sys, "argv", ["supple", *words])
        with pytest.raises(SystemExit) as stop:
            run(dispatch)
        for manifest in out.glob("checkpoints/*/state.json"):
            manifest.write_text(manifest.read_text().replace("supple checkpoint 3", "supple checkpoint 2"))
    stderr = capsys.readouterr().err
    assert (stop.value.code, stderr.count("\n")) == (1, 1)
    assert "written by another version of supple, as 'supple checkpoint 2'" in stderr
