"""The page of a report: its order, what is folded away, and what shows that something scrolls."""

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
    parts = ["<h2>Lead</h2>", "<h2>Curves</h2>", "<h2>T</h2>", "fire is better",
             "<h2>Others</h2>", "<summary>More</summary>", 'src="more.png"']  # fmt: skip
    assert sorted(parts, key=text.index) == parts
    assert "<h2>More</h2>" not in text


def test_a_figure_is_described_for_those_who_do_not_see_it() -> None:
    assert 'alt="Lead. lead shows this."' in page([plot("lead")], [])
