"""Wrong command lines give one line on stderr, or tyro's box, and exit status 2, and make nothing."""

import json
import random
import re
import shlex
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from supple.tracks.language.pretrain import work

Ask = Callable[[str, Path], tuple[int, str]]
TABLE = tomllib.loads(Path(__file__).with_name("usage_errors.toml").read_text(encoding="utf-8"))
HELP: list[str] = TABLE.pop("help")
WRONG: dict[str, str] = {
    f"{begin} {rest}".strip(): says for begin, lines in TABLE.items() for rest, says in lines.items()
}
TRAIN = "train ppo --env hopper --steps 800 --out OUT"
MNIST = "train vision permuted-mnist --images 20 --tasks 2 --data DATA --device cpu --out OUT"
SFT = "train sft --model llama:32x1 --learn TASK --device cpu --out OUT"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make the files that names in the command lines stand for."""
    folder = tmp_path_factory.mktemp("files")
    draw = random.Random(0)
    for name in ("text.txt", "other.txt"):
        lines = [" ".join(draw.choices(("ash", "oak", "elm", "fir", "yew"), k=6)) for _ in range(150)]
        (folder / name).write_text("\n".join(lines) + "\n")
    questions = [json.dumps({"prompt": f"{i} + 1?", "answer": str(i + 1)}) for i in range(20)]
    (folder / "task.jsonl").write_text("\n".join(questions))
    (folder / "empty.jsonl").write_text("")
    (folder / "broken.jsonl").write_text('{"prompt": "and?"}\n')
    (folder / "bert").mkdir()
    (folder / "bert/config.json").write_text('{"model_type": "bert"}')
    (folder / "mnist").mkdir()
    for split, count in (("train", 40), ("t10k", 20)):  # images of 8 × 8
        for kind, array in (
            ("images-idx3", np.arange(count * 64).reshape(count, 8, 8).astype(np.uint8)),
            ("labels-idx1", (np.arange(count) % 10).astype(np.uint8)),
        ):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / f"mnist/{split}-{kind}-ubyte").write_bytes(header + array.tobytes())
    names = {"TEXT": "text.txt", "OTHER": "other.txt", "TASK": "task.jsonl", "EMPTY": "empty.jsonl", "DATA": "mnist"}
    names |= {"BROKEN": "broken.jsonl", "BERT": "bert", "DIR": "bert", "CACHE": "cache"}
    return {name: str(folder / file) for name, file in names.items()}


@pytest.fixture
def ask(ask: Callable[..., tuple[int, str]], files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return `ask(line, out)`: the exit status and stderr of `supple LINE`, with names replaced by files.

    It runs in the folder above `out`, with a cache of its own and without a compiler.
    """

    def run_line(line: str, out: Path) -> tuple[int, str]:
        paths = {**files, "OUT": str(out)}
        line = re.sub(rf"\b({'|'.join(paths)})\b", lambda name: paths[name[0]], line)
        if out.parent.is_dir():
            monkeypatch.chdir(out.parent)
        monkeypatch.setenv("SUPPLE_CACHE", files["CACHE"])
        monkeypatch.setattr(work, "can_compile", lambda: False)
        return ask(*shlex.split(line))

    return run_line


def refused(answer: tuple[int, str], code: int, *words: str) -> None:
    """Assert that a command was refused in one line, with these words in it."""
    assert (answer[0], answer[1].count("\n")) == (code, 1), answer
    assert answer[1].startswith("supple: ")
    assert [word for word in words if word not in answer[1]] == [], answer


@pytest.mark.slow
@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_is_one_line_and_makes_nothing(line: str, tmp_path: Path, ask: Ask) -> None:
    if line.startswith("train dqn --env ast"):
        pytest.importorskip("ale_py", reason="ale-py is an extra")
    (tmp_path / "notes.txt").touch()
    code, stderr = ask(line, tmp_path / "out")
    assert code == 2
    assert stderr.startswith("supple: ") != ("For full helptext" in stderr)  # the latter is in tyro's box
    assert stderr.count("\n") == 1
    assert WRONG[line] in stderr
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.slow
def test_too_little_memory_is_one_line(tmp_path: Path, ask: Ask) -> None:
    refused(ask(f"{TRAIN} --rollout-steps 1e12", tmp_path / "out"), 1, "out of memory")


