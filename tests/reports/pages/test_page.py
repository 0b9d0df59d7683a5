"""The page of a report: its order, what is folded away, and what shows that something scrolls."""

import re

from supple.reports.figures.style import Plot, new_figure
from supple.reports.pages.page import template
from supple.reports.tables.table import Table


def plot(name: str, folded: bool = False, width: float = 11.0) -> Plot:
    return Plot(name, name.capitalize(), f"{name} shows this.", new_figure(2.0, width), folded)


def page(plots: list[Plot], tables: list[Table]) -> str:
    of_page = {"what": "report", "title": "4 arms", "path": "demo", "facts": [], "limits": ""}
    return template("layout.html").render(plots=plots, tables=tables, verdict=["fire is better"], **of_page)


def test_two_figures_come_before_the_tables_and_what_is_folded_last() -> None:
    text = page([plot("lead"), plot("curves"), plot("others"), plot("more", folded=True)], [Table("T", ["arm"], [])])
    parts = ["<h2>Lead</h2>", "<h2>Curves</h2>", "<h2>T</h2>", "<summary>Differences in sentences (1)</summary>",
             "<h2>Others</h2>", "<summary>More</summary>", 'src="more.png"']  # fmt: skip
    assert sorted(parts, key=text.index) == parts
    assert "<h2>More</h2>" not in text


def test_a_figure_is_described_for_those_who_do_not_see_it() -> None:
    assert 'alt="Lead. lead shows this."' in page([plot("lead")], [])


def test_what_is_wider_than_the_page_is_marked_until_it_is_scrolled_and_not_on_paper() -> None:
    text = page([plot("lead"), plot("narrow", width=8.0)], [Table("T", ["arm"], [])])
    assert re.search(r"\[data-more\] \{ mask-image: linear-gradient", text)
    assert re.search(r'\[data-more\] \+ \*::before \{ content: "scroll → "', text)
    assert 'document.querySelectorAll(".scroll, .sheet")' in text
    for box in re.findall(r'<div class="(?:scroll|sheet)">.*?</div>\s*<(\w+)', text, re.DOTALL):
        assert box in ("p", "figcaption")  # which says that it scrolls
    paper = text[text.index("@media print") :]
    assert "[data-more] { mask-image: none; }" in paper
    assert text.count('class="narrow"') == 1
