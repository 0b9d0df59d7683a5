"""Forks of the kinds that are not stacked: each arm equals a run of its own with the same hooks."""

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.engine.spec import read_spec
from supple.engine.storage.names import slug
from supple.scripts.main import dispatch
from tests.processes import die_when, ended
from tests.tracks.logs import read_log, require_same, write_idx

pytestmark = pytest.mark.slow

LOGS = ("metrics", "tasks", "events")
LINES = "elm ash oak fir yew bay\noak fir yew bay elm ash\n"
CONTINUAL = (
    "continual --method full --model llama:32x1 --tasks {a} {b} --updates-per-task 4 --batch-size 4 --max-new-tokens 2 "
    "--learning-rate 1e-2 --eval-examples 1 --measure-every 3 --checkpoint-every 3 --precision float32 --device cpu"
)
WORDS = {  # kind → its command line; what is in braces lies in the tests' folder
    "pretrain": (
        "pretrain --first {elm.txt} --second {oak.txt} --tokenizer bytes --layers 1 --width 16 --heads 2 "
        "--block-size 8 --batch-size 4 --micro-batch 2 --pretrain-steps 6 --warmup 2 --steps 5 --dropout 0.1 "
        "--learning-rate 1e-2 --val-sequences 4 --eval-every 4 --measure-every 3 --checkpoint-every 4 --device cpu"
    ),
    "one phase": (
        "pretrain --first {elm.txt} --tokenizer bytes --layers 1 --width 16 --heads 2 --block-size 8 --dropout 0.1 "
        "--batch-size 4 --micro-batch 2 --pretrain-steps 8 --warmup 2 --learning-rate 1e-2 --val-sequences 4 "
        "--eval-every 3 --measure-every 3 --checkpoint-every 3 --device cpu"
    ),
    "continual": CONTINUAL,
    "sft": (
        "sft --model llama:32x1 --learn {a} --retain {b} --epochs 2 --batch-size 4 --micro-batch 2 --warmup 2 "
        "--cooldown 3 --learning-rate 3e-3 --max-length 64 --examine False --eval-every 3 --measure-every 3 "
        "--checkpoint-every 3 --precision float32 --device cpu"
    ),
    "clip": (
        "clip --model clip:16x1 --domains mnist:zero,three --data {data} --updates 8 --batch-size 8 --warmup 2 "
        "--test-images 6 --eval-every 3 --measure-every 3 --checkpoint-every 3 --precision float32 --device cpu"
    ),
    "linear": (
        "linear --tasks random,reversal --lam 1 --n-in 3 --n-hidden 3 --n-out 3 --samples 6 --updates-per-task 30 "
        "--init-scale 0.5 --eval-every 4 --measure-every 9 --checkpoint-every 7"
    ),
}
TASK_ENDS = {"pretrain": 6, "continual": 4, "linear": 30}
HALVES = {"one phase": 4, "continual": 2, "sft": 4, "clip": 4, "linear": 15}  # of the first task, if there are two


@dataclass
class Arms:
    """Runs and comparisons of each kind on small data."""

    folder: Path

    def words(self, kind: str, out: Path, *more: str) -> list[str]:
        places = {"{a}": "a_train.jsonl", "{b}": "b_train.jsonl", "{elm.txt}": "elm.txt", "{oak.txt}": "oak.txt"}
        words = WORDS[kind].replace("{data}", str(self.folder)).split()
        return [
            *(str(self.folder / places[word]) if word in places else word for word in words),
            *more,
            "--out",
            str(out),
        ]

    def alone(self, kind: str, out: Path, *hooks: str) -> Path:
        dispatch(["train", *self.words(kind, out, *(word for hook in hooks for word in ("--hook", hook)))])
        return out


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("forks")
    for name, answers in (("a", "01"), ("b", "xy")):
        for split, count in (("train", 10), ("test", 2)):
            lines = [json.dumps({"prompt": f"{name}{i}?", "answer": answers[i % 2]}) for i in range(count)]
            (folder / f"{name}_{split}.jsonl").write_text("\n".join(lines))
    (folder / "elm.txt").write_text(LINES * 40)
    (folder / "oak.txt").write_text(LINES[::-1] * 40)
    draw = np.random.default_rng(0)
    for split, count in (("train", 40), ("t10k", 20)):
        labels = np.arange(count, dtype=np.uint8) % 10
        write_idx(folder / "mnist", split, draw.integers(0, 256, (count, 28, 28), np.uint8), labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(folder / "cache"))
        yield Arms(folder)


