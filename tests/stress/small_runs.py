"""The smallest runs of all nine kinds with tasks, hooks and checkpoints, for tests that break them."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from supple.engine.storage.checkpoint import folders_of

TEXTS = "--max-length 64 --max-new-tokens 2 --test-examples 4 --eval-every 0 --measure-every 6 --checkpoint-every 5"
RUNS = {
    "ppo": "--env inverted_pendulum --steps 1024 --num-envs 4 --rollout-steps 32 --minibatch-size 64 --epochs 2 "
    "--hidden 8 --checkpoint-every 256 --measure-every 256 --eval-episodes 1 --hook snp@0.6",
    "dqn": "--env asterix --steps 160 --num-envs 2 --learning-starts 60 --replay-size 100 --batch-size 4 --hidden 16 "
    "--replay-ratio 0.25 --exploration-steps 80 "
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

STACKS = {  # of agents, with shifts and conditions that each seed meets at its own step
    "ppo-stack": "--env CartPole-v1 --seeds 0-2 --cycles 2 --steps-per-task 512 --num-envs 4 --rollout-steps 32 "
    "--minibatch-size 64 --epochs 2 --hidden 8 --learning-rate 0.01 --compile off --shift offset(scale=2,over=300) "
    "--checkpoint-every 256 --measure-every 128 --eval-episodes 1 --hook fire@when:policy/entropy<0.69 --hook snp@task",
    "dqn-stack": "--env CartPole-v1 --seeds 0-2 --cycles 2 --steps-per-task 240 --num-envs 2 --learning-starts 40 "
    "--replay-size 200 --batch-size 8 --hidden 16 16 --learning-rate 1e-3 --exploration-steps 100 --target-period 60 "
    "--shift offset(scale=2,over=100) --checkpoint-every 80 --measure-every 60 --eval-episodes 1 --device cpu "
    "--hook fire@when:q/mean>0.3 --hook redo(tau=0.5)@every:90",
    "sac-stack": "--env Pendulum-v1 --seeds 0-2 --cycles 2 --steps-per-task 240 --num-envs 2 --learning-starts 40 "
    "--replay-size 200 --batch-size 8 --network mlp --hidden 16 16 --replay-ratio 0.5 "
    "--shift offset(scale=0.5,over=99) --checkpoint-every 80 --measure-every 60 --eval-episodes 1 --device cpu "
    "--compile off --hook critic/fire@when:policy/entropy<-2.45 --hook actor/snp@task",
}


def places(folder: Path) -> dict[str, str]:
    """Make what the runs learn from: digits of 16 × 16, a text, two tasks of questions.

    Returns word of a command line → a file or folder for it."""
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


def command(kind: str, places: dict[str, str], out: Path) -> list[str]:
    """Return the words of `supple` that train such a run, or such a stack."""
    words = shlex.split((RUNS | STACKS)[kind].replace("(", r"\(").replace(")", r"\)"))
    return ["train", kind.removesuffix("-stack"), *(places.get(word, word) for word in words), "--out", str(out)]


def compared(kind: str, places: dict[str, str], out: Path, arms: str) -> list[str]:
    """Return the words of `supple` that compare arms in such a run, without its hooks."""
    words = command(kind, places, out)[1:]
    hooks = {place + i for place, word in enumerate(words) if word == "--hook" for i in (0, 1)}
    return ["compare", *(word for place, word in enumerate(words) if place not in hooks), *arms.split()]


def logs(run: Path) -> dict[str, list[dict[str, Any]]]:
    """Return every log without its clocks."""
    return {
        file.name: [
            {key: value for key, value in json.loads(line).items() if key not in ("time", "seconds")}
            for line in file.read_text().splitlines()
        ]
        for file in sorted(run.glob("*.jsonl"))
    }


def weights(run: Path) -> dict[str, bytes]:
    """Return the tensors of the newest checkpoint, file by file, and its name."""
    last = folders_of(run / "checkpoints")[-1]
    return {f"{last.name}/{file.name}": file.read_bytes() for file in sorted(last.glob("*.safetensors"))}
