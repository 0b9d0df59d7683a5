"""Every number of the results pages has a scores file, or is listed as untraced; claims are as their sources say."""

import json
import re
import runpy
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from supple.metrics import t_interval
from tests.records import program

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = sorted(page.name for page in RESULTS.glob("*.md") if page.name != "index.md")

evidence = program(ROOT / "docs" / "evidence.py")

SECTIONS, CLAIMS = evidence.read()
SOURCES = tomllib.loads((RESULTS / "sources.toml").read_text())
UNTRACED = tomllib.loads((RESULTS / "untraced.toml").read_text())["table"]
MOST_UNTRACED = 1  # lower it when a table gets its scores file; never raise it

GIVEN = re.compile("publish|paper|chosen", re.IGNORECASE)  # columns of published numbers and of settings
NUMBER = re.compile(r"(< ?)?(?<!\w)([-−]?(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+|(?=\.\d))(?:\.\d+)?)( ?%)?")
PART = re.compile(r"^```.*?^```$|^#+ (.*?)$|((?:^\|[^\n]*\n)+)", re.DOTALL | re.MULTILINE)


@dataclass
class Table:
    name: str
    """PAGE#ANCHOR of the heading above, with " (2)" for its second table."""
    lines: list[list[str]]
    sources: list[str] = field(default_factory=list)

    def cells(self) -> Iterator[tuple[str, str, str]]:
        """Yield row, column and text of every cell with numbers of ours."""
        header = self.lines[0]
        for line in self.lines[2:]:
            for column, text in zip(header[1:], line[1:], strict=True):
                if not GIVEN.search(column) and NUMBER.search(text):
                    yield line[0], column, f"{text} %" if column.endswith(", %") else text


@cache
def tables(page: str) -> list[Table]:
    found: list[Table] = []
    heading = ""
    for part in PART.finditer((RESULTS / page).read_text()):
        title, rows = part.groups()
        if title:
            heading = evidence.anchor(title)
        elif rows:
            name = f"{page}#{heading}"
            number = 1 + sum(table.name.split(" ")[0] == name for table in found)
            name += f" ({number})" if number > 1 else ""
            lines = [
                [re.sub(r"\*\*|`", "", cell).strip() for cell in row.split("|")[1:-1]] for row in rows.splitlines()
            ]
            found.append(Table(name, lines, SOURCES.get(name, [])))
    return found


def statistics_of(measured: Any) -> list[float]:
    """Return the numbers that a table may print of a group."""
    found = measured.numbers
    if any(isinstance(number, str) for number in found):
        counts = [*Counter(found).values()]
        exact = [binomtest(count, len(found)).proportion_ci(0.95, "exact") for count in counts]
        return [*counts, len(found), *(end for around in exact for end in (around.low, around.high))]
    if all(isinstance(number, bool) for number in found):
        return [*(run * len(found) / len(measured.runs) for run in measured.runs), measured.total, measured.count]
    around = t_interval(measured.runs) or ()
    spread = [measured.sd] if len(measured.runs) > 1 else []
    entries = found if len(measured.entries) == 1 or isinstance(measured.entries[0], dict) else []
    return [*measured.runs, measured.mean, *around, *spread, *entries]


@cache
def groups(source: str) -> list[list[float]]:
    """Return the statistics of each group that has numbers."""
    return [statistics_of(measured) for measured in evidence.groups(source).values() if measured.numbers]


def fits(text: str, allowed: list[float]) -> bool:
    """Return whether every number of a text is one of those allowed, as rounded in the text."""
    for below, digits, percent in NUMBER.findall(re.sub(r"seeds? \d+", "", text)):
        number = float(digits.replace(",", "").replace("−", "-"))
        half = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * 1.0001
        values = [value * scale for value in allowed for scale in ((1, 100) if percent or "%" in text else (1,))]
        if not any(value < number if below else abs(value - number) <= half for value in values):
            return False
    return True


