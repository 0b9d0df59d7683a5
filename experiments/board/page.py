"""Write the board as a page of the documentation.

python -m supple.experiments.board.page > docs/reference/board.md
"""

from collections.abc import Sequence
from pathlib import Path

from .row import rows
from .scoring import CONTROLS, suite
from .standing import Standing, standings

TEXT = Path(__file__).with_name("page.md")


def header(studies: Sequence[str]) -> list[str]:
    """Return the header of the board's table."""
    return ["method", "share", *studies, "cost", "hours"]


def cells(standing: Standing, studies: Sequence[str]) -> list[str]:
    """Return a method's row of the table: its overall share, and the mean score and share in each study."""
    found, row = [standing.row.method, _share(standing.overall)], standing.row
    for study in studies:
        result = row.results.get(study)
        scores = [score for score in result.scores.values() if score is not None] if result else []
        words = f"{sum(scores) / len(scores):.3g}" if scores else "–"
        if result and result.failed:
            words += f", {result.failed} failed"
        share = standing.shares.get(study)
        found.append(f"{words} ({share[0]:.2f})" if share else words)
    costs = [result.cost for result in row.results.values() if result.cost is not None]
    return [*found, f"{sum(costs) / len(costs):.2f}" if costs else "–", f"{row.hours:.2f}"]


def _share(share: tuple[float, float, float] | None) -> str:
    return "–" if share is None else f"{share[0]:.2f} [{share[1]:.2f}, {share[2]:.2f}]"


def page() -> str:
    """Return the text of docs/reference/board.md."""
    studies = {study.name: study for study in suite()}
    names = list(studies)
    found = standings(rows(), [name for name in names if name not in CONTROLS])
    lines = [header(names), ["---"] * len(header(names)), *(cells(each, names) for each in found)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    labels, warm = studies["random-labels"].settings, studies["warm-start"].settings
    small, large = warm["shares"]
    trained: dict[str, list[str]] = {}
    for row in rows():
        about = (
            f"{row.machine}; supple {row.versions.get('supple')} (code {row.code}), torch {row.versions.get('torch')}"
        )
        about += "".join(f"; {name} {sha[:12]}" for name, sha in row.plugins.items())
        trained.setdefault(about, []).append(row.method)
    return TEXT.read_text(encoding="utf-8").format(
        table=table,
        labels=labels["tasks"],
        epochs=labels["epochs"],
        warm=f"an {warm['network'].upper()} on {small:.0%} of {warm['dataset'].title()} for {warm['first_epochs']} "
        f"epochs, then on {large:.0%} of it for {warm['epochs']} epochs",
        about="\n".join(f"- {about}: {', '.join(f'`{name}`' for name in alike)}" for about, alike in trained.items()),
    )


if __name__ == "__main__":
    print(page(), end="")