def last_state(run: Path) -> tuple[str, bytes]:
    folder = max((run / "checkpoints").iterdir())
    return folder.name, (folder / "state.safetensors").read_bytes()


@pytest.mark.parametrize("kind", TASK_ENDS)
def test_a_fork_at_a_task_end_with_ewc_equals_the_uninterrupted_run(
    arms: Arms, tmp_path: Path, here: Any, kind: str
) -> None:
    """It saw the first task end, and its penalty draws back to it throughout the second."""
    hook = "ewc(strength=10,samples=6)"
    fork = [] if kind == "pretrain" else ["--fork-at-task", "1"]
    with here():
        dispatch(["compare", *arms.words(kind, tmp_path / "forked", *fork, "--arm", "none", "--arm", hook)])
    folder = tmp_path / "forked/seed-0"
    whole, none = arms.alone(kind, tmp_path / "whole", hook), arms.alone(kind, tmp_path / "none")
    assert last_state(folder / slug(hook)) == last_state(whole)
    assert last_state(folder / "none") == last_state(none)
    assert last_state(none)[1] != last_state(whole)[1]
    for name in LOGS:
        assert read_log(folder / "trunk", name) + read_log(folder / slug(hook), name) == read_log(whole, name), name
        assert read_log(folder / "trunk", name) + read_log(folder / "none", name) == read_log(none, name), name
    spec = read_spec(folder / slug(hook))
    assert (spec.start.step, spec.resolved.hooks) == (TASK_ENDS[kind], (hook,))


def test_a_hook_of_the_method_is_called_once_at_each_task_end(arms: Arms, tmp_path: Path, here: Any) -> None:
    """Elastic weight consolidation as a method is in the trunk already."""
    method = ("--method", "ewc", "--ewc-strength", "10")
    with here():
        dispatch(["compare", *arms.words("continual", tmp_path / "forked", *method, "--fork-at-task", "1")])
    dispatch(["train", *arms.words("continual", tmp_path / "whole", *method)])
    assert last_state(tmp_path / "forked/seed-0/none") == last_state(tmp_path / "whole")


@pytest.mark.parametrize("kind", HALVES)
def test_a_fork_within_a_task_equals_the_uninterrupted_run(arms: Arms, tmp_path: Path, here: Any, kind: str) -> None:
    """But for the measurement with which a trunk ends."""
    step = HALVES[kind]
    with here():
        dispatch(["compare", *arms.words(kind, tmp_path / "forked", *share(kind), "--arm", "none")])
    folder, whole = tmp_path / "forked/seed-0", arms.alone(kind, tmp_path / "whole")
    assert json.loads((tmp_path / "forked/comparison.json").read_text())["fork_step"] == step
    assert last_state(folder / "none") == last_state(whole)
    for name in LOGS:
        lines = read_log(folder / "trunk", name)
        if name == "metrics":
            measured = [i for i, line in enumerate(lines) if line["step"] == step and "model/srank" in line]
            assert len(measured) == 1
            lines = [line for i, line in enumerate(lines) if i not in measured]
        assert lines + read_log(folder / "none", name) == read_log(whole, name), name


def share(kind: str) -> list[str]:
    """Where in the run it forks: in the middle of its first task, or where its second phase starts."""
    return [] if kind == "pretrain" else ["--fork-at", "0.25" if kind in TASK_ENDS else "0.5"]


@pytest.mark.parametrize("kind", WORDS)
def test_a_killed_comparison_resumes_to_the_same_result(
    arms: Arms, tmp_path: Path, here: Callable[..., Any], kind: str
) -> None:
    choice = [*share(kind), "--arm", "none", "--arm", "l2_init(strength=1e-2)"]
    with here():
        dispatch(["compare", *arms.words(kind, tmp_path / "whole", *choice)])
    broken = tmp_path / "broken"
    if not (child := os.fork()):
        try:
            die_when(lambda: list(broken.glob("seed-0/none/checkpoints/*")))
            with here():
                dispatch(["compare", *arms.words(kind, broken, *choice)])
        finally:
            os._exit(0)
    assert ended(child) == -signal.SIGKILL
    assert not (broken / "seed-0/l2_init_strength=1e-2-faab21/metrics.jsonl").exists(), (
        "killed too late to prove anything"
    )
    with here():
        dispatch(["resume", str(broken)])
    for run in ("trunk", "none", "l2_init_strength=1e-2-faab21"):
        require_same(broken / "seed-0" / run, tmp_path / "whole/seed-0" / run)
