"""Write docs/results/claims.csv and the tables of docs/results/index.md from docs/results/claims.toml and scores files.

    python docs/evidence.py        # after a change of claims.toml or of a scores file

A *source*, in claims.toml or in sources.toml, names a scores file in docs/results/ and the numbers in it:

    worlds/when.json: arms / none / mean_return_per_seed
    worlds/cartpole.jsonl: [key.0=none, key.1=1] / levels / 1: / <=10
    learning/ppo.jsonl: {job.arm, job.env} / last

Its steps lead from the whole file to the numbers. Rows are the lines of a JSON Lines file.

    NAME, NUMBER, FROM:TO  one entry, or some entries, of a dictionary or a list; in a file of rows, of each row
    NAME|NAME              these entries of a dictionary, together
    [FIELD=VALUE, ...]     the rows with these values; in a list of dictionaries, the first of them
    {FIELD, ...}           all rows or dictionaries, as one group for each combination of values of these fields; in a
                           list of dictionaries, the only one with these values is itself
    *                      all entries of a dictionary, each as a group
    <=NUMBER               True for each number that is at most this one
    median                 the median over runs
    welch NAME [...] [...] the mean of this entry in some rows minus that in others, Welch's 95 % interval, and p
"""

import csv
import io
import json
import re
import statistics
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from scipy.stats import ttest_ind

from supple.metrics import t_interval

RESULTS = Path(__file__).parent / "results"
PAGE, CLAIMS, TABLE = RESULTS / "index.md", RESULTS / "claims.toml", RESULTS / "claims.csv"
COLUMNS = (
    *("paper", "arxiv", "where", "claim", "published", "measured", "size", "tests", "page", "scores_kept"),
    *("verdict", "why"),
)
MARKS = "<!-- claims -->", "<!-- /claims -->"
AT_SIZE = ("reproduced", "not reproduced")  # of runs at the paper's size, or of tests
VERDICTS = ("reproduced", "reproduced in part", "not reproduced", "not reproduced at this size", "not tried")


class ScoreRows(list[Any]):
    """Rows of a scores file. A step that names an entry is applied to each of them."""


@dataclass(frozen=True)
class Measured:
    """What a source finds: one entry for each run, which is a number or a list of numbers."""

    entries: Sequence[Any]

    @property
    def numbers(self) -> list[Any]:
        """All numbers, whatever lists and dictionaries they are in."""
        return list(_leaves(self.entries))

    @property
    def runs(self) -> list[float]:
        """The mean of each run."""
        return [statistics.fmean(found) for entry in self.entries if (found := list(_leaves(entry)))]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.runs)

    @property
    def sd(self) -> float:
        return statistics.stdev(self.runs)

    @property
    def total(self) -> float:
        return sum(self.numbers)

    @property
    def count(self) -> int:
        return len(self.numbers)

    def __format__(self, spec: str) -> str:
        """Return the mean over runs and, from two runs on, its 95 % Student-t interval."""
        around = t_interval(self.runs)
        return f"{self.mean:{spec}}" + (f" [{around[0]:{spec}}, {around[1]:{spec}}]" if around else "")


@dataclass(frozen=True)
class PaperClaim:
    """A claim of a paper, and what supple measured of it.

    where: Table, figure or section of the paper.
    ours: Text with a replacement field for every number that `numbers` has a source for.
    size: How large the measurement was.
    page: Page and anchor, relative to docs/results/.
    why: Why the verdict is not "reproduced", or what limits it.
    numbers: Source by name.
    tests: Tests that decide the claim, as FILE::TEST below tests/.
    """

    paper: str
    where: str
    claim: str
    verdict: str
    published: str = ""
    ours: str = ""
    size: str = ""
    page: str = ""
    why: str = ""
    numbers: dict[str, str] | None = None
    tests: tuple[str, ...] = ()

    @property
    def traced(self) -> bool:
        return bool(self.numbers or self.tests)

    @property
    def measured(self) -> str:
        """`ours` with the numbers of the scores files."""
        found = {name: only(source) for name, source in (self.numbers or {}).items()}
        text = re.sub(r"(?<![\w.])-(?=\d)", "−", self.ours.format(**found))
        return re.sub(r"(\d)%", r"\1 %", text.replace("% ± ", " ± "))


def only(source: str) -> Measured:
    """Return what a source with a single group finds."""
    (found,) = groups(source).values()
    return found


def groups(source: str) -> dict[str, Measured]:
    """Return what a source finds, by group."""
    file, way = source.split(": ", 1)
    text = (RESULTS / file).read_text(encoding="utf-8")
    whole = ScoreRows(map(json.loads, text.splitlines())) if file.endswith(".jsonl") else json.loads(text)
    return {
        group: Measured(found if isinstance(found, list) else [found])
        for group, found in _walk(whole, way.split(" / "))
    }


