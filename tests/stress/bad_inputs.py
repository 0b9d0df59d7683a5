"""Bad inputs, of all nine kinds: every option with each of nine values that few options can take.

    python tests/stress/bad_inputs.py --out docs/results/reliability/bad_inputs.json

Every attempt asks `supple train` for a small run, through the command's own entry but in this process, with one option
changed; nothing is trained. It holds if it is refused in one line and leaves nothing in the folder, or if it is taken:
then the value was one that the option has (`--seed 0`).
"""

import json
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

import tyro
from asking import REFUSED, ask
from small_runs import RUNS, command, places

from supple.engine.kinds import find_kind
from supple.scripts.cli import training

VALUES = ("", "text", "nan", "inf", "-1", "0", "1e300", str(10**30), "[1,2]")
TAKEN = "taken"
BAD = ("several lines", "something left", "traceback", "hung")
LIMIT = 60  # seconds


@dataclass(frozen=True)
class Args:
    out: Path | None = None  # a JSON file for the counts
    kinds: tuple[str, ...] = tuple(RUNS)  # of runs


def main(args: Args) -> None:
    training.finish_run = lambda *_: None  # type: ignore[assignment]  # what is taken is not trained
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data").mkdir()
        data = places(folder / "data")
        for kind in args.kinds:
            known, words = find_kind(kind).settings_class(), command(kind, data, folder / "run")
            counts[kind] = Counter()
            for option in (f"--{field.name.replace('_', '-')}" for field in fields(known)):
                for value in VALUES:
                    outcome, said = ask(*words, option, value, limit=LIMIT)
                    if outcome == REFUSED and (folder / "run").exists():
                        outcome = "something left"
                    outcome = outcome or TAKEN
                    counts[kind][outcome] += 1
                    if outcome in BAD:
                        print(f"{kind} {option} {value!r}: {outcome}: {said.strip()[:400]}", flush=True)
                    shutil.rmtree(folder / "run", ignore_errors=True)
            print(f"{kind}: {dict(counts[kind])}", flush=True)
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps({"values": VALUES, "kinds": counts}, indent=2) + "\n")


if __name__ == "__main__":
    main(tyro.cli(Args))
