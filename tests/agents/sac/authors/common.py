"""What comparisons with the authors' own code have in common: weights, batches, and how results are written down.

`flash.py`, `simba_v2.py` and `crossq.py` beside this file run the released code on these weights and batches, and write
its results into `numbers.json`; the first lines of each say how. `test_update_authors.py` compares ours with them. This
file needs NumPy alone.
"""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = Path(__file__).with_name("numbers.json")
D, A, N = 5, 2, 16
WIDTHS = {"actor_width": 8, "actor_blocks": 1, "critic_width": 12, "critic_blocks": 2}
ATOMS, RANGE = 11, (-5.0, 5.0)
GAMMA, TAU, RATE, START, TARGET = 0.9, 0.05, 1e-3, 0.2, -0.4  # the target entropy is per dimension of the action
UPDATES = 20
CROSSQ_BETA, PASSES = 0.5, 99_990  # Adam's β₁; passes of CrossQ before the first, of 100,000 before renormalisation


def value_of(name: str, first: np.ndarray, vectors: int) -> np.ndarray:
    """Return the weights that a parameter begins with, before they are projected.

    Args:
        name: Its name in our networks.
        first: Its first values.
        vectors: The dimensions of a parameter that is a vector: 1, or 2 of a stack.
    """
    noise = np.random.RandomState(zlib.crc32(name.encode())).standard_normal(first.shape)
    if name.endswith("bias"):
        return 0.1 * noise
    return noise / first.shape[-1] ** 0.5 if first.ndim > vectors else first * (1 + 0.1 * noise)


def batches() -> Iterator[dict[str, np.ndarray]]:
    """Yield batches; `noise` is (N, 2, A): for the action in s and that in s′."""
    draws = np.random.RandomState(0)
    while True:
        yield {
            "states": 2 * draws.standard_normal((N, D)) + 1,
            "next_states": 2 * draws.standard_normal((N, D)) + 1,
            "actions": draws.uniform(-1, 1, (N, A)),
            "rewards": draws.standard_normal(N),
            "terminated": draws.uniform(size=N) < 0.3,
            "noise": draws.standard_normal((N, 2, A)),
        }


def digest(parameters: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Return of each parameter its length and a weighted sum, which stand for it."""
    weights = np.random.RandomState(1).standard_normal(100_000)
    return {
        name: [float(np.linalg.norm(value)), float(value.ravel() @ weights[: value.size])]
        for name, value in ((name, np.asarray(value, np.float64)) for name, value in parameters.items())
    }


def write(network: str, found: Mapping[str, Any]) -> None:
    """Add the results for a network to the file, as `compare` reads them."""
    known = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    text = json.dumps({**known, network: found}, indent=1)
    NUMBERS.write_text(re.sub(r"\[\s+([-+.\de]+),\s+([-+.\de]+)\s+\]", r"[\1, \2]", text) + "\n")  # a pair a line