def _walk(node: Any, steps: Sequence[str], group: str = "") -> Iterator[tuple[str, Any]]:
    if not steps:
        yield group, node
        return
    step, *rest = steps
    if step == "*":
        parts = dict(node)
    elif step.startswith("{"):
        parts = {}
        for row in node:
            parts.setdefault(", ".join(str(_field(row, name)) for name in step[1:-1].split(", ")), ScoreRows()).append(
                row
            )
        if not isinstance(node, ScoreRows):
            parts = {name: found[0] if len(found) == 1 else found for name, found in parts.items()}
    else:
        parts = {"": _take(node, step)}
    for name, part in parts.items():
        yield from _walk(part, rest, ", ".join(filter(None, (group, name))))


def _take(node: Any, step: str) -> Any:
    if step.startswith("["):
        wanted = [condition.split("=", 1) for condition in step[1:-1].split(", ")]
        found = ScoreRows(row for row in node if all(str(_field(row, name)) == value for name, value in wanted))
        if not found:
            raise ValueError(f"{step}: no row has these values")
        return found if isinstance(node, ScoreRows) else found[0]
    if step.startswith("welch "):
        name, *conditions = step.removeprefix("welch ").split(" [")
        return _welch(*(_take(_take(node, f"[{each}"), name) for each in conditions))
    if step == "median":
        return statistics.median(Measured(node).runs)
    if isinstance(node, ScoreRows):
        return ScoreRows(_take(row, step) for row in node)
    if step.startswith("<="):
        return [_take(entry, step) for entry in node] if isinstance(node, list) else node <= float(step[2:])
    if "|" in step:
        return {name: node[name] for name in step.split("|")}
    if isinstance(node, list):
        first, colon, last = step.partition(":")
        return node[int(first or 0) : int(last) if last else None] if colon else node[int(first)]
    return node[step]


def _welch(ours: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    test = ttest_ind(ours, theirs, equal_var=False)
    low, high = test.confidence_interval()
    return {"difference": statistics.fmean(ours) - statistics.fmean(theirs), "low": low, "high": high, "p": test.pvalue}


def _field(row: Any, name: str) -> Any:
    return reduce(lambda node, key: node[int(key) if isinstance(node, list) else key], name.split("."), row)


def _leaves(node: Any) -> Iterator[Any]:
    if isinstance(node, dict | list | tuple):
        for entry in node.values() if isinstance(node, dict) else node:
            yield from _leaves(entry)
    elif node is not None:
        yield node


def read() -> tuple[dict[str, dict[str, str]], list[PaperClaim]]:
    """Return the arXiv ids of papers, by section and paper, and the claims."""
    found = tomllib.loads(CLAIMS.read_text(encoding="utf-8"))
    sections = {paper: {paper: arxiv} for paper, arxiv in found["papers"].items()} | {"Other papers": found["field"]}
    return sections, [PaperClaim(**entry) for entry in found["claim"]]


def counts(sections: dict[str, dict[str, str]], claims: Sequence[PaperClaim]) -> str:
    """Return the number of claims by section and verdict, as a table of Markdown."""
    lines = [_row("", *VERDICTS), _row(*["---"] * (1 + len(VERDICTS)))]
    for name, ids in [*sections.items(), ("all", {claim.paper: "" for claim in claims})]:
        found = Counter(claim.verdict for claim in claims if claim.paper in ids)
        lines.append(_row(name, *(str(found[verdict]) for verdict in VERDICTS)))
    return "\n".join(lines)


def refuted(claims: Sequence[PaperClaim]) -> str:
    """Return the claims that were not reproduced at the size of the paper, as a table of Markdown."""
    rows = [(claim.paper, f"[{claim.claim}]({claim.page})") for claim in claims if claim.verdict == AT_SIZE[1]]
    return "\n".join(_row(*cells) for cells in [("paper", f"claims that are {AT_SIZE[1]}"), ("---", "---"), *rows])


def table(sections: dict[str, dict[str, str]], claims: Sequence[PaperClaim]) -> str:
    """Return all that is known of every claim, as CSV."""
    arxiv = {paper: number for ids in sections.values() for paper, number in ids.items()}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for claim in claims:
        tests = " ".join(f"tests/{test}" for test in claim.tests)
        kept = "" if not claim.ours else "yes" if claim.traced else "no"
        known = {"arxiv": arxiv[claim.paper], "measured": claim.measured, "tests": tests, "scores_kept": kept}
        writer.writerow(vars(claim) | known)
    return text.getvalue()


def _row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST form it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def page() -> str:
    """Return the page with its tables made again."""
    before, rest = PAGE.read_text(encoding="utf-8").split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    sections, claims = read()
    return f"{before}{MARKS[0]}\n\n{counts(sections, claims)}\n\n{refuted(claims)}\n\n{MARKS[1]}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    TABLE.write_text(table(*read()), encoding="utf-8")
