"""Where the time goes, part by part, beside what cannot be left out.

    python benchmarks/parts/measure.py sac-update classifiers [--threads 1 2] [--rounds 7] [--no-flush]
    python benchmarks/parts/measure.py --list

An entry, with each number of threads, is a process of its own. Its contestants take turns; numbers are medians of the
rounds, with their quartiles, or least and greatest of fewer than five. Below each stands its ratio to the first
contestant's within a round. A floor is what cannot be left out, measured alone.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER.parent / name) for name in ("", "beside", "gpu")]

from entries import ENTRIES, Asked, Entry, Turns  # noqa: E402
from pretended_gpu import simulated_gpu  # noqa: E402
from timing import begin, take_turns, write_spread  # noqa: E402


@dataclass(frozen=True)
class Args:
    entries: Annotated[tuple[str, ...], tyro.conf.Positional] = ()
    """Which entries."""
    threads: tuple[int, ...] = (1,)
    """Threads of PyTorch, or those of the environments where the entry is about them."""
    rounds: int | None = None
    """Turns of each contestant that count; the entry's own number where it is not given."""
    flush: bool = True
    """Off: denormal numbers are kept, and not taken for zero as in training."""
    small: bool = False
    """As little work and as few rounds as show that an entry works; its numbers say nothing."""
    simulated: bool = False
    """Simulate a GPU, for entries that need one. `--small` goes with it."""
    json: bool = False
    """Print the numbers of each round as JSON, in the last line."""
    list: bool = False
    """Print the entries, and measure none."""


def find(place: str) -> Callable[..., Any]:
    module, function = place.split(":")
    return getattr(import_module(module), function)  # type: ignore[no-any-return]


def take(entry: Entry, args: Args) -> dict[str, list[dict[str, float]]]:
    """Return what each contestant's turns found, by round."""
    place, *arguments = entry.turns.split()
    small = args.small or args.simulated
    turns: Turns = find(place)(Asked(args.threads[0], small, args.simulated), *arguments)
    rounds = 1 if small else args.rounds or entry.rounds
    found = take_turns(turns, rounds, warm=0 if small or entry.rounds < 3 else 1)
    if entry.adds:
        return {name: [{**parts, "in all": sum(parts.values())} for parts in each] for name, each in found.items()}
    return {name: [dict(parts) for parts in each] for name, each in found.items()}


def show(found: Mapping[str, list[dict[str, float]]]) -> Table:
    """Return the table: a line for each part and a column for each contestant, or the other way round."""
    first = next(iter(found))
    parts = list(dict.fromkeys(part for rounds in found.values() for part in rounds[0]))

    def cell(part: str, name: str) -> str:
        if part not in found[name][0]:
            return ""
        values = [each[part] for each in found[name]]
        if name == first or part not in found[first][0]:
            return write_spread(values)
        base = [each[part] for each in found[first]]
        return f"{write_spread(values)}\n× {median(a / b for a, b in zip(values, base, strict=True) if b):.2f}"

    columns, lines = (list(found), parts) if len(found) <= max(len(parts), 4) else (parts, list(found))
    table = Table("")
    for column in columns:
        table.add_column(column, justify="right")
    for line in lines:
        table.add_row(line, *(cell(line, c) if lines is parts else cell(c, line) for c in columns))
    return table


def main(args: Args) -> None:
    if args.list:
        for name, entry in ENTRIES.items():
            print(f"{name:27} {entry.title}")
        return
    if unknown := [name for name in args.entries if name not in ENTRIES]:
        raise SystemExit(f"no entry is called {', '.join(unknown)}; there are {', '.join(ENTRIES)}")
    if len(args.entries) * len(args.threads) == 1:
        entry, threads = ENTRIES[args.entries[0]], args.threads[0]
        begin(threads, args.flush)
        kept = "" if args.flush else ", denormal numbers kept"
        title = f"{entry.title}{': ' * bool(entry.unit)}{entry.unit}; {threads} thread{'s' * (threads > 1)}{kept}"
        with simulated_gpu() if args.simulated else nullcontext():
            found = take(entry, args)
        print(title)
        Console(width=140).print(show(found))
        if args.json:
            print(json.dumps(found))
        return
    options = [
        f"--{'' if value else 'no-'}{name}"
        for name, value in (("flush", args.flush), ("small", args.small), ("json", args.json))
    ]
    options += ["--rounds", str(args.rounds)] * (args.rounds is not None)
    commands = [[name, "--threads", str(threads), *options] for name in args.entries for threads in args.threads]
    codes = [subprocess.run([sys.executable, __file__, *words]).returncode for words in commands]
    sys.exit(int(any(codes)))


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