def missing(table: Table) -> set[tuple[str, str, str]]:
    """Return the cells with a number that no statistic of the table's sources gives.

    All numbers of a cell, or of each part of it between semicolons, have to come from one group of one source.
    """
    known = [group for source in table.sources for group in groups(source)]
    return {
        (row, column, text)
        for row, column, text in table.cells()
        if not all(any(fits(part, group) for group in known) for part in text.split(";"))
    }


@pytest.mark.parametrize("table", [table for page in PAGES for table in tables(page)], ids=lambda table: table.name)
def test_every_number_of_a_table_is_in_its_scores_file_or_listed_as_untraced(table: Table) -> None:
    entries = [entry for entry in UNTRACED if entry["name"] == table.name]
    if not table.sources:
        assert entries, "neither in sources.toml nor in untraced.toml"
        return
    listed = {name for entry in entries for name in (*entry.get("rows", ()), *entry.get("columns", ()))}
    cells = missing(table)
    assert [cell for cell in cells if not listed & set(cell[:2])] == []
    assert {name for name in listed if not any(name in cell[:2] for cell in cells)} == set(), "traced by now"


def test_sources_are_of_tables_that_are_there() -> None:
    assert SOURCES.keys() <= {table.name for page in PAGES for table in tables(page)}


def test_untraced_tables_become_fewer_only() -> None:
    names = [entry["name"] for entry in UNTRACED]
    assert len(names) <= MOST_UNTRACED
    assert set(names) <= {table.name for page in PAGES for table in tables(page)}
    assert all(entry["why"] for entry in UNTRACED)


def test_the_index_and_the_table_of_claims_are_up_to_date() -> None:
    assert evidence.page() == evidence.PAGE.read_text(), "python docs/evidence.py"
    assert evidence.table(*evidence.read()) == evidence.TABLE.read_text(), "python docs/evidence.py"


def test_papers_have_the_ids_of_the_page_of_papers() -> None:
    page = "".join((ROOT / "docs" / "concepts" / f"papers.{kind}").read_text() for kind in ("md", "csv"))
    ids = {paper: arxiv for papers in SECTIONS.values() for paper, arxiv in papers.items()}
    assert [paper for paper, arxiv in ids.items() if arxiv not in page] == []
    assert {claim.paper for claim in CLAIMS} == set(ids)


def test_each_verdict_is_counted_on_its_own() -> None:
    """And a run that is too small to refute a claim is not counted among those that do."""
    *_, last = evidence.counts(SECTIONS, CLAIMS).splitlines()
    total = [int(cell) for cell in last.split("|")[2:-1]]
    assert total == [sum(claim.verdict == verdict for claim in CLAIMS) for verdict in evidence.VERDICTS]
    assert sum(total) == len(CLAIMS)
    assert all(total)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.claim)
def test_a_claim_has_a_verdict_and_what_supports_it(claim: Any) -> None:
    assert claim.verdict in evidence.VERDICTS
    assert bool(claim.ours and claim.page) == (claim.verdict != "not tried")
    assert claim.why or claim.verdict == "reproduced"
    at_size = claim.tests or "full size" in claim.size
    assert claim.verdict not in evidence.AT_SIZE or at_size, "a smaller run neither reproduces a claim nor refutes it"
    for test in claim.tests:
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.ours], ids=lambda claim: claim.claim)
def test_numbers_of_a_claim_are_those_of_its_sources_or_of_its_page(claim: Any) -> None:
    if claim.numbers:
        assert set(re.findall(r"{(\w+)", claim.ours)) == set(claim.numbers)
        assert re.search(r"\d", re.sub(r"{.*?}", "", claim.ours)) is None, "a number without a source"
        assert "nan" not in claim.measured
    else:
        page = (RESULTS / claim.page.partition("#")[0]).read_text()
        known = {number for _, number, _ in NUMBER.findall(page)}
        assert {number for _, number, _ in NUMBER.findall(claim.ours)} <= known


