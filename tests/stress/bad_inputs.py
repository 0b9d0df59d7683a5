"""Bad inputs, of all nine kinds: every option with each of nine values that few options can take.

    python tests/stress/bad_inputs.py --out docs/results/reliability/bad_inputs.json

Every attempt asks `supple train` for a small run, through the command's own entry but in this process, with one option
changed; nothing is trained. It holds if it is refused in one line and leaves nothing in the folder, or if it is taken:
then the value was one that the option has (`--seed 0`).
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import tyro
from asking import REFUSED, Attempt, ask, count
from small_runs import RUNS, command

from supple.engine.kinds import find_kind
from supple.scripts.cli import training

VALUES = ("", "text", "nan", "inf", "-1", "0", "1e300", str(10**30), "[1,2]")
TAKEN = "taken"


@dataclass(frozen=True)
class Args:
    out: Path | None = None  # a JSON file for the counts
    kinds: tuple[str, ...] = tuple(RUNS)  # of runs


def make_attempts(kind: str, folder: Path, data: dict[str, str]) -> Iterator[Attempt]:
    known, run = find_kind(kind).settings_class(), folder / "run"
    words = command(kind, data, run)
    for option in (f"--{field.name.replace('_', '-')}" for field in fields(known)):
        for value in VALUES:
            outcome, said = ask(*words, option, value)
            if outcome == REFUSED and run.exists():
                outcome = "something left"
            yield "kinds", kind, f"{option} {value!r}", outcome or TAKEN, said
            shutil.rmtree(run, ignore_errors=True)


def main(args: Args) -> None:
    training.finish_run = lambda *_: None  # type: ignore[assignment]  # what is taken is not trained
    count(args.kinds, make_attempts, args.out, values=VALUES)


if __name__ == "__main__":
    main(tyro.cli(Args))
