"""Print the numbers of the results pages whose runs a suite trains.

    python docs/suites.py gym-control                        # of the rows in docs/results
    python docs/suites.py gym-control runs/gym-control       # of `supple sweep gym-control --out runs/gym-control`
    python docs/suites.py gym-control runs/gym-control --rows docs/results/worlds/gym-control.rows.jsonl     # keep them

Both are read into one data frame with a row for each number of each run, and the columns study, arm, seed, column and
value. Rows that are kept as SUITE.rows.jsonl have this form, too. Those that are older are converted by suite_rows.py.
"""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from suite_rows import COLUMNS, RESULTS, SUITES, lines_of

from supple.experiments import load
from supple.experiments.history.collect import notes_of_unfinished
from supple.metrics import t_interval
from supple.reports.tables.cells import with_minus


def read(name: str, folder: Path | None = None) -> pd.DataFrame:
    """Return the numbers of a suite: of the sweep in a folder, with rows of peers beside it, or those committed.

    Runs that have not reached their end count with the steps so far, and a line on the error stream names them.
    """
    suite = SUITES[name]
    results = None if folder is None else load(folder)
    for data in results.studies.values() if results else ():
        for line in notes_of_unfinished(data, "its numbers are of these"):
            print(line, file=sys.stderr)
    rows = list(suite.measured(results) if results else suite.committed())
    kept = RESULTS.rglob(f"{name}.rows.jsonl") if folder is None else folder.glob("*.rows.jsonl")
    rows += [tuple(row[column] for column in COLUMNS) for file in kept for row in lines_of(file)]
    return pd.DataFrame(rows, columns=COLUMNS).drop_duplicates(list(COLUMNS[:4]))


def table(name: str, frame: pd.DataFrame) -> list[list[str]]:
    """Return a header, and a line for each arm: the mean of each column, its 95 % Student-t interval, and all seeds."""
    own = frame[frame["column"].str.contains(SUITES[name].shown)]
    columns = list(dict.fromkeys(own["column"]))
    lines = [["study", "arm", *columns]]
    for (study, arm), of_arm in own.groupby(["study", "arm"], sort=False):
        cells = {column: of_column.sort_values("seed")["value"] for column, of_column in of_arm.groupby("column")}
        lines.append([study, arm, *(_cell(column, cells.get(column, ())) for column in columns)])
    return lines


def _cell(column: str, values: Sequence[float]) -> str:
    known = [100 * value if column.endswith("%") else value for value in values if np.isfinite(value)]
    if not known:
        return ""
    digits = 0 if max(map(abs, known)) >= 100 and not column.endswith("%") else 2
    by_seed = 0 if all(value == int(value) for value in known) else digits  # counts are whole, their mean is not
    around = t_interval(known)
    span = f" [{around[0]:,.{digits}f}, {around[1]:,.{digits}f}]" if around else ""
    seeds = f": {', '.join(f'{value:,.{by_seed}f}' for value in known)}" if len(known) > 1 else ""
    return with_minus(f"{fmean(known):,.{digits}f}{span}{seeds}")


def main(words: Sequence[str]) -> None:
    parser = ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("folder", nargs="?", type=Path, help="of a sweep; without it, the rows in docs/results")
    parser.add_argument("--rows", type=Path, help="write the numbers to this file")
    given = parser.parse_args(words)
    try:
        frame = read(given.suite, given.folder)
    except (ValueError, KeyError) as error:  # no runs, those of another sweep, or too few that have finished
        parser.error(f"no numbers of {given.suite} in {given.folder}: {error}")
    if frame.empty:
        parser.error(f"no numbers of {given.suite} in {given.folder}: it is another sweep, or no run has finished")
    if given.rows:
        frame.to_json(given.rows, orient="records", lines=True)
    header, *lines = table(given.suite, frame)
    print("|", " | ".join(header), "|\n|" + "---|" * len(header))
    for line in lines:
        print("|", " | ".join(line), "|")


if __name__ == "__main__":
    main(sys.argv[1:])