def test_claims_and_the_index_link_to_pages_and_headings() -> None:
    links = re.findall(r"\]\(([^)#]*)#?([^)]*)\)", evidence.PAGE.read_text())
    for target, _, heading in [
        *(claim.page.partition("#") for claim in CLAIMS if claim.page),
        *((a, "", b) for a, b in links),
    ]:
        file = RESULTS / (target or "index.md")
        assert file.is_file(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", file.read_text(), re.MULTILINE)
            assert heading in map(evidence.anchor, headings), f"{target}#{heading}"


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"job": {"arm": arm, "seed": seed}, "last": 10.0 * seed + (arm == "b"), "levels": [seed, 7]}
            for arm in "ab" for seed in (0, 1)]  # fmt: skip
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "scores.json").write_text(
        json.dumps({"arms": {"a": [[1.0], [3.0]]}, "gaps": [{"arm": "a", "p": 0.5, "by_seed": [4, 6]}]})
    )
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)


@pytest.mark.usefixtures("scores")
@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("rows.jsonl: [job.arm=b] / last", "6 [-58, 70]"),
        ("rows.jsonl: [job.arm=b] / levels / 1:", "7"),
        ("rows.jsonl: [job.arm=b] / last / median", "6"),
        ("scores.json: arms / a", "2 [-11, 15]"),
        ("scores.json: gaps / {arm} / by_seed", "5 [-8, 18]"),
    ],
)
def test_a_source_leads_to_a_mean_and_its_interval(source: str, text: str) -> None:
    assert f"{evidence.only(source):.0f}" == text


@pytest.mark.usefixtures("scores")
def test_a_source_counts_groups_and_combines() -> None:
    low = evidence.only("rows.jsonl: [job.arm=b] / levels / <=1")
    assert (low.total, low.count) == (2, 4)
    found = evidence.groups("rows.jsonl: {job.arm, job.seed} / last")
    assert {name: group.mean for name, group in found.items()} == {"a, 0": 0, "a, 1": 10, "b, 0": 1, "b, 1": 11}
    assert evidence.only("scores.json: gaps / [arm=a] / arm|p").numbers == ["a", 0.5]
    assert list(evidence.groups("scores.json: arms / *")) == ["a"]
    gap = evidence.only("rows.jsonl: welch last [job.arm=b] [job.arm=a]").numbers
    assert gap == pytest.approx([1, 1 - 4.30265 * 50**0.5, 1 + 4.30265 * 50**0.5, 0.9005], abs=1e-4)
    with pytest.raises(ValueError, match="no row"):
        evidence.only("rows.jsonl: [job.arm=c] / last")


@pytest.mark.usefixtures("scores")
@pytest.mark.parametrize(
    ("text", "traced"),
    [("6 [−58, 70]", True), ("6 [−58, 70]: 1, 11", True), ("6 [−58, 71]", False), ("5; 6", True), ("5, 6", False)],
)
def test_a_number_that_no_group_gives_is_missing(text: str, traced: bool) -> None:
    table = Table("page#heading", [["", "last", "published"], ["---"] * 3, ["b", text, "99"]])
    table.sources = ["rows.jsonl: {job.arm} / last"]
    groups.cache_clear()
    assert missing(table) == (set() if traced else {("b", "last", text)})
    groups.cache_clear()


@pytest.mark.parametrize("file", sorted((RESULTS / "worlds").glob("*-old.jsonl")), ids=lambda file: file.stem)
def test_what_was_kept_of_old_tasks_follows_from_the_matrices(file: Path) -> None:
    measure = runpy.run_path(str(ROOT / "docs" / "old_tasks.py"))["measure"]
    found = [json.loads(line) for line in file.read_text().splitlines()]
    none = {row["seed"]: row for row in found if row["arm"] == "none"}
    for row in found:
        own = measure(row["scaled"], 2 if "lost" in row else 1)
        assert {name: row[name] for name in own} == own
        minus = {name: round(value - none[row["seed"]][name], 4) for name, value in own.items()}
        assert row["minus_none"] == (dict.fromkeys(own) if row["arm"] == "none" else minus)
