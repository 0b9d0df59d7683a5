"""What the tests of all tracks share: logs of a run, small data sets, one-line refusals."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supple.engine.runs import open_run, prepare
from supple.engine.spec import RunSpec
from supple.registry.errors import RunError


def read_log(run: Path, name: str) -> list[dict[str, Any]]:
    """Return the lines of a run's log without its clocks."""
    lines = [json.loads(line) for line in (run / f"{name}.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in ("time", "seconds")} for line in lines]


def state(run: Path, step: int) -> bytes:
    """Return the tensors of a run's checkpoint."""
    return (run / f"checkpoints/{step:012d}/state.safetensors").read_bytes()


def require_same(run: Path, reference: Path) -> None:
    """Fail unless two runs have the same logs, checkpoints and exported models, bit for bit."""
    for name in ("metrics", "tasks", "events"):
        assert read_log(run, name) == read_log(reference, name), name
    found = [
        {file.relative_to(each): sha256(file.read_bytes()).hexdigest() for file in each.rglob("*.safetensors")}
        for each in (run, reference)
    ]
    assert found[0] == found[1]


class Runs:
    """Runs of a kind, by settings that differ from `settings()`."""

    kind: str
    settings: Callable[..., Any]

    def run(self, out: Path, *method: str, **changes: Any) -> Path:
        prepare(RunSpec(self.kind, self.settings(*method, **changes)), out).close()
        return self.resume(out)

    def resume(self, out: Path) -> Path:
        open_run(out, self.complain).train(lambda _: None)
        return out

    def complain(self, line: str) -> None:
        raise AssertionError(line)

    def log(self, run: Path, name: str, seed: int | None = None) -> list[dict[str, Any]]:
        """Return the lines of a log, of one seed or of all."""
        return [line for line in read_log(run, name) if seed in (None, line.get("seed"))]


def idx_file(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


def write_idx(folder: Path, split: str, images: np.ndarray, labels: np.ndarray) -> None:
    """Write images (n, height, width) uint8 and labels (n,) uint8 as MNIST's files of the split train or t10k."""
    folder.mkdir(exist_ok=True)
    (folder / f"{split}-images-idx3-ubyte").write_bytes(idx_file(images))
    (folder / f"{split}-labels-idx1-ubyte").write_bytes(idx_file(labels))


def refusal(call: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return the one line with which a call is refused."""
    with pytest.raises((ValueError, RunError)) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)
