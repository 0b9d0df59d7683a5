"""Wrong command lines of `supple train vision`: exactly one line on stderr, exit code 2, and nothing is made."""

import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

Ask = Callable[[str, Path], tuple[int, str]]
MNIST = "train vision permuted-mnist --images 20 --tasks 2 --data DATA --device cpu --out OUT"
SPLIT = (
    "train vision split-cifar-100 --dataset mnist --tasks 2 --network mlp --data DATA --device cpu --batch-size 4 "
    "--out OUT"
)
WARM = "train vision warm-start --dataset mnist --batch-size 4 --data DATA --device cpu --out OUT"

WRONG = {
    f"{MNIST} --shares 2": "--shares must lie in (0, 1], got (2.0,)",
    f"{MNIST} --width 99999999999": "--width 99999999999: a tensor of shape (1, 99999999999, ",
    f"{MNIST} --tasks 1e9": "--tasks must be 100,000 at most, got 1000000000",
    # benchmarks and options
    "train vision": "which benchmark? (`supple train vision BENCHMARK …`; benchmarks: permuted-mnist, ",
    "train vision permutd-mnist --out OUT": "unknown benchmark 'permutd-mnist': did you mean 'permuted-mnist'?",
    "train vision --out OUT": "which benchmark? (`supple train vision BENCHMARK …`; benchmarks: permuted-mnist, ",
    "train vision permuted-mnist --threads 1": "--out is missing",
    f"{MNIST} --batchsize 4": "unknown option --batchsize, did you mean --batch-size?",
    f"{MNIST} --seeds 0 one": "--seeds: 'one' is neither a seed",
    f"{MNIST} --learning-rate fast": "--learning-rate: 'fast' is not a number",
    f"{MNIST} --network resnet": "--network: 'resnet' is not one of 'mlp', 'cnn'",
    f"{MNIST} --stream permutations": "--stream: 'permutations' is not one of",
    f"{MNIST} --tasks 0": "--tasks must be a positive number, got 0",
    f"{MNIST} --epochs nan": "--epochs must be a finite number, got nan",
    f"{MNIST} --seed 2 --seeds 0 1": "--seed 2 and --seeds (0, 1) both say which seeds: give one of them",
    f"{MNIST} --seeds 0 1 --keep-best True": "--keep-best: each seed of a stack is best at another update",
    f"{MNIST} --batch-size 4 --eval-epochs -1": "--eval-epochs must be 0 or more",
    f"{MNIST} --seeds 1 1": "--seeds must be different numbers of 0 or more",
    f"{MNIST} --network cnn --init-lambda 1": "--init-lambda balances the units between Linear layers: --network mlp",
    f"{MNIST} --init-lambda inf": "--init-lambda must be a finite number, got inf",
    f"{MNIST} --network resnet18 --seeds 0 1": "--network resnet18 trains one seed at a time",
    # data
    f"{MNIST} --dataset minst": "unknown data set 'minst': did you mean 'mnist'?",
    "train vision permuted-mnist --data nowhere --out OUT": "nowhere: no such folder: `supple fetch mnist` fills it",
    "train vision warm-start --data DATA --out OUT": "data_batch_1.bin is missing: let --data name the folder that",
    "train vision continual-imagenet --dataset folder --out OUT": "data set 'folder' needs --data",
    f"{MNIST} --images 10000": "--images 10000: mnist has 40 training images",
    f"{MNIST} --batch-size 21": "task 0 has 20 images, fewer than --batch-size 21",
    f"{SPLIT} --tasks 3": "3 tasks need 15 classes that do not repeat, and mnist has 10: choose fewer --tasks",
    f"{SPLIT} --images-per-class 5": "--images-per-class 5: mnist has a class of 4 training images",
    f"{SPLIT} --batch-size 21": "task 0 has 20 images, fewer than --batch-size 21",
    f"{WARM} --batch-size 5": "task 0 has 4 images, fewer than --batch-size 5",
    # networks, activations, interventions
    f"{MNIST} --network cnn": "cnn: images of 8 × 8 do not fit",
    f"{MNIST} --network convnet --width 0": "--width must be a positive number, got 0",
    f"{MNIST} --network vgg16 --seeds 0": "images of 8 × 8 do not fit",
    f"{MNIST} --network vit-tiny --width 5": "vit: 3 heads cannot share a width of 5",
    f"{MNIST} --activation relo": "unknown activation 'relo': did you mean 'relu'?",
    f"{MNIST} --activation 'leaky_relu(slope=0.1)'": "leaky_relu has no parameter 'slope'",
    f"{MNIST} --activation 'leaky_relu(negative_slope=steep)'": "negative_slope",
    f"{MNIST} --activation crelu --width 7": "crelu",
    f"{MNIST} --hook fir@task": "--hook: unknown intervention 'fir': did you mean 'fire'?",
    f"{MNIST} --hook fire": "'fire' needs a schedule",
    f"{MNIST} --hook fire@task:2": "never fires",
    f"{MNIST} --hook fire@task --tasks 1": "never fires",
    f"{MNIST} --hook fire@5": "--hook: fire@5 never fires: the run has 2 steps",
    f"{MNIST} --hook 'l2_init(strength=-1)'": "l2_init: strength must",
    f"{MNIST} --hook 'swap(activation=crelu)@task'": "crelu",
    f"{MNIST} --hook critic/fire@task": "unknown learner 'critic'",
    f"{MNIST} --hook 'fire@when:dormant>0.5'": "unknown metric 'dormant'",
    f"{MNIST} --seeds 0 1 --hook 'fire@when:dormant_fraction>0.5'": "a condition (when:) is not possible",
    # what does not go together
    f"{SPLIT} --shock-every 2 --compile on": "--compile on does not go with --shock-every",
    f"{MNIST} --replay 10": "--replay goes with tasks of their own classes",
    f"{MNIST} --images-per-class 3": "--images-per-class goes with tasks made of classes",
    f"{SPLIT} --images 3": "--images goes with permuted pixels and random labels",
    f"{WARM} --shares 0.5 1 1": "--shares must be 2 growing numbers",
    f"{SPLIT} --shocks 1.5 nan": "--shocks must be a finite number",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make MNIST's files with 40 + 20 images of 8 × 8."""
    folder = tmp_path_factory.mktemp("data")
    for split, count in (("train", 40), ("t10k", 20)):
        for kind, array in (
            ("images-idx3", np.arange(count * 64).reshape(count, 8, 8).astype(np.uint8)),
            ("labels-idx1", (np.arange(count) % 10).astype(np.uint8)),
        ):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (folder / f"{split}-{kind}-ubyte").write_bytes(header + array.tobytes())
    return folder


@pytest.fixture
def ask(ask: Callable[..., tuple[int, str]], data: Path) -> Ask:
    """Return `ask(line, out)`: the exit status and stderr of `supple LINE`, with OUT and DATA replaced by paths."""
    return lambda line, out: ask(*({"OUT": out, "DATA": data}.get(word, word) for word in shlex.split(line)))


@pytest.mark.slow
@pytest.mark.parametrize("line", WRONG)
def test_wrong_usage_is_one_line_and_makes_nothing(
    line: str, tmp_path: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, stderr = ask(line, tmp_path / "out")
    assert stderr.startswith("supple: ")
    assert stderr.count("\n") == 1
    assert WRONG[line] in stderr
    assert code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA GPU")
def test_a_missing_gpu_is_refused(tmp_path: Path, ask: Ask) -> None:
    code, stderr = ask(f"{MNIST} --device cuda", tmp_path / "out")
    assert (code, stderr.count("\n")) == (2, 1)
    assert "--device cuda: PyTorch finds no CUDA GPU here" in stderr


@pytest.mark.slow
def test_a_folder_that_holds_a_run_is_refused_with_the_command_that_resumes_it(tmp_path: Path, ask: Ask) -> None:
    assert ask(f"{MNIST} --batch-size 4", tmp_path / "out") == (0, "")
    code, stderr = ask(f"{MNIST} --batch-size 4", tmp_path / "out")
    assert (code, stderr.count("\n")) == (2, 1)
    assert "already holds another run or other files" in stderr
    assert f"continue with `supple resume {tmp_path / 'out'}`" in stderr


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["1e30", "1e38"])
def test_training_that_diverges_is_an_error_in_one_line(rate: str, tmp_path: Path, ask: Ask) -> None:
    line = f"{MNIST} --seeds 0 1 --batch-size 4 --learning-rate {rate} --checkpoint-every 1"
    code, stderr = ask(line, tmp_path / "out")
    assert (code, stderr.count("\n")) == (1, 1)
    assert "out (vision, seed 0, 1): training diverged by step" in stderr
    assert "the loss of seed 0, 1 is not finite in task 0" in stderr
    assert "the last checkpoint is kept" in stderr
