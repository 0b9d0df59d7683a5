"""The small runs of the tracks, on files of the tests' own."""

import runpy
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

SMALL = runpy.run_path(str(Path(__file__).parents[1] / "stress" / "small_runs.py"))


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """`small("train", kind, out, *more)`: the words of a small run without hooks.

    "one phase" is pretraining without a second one."""
    places = SMALL["places"](tmp_path_factory.mktemp("small"))

    def words(command: str, kind: str, out: Path, *more: str) -> list[str]:
        without = {"--hook", "--second"} if kind == "one phase" else {"--hook"}
        line = SMALL["command"](kind.replace("one phase", "pretrain"), places, out)
        return [command, *(word for before, word in pairwise(line) if not {before, word} & without), *more]

    return words
