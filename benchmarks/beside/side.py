"""One side of a race, in a process of its own: `race.py` starts it and says when it may run.

    python side.py RACE SIDE THREADS WARM

It warms up for so many turns (caches are filled, everything is compiled), writes a line, and then answers each line on
its standard input with the number of units that it does in a second. Whatever libraries print goes to standard error.
"""

import os
import sys
from importlib import import_module
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # what the sides share with other benchmarks


def main(race: str, name: str, threads: int, warm: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # JAX has no other setting

    from races import RACES
    from timing import begin, seconds

    begin(threads)
    place, *arguments = RACES[race].sides[name].split()
    module, function = place.split(":")
    turn, units = getattr(import_module(module), function)(threads, *arguments)
    for _ in range(warm):
        turn()
    print("ready", file=answers)
    for _ in sys.stdin:
        print(units / seconds(turn), file=answers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