@pytest.mark.parametrize("line", HELP)
def test_a_command_without_words_shows_its_help(line: str, tmp_path: Path, ask: Ask) -> None:
    assert ask(line, tmp_path / "out") == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("BERT", "not a causal language model that can be read"),
        ("somebody/nothing", "without a network give the path of a folder with its config.json"),
    ],
)
def test_a_model_that_cannot_be_had_is_one_line_and_exit_code_1(
    model: str, says: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    class ConnectError(Exception):
        """An error like that of an HTTP library, which is no OSError."""

    def unreachable(*_: object, **__: object) -> None:
        raise ConnectError("Name or service not known")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", unreachable)
    refused(ask(f"{SFT} --model {model}", tmp_path / "out"), 1, says)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
def test_a_missing_gpu_is_refused(tmp_path: Path, ask: Ask) -> None:
    refused(ask(f"{MNIST} --device cuda", tmp_path / "out"), 2, "--device cuda: PyTorch finds no CUDA GPU here")


@pytest.mark.slow
def test_training_of_several_seeds_that_diverges_is_an_error_in_one_line(tmp_path: Path, ask: Ask) -> None:
    line = f"{MNIST} --seeds 0 1 --batch-size 4 --learning-rate 1e30 --checkpoint-every 1"
    words = ("out (vision, seed 0, 1): training diverged by step", "the loss is not finite in task 0; ", "is kept")
    refused(ask(line, tmp_path / "out"), 1, *words)


def test_training_that_diverges_is_an_error_in_one_line(tmp_path: Path, ask: Ask) -> None:
    line = "train linear --tasks semantic --updates-per-task 60 --learning-rate 5 --lam 3 --out OUT"
    words = ("run (linear, seed 0): training diverged by step", "that is not finite is first.weight of the model")
    refused(ask(line, tmp_path / "run"), 1, *words)


def test_kinds_that_train_in_one_process_refuse_torchrun(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused(ask(SFT, tmp_path / "out"), 2, "start it without torchrun")


@pytest.mark.slow
def test_a_tokenizer_without_a_chat_template_is_a_warning_in_one_line(tmp_path: Path, ask: Ask) -> None:
    from supple.tracks.language.models import load_model, save_model

    model = load_model("llama:32x1")
    model.tokenizer.chat_template = None
    save_model(model, tmp_path / "plain")
    line = f"{SFT} --model {tmp_path / 'plain'} --examine False --epochs 1 --cooldown 0 --warmup 0 --test-examples 2"
    code, stderr = ask(line, tmp_path / "out")
    assert (code, stderr.count("\n")) == (0, 1)
    assert "has no chat template: prompts are written as 'Question: …\\nAnswer:' instead" in stderr
    assert stderr.startswith("supple: ")


@pytest.mark.slow
def test_a_folder_that_is_not_empty_is_refused_and_not_changed(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "config.json").write_text("{}")
    refused(ask(TRAIN, tmp_path), 2, "already holds another run or other files", f"`supple resume {tmp_path}`")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").read_text() == "{}"


@pytest.mark.slow
def test_a_folder_that_cannot_be_made_is_one_line_and_exit_code_1(tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "file").touch()
    code, stderr = ask(TRAIN, tmp_path / "file" / "run")
    assert code == 1
    assert stderr == f"supple: {tmp_path}/file/run: Not a directory\n"


def test_a_missing_simulator_is_an_error_that_names_its_package(
    tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    refused(ask(TRAIN, tmp_path / "out"), 1, "pip install 'supple[mujoco]'")
    assert list(tmp_path.iterdir()) == []
