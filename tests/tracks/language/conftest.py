"""What the tests of language runs share: two small texts, and the command line of a tiny GPT on them."""

from pathlib import Path
from typing import Any

import pytest

from tests.tracks.logs import Runs

WORDS = {
    "first": ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine", "rowan", "yew"],
    "second": ["amber", "beryl", "coral", "garnet", "jade", "jet", "onyx", "opal", "pearl", "ruby", "topaz", "agate"],
}


class Bench(Runs):
    """A folder with two texts and a cache of its own, and runs on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts = {name: folder / f"{name}.txt" for name in WORDS}
        for name, path in self.texts.items():
            path.write_text(10 * "".join(f"{' '.join(WORDS[name][i:] + WORDS[name][:i])}\n" for i in range(12)))

    def command(self, out: Path, *more: str, command: str = "train") -> list[str]:
        """`train pretrain`, or another command, of a GPT with 2 blocks of width 16, 12 + 8 updates."""
        first, second = (str(path) for path in self.texts.values())
        words = (
            f"{command} pretrain --first {first} --second {second} {first} --tokenizer bytes --layers 2 --width 16 "
            f"--heads 2 --block-size 16 --batch-size 8 --micro-batch 4 --pretrain-steps 12 --warmup 2 --steps 8 "
            f"--learning-rate 1e-2 --val-sequences 6 --eval-every 5 --measure-every 9 --checkpoint-every 7 "
            f"--device cpu --out {out}"
        )
        return [*words.split(), *more]


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tests' texts; prepared corpora go to a cache of the tests' own."""
    folder = tmp_path_factory.mktemp("language")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(folder / "cache"))
        yield Bench(folder)
