"""The page of all claims of papers, from docs/results/claims.csv."""

import csv
import re

from . import pages
from .docstrings import inline

LINK = re.compile(r"\[([^\]]*)\]\(([^)]*)\)")
RESULTS = "../../results/"  # as seen from the folder of the generated pages


def write(out: pages.Pages) -> None:
    with open(pages.REPOSITORY / "docs" / "results" / "claims.csv", encoding="utf-8", newline="") as file:
        claims = list(csv.DictReader(file))
    lines = [
        *pages.title("All claims"),
        "What the verdicts mean is on the page before: :doc:`../../results/index`.",
        "",
    ]
    for paper in dict.fromkeys(claim["paper"] for claim in claims):
        found = [claim for claim in claims if claim["paper"] == paper]
        arxiv = found[0]["arxiv"]
        lines += [*pages.title(paper, "-"), f"arXiv:{arxiv}" if arxiv else "The paper has no arXiv id.", ""]
        lines += pages.table(("claim", "published", "measured", "verdict"), map(_cells, found), "30 15 30 25")
    out.write("claims", lines)


def _cells(claim: dict[str, str]) -> tuple[str, ...]:
    tests = ", ".join(dict.fromkeys(f"`{test.partition('::')[0]}`" for test in claim["tests"].split()))
    page = f"[page]({claim['page']})" if claim["page"] else ""
    measured = "; ".join(filter(None, (claim["measured"], claim["size"], tests, page)))
    verdict = claim["verdict"] + (f". {claim['why']}" if claim["why"] else "")
    return tuple(map(_line, (f"{claim['claim']} ({claim['where']})", claim["published"], measured, verdict)))


def _line(text: str) -> str:
    """Return a line of Markdown as reStructuredText, with links that are relative to the generated page."""
    parts, end = [], 0
    for link in LINK.finditer(text):
        parts += [inline(text[end : link.start()]), f"`{link[1]} <{RESULTS}{link[2].replace('.md', '.html')}>`__"]
        end = link.end()
    return "".join([*parts, inline(text[end:])])
