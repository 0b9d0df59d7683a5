"""The table of what works on which network: `python -m tests.zoo.table` writes docs/reference/networks.md and .csv."""

import csv
import io
import re
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from tests.zoo.measures import QUICK
from tests.zoo.networks import zoo
from tests.zoo.trials import Outcome, intervened, measured

PAGE = Path(__file__).parents[2] / "docs/reference/networks.md"
TABLE = PAGE.with_suffix(".csv")
COLUMNS = {  # heading → the operations whose outcomes it shows
    "measured": ("measure", "trainability"),
    "`diagnose`": ("diagnose",),
    "`fire`": ("fire(method=polar)",),
    "`reset`, `snp`": ("reset(toward=fresh)", "snp"),
    "units": ("redo(tau=0)", "cbp(replacement_rate=0.5,maturity=1)"),
    "matrices": ("parseval", "weight_clip(kappa=1)"),
}
INTRODUCTION = """# Networks

Hooks and metrics work on networks that are more than a plain `nn.Sequential`. The tests write this page: they train
each network for two steps, measure it, and apply every intervention. They require four things.

- A measurement changes nothing: no parameter, buffer, gradient, optimizer state or generator by a bit, and no object,
  mode or attribute.
- An intervention writes the parameters that it names, and no frozen one. Tied parameters stay tied.
- The outputs stay the same if only silent units are reinitialised, unless a layer or group normalisation couples the
  units.
- A refusal comes before training, with its reason in one line.

[A table](networks.csv) has all networks. On those that are not below, everything works: `fire`, `reset`, `snp`, all
measurements, `supple doctor` (`diagnose`), "units", which are `redo` and `cbp` (`snr`, `regrama` and `cpr` need the
same), and "matrices", which are `parseval` and `weight_clip`. A network with * needs the function that makes it
(`fresh=` of `learner_for`), and one with † the function to call (`forward=`).

"""


@cache
def outcomes(name: str) -> list[Outcome]:
    """Return the outcomes of the measures and interventions of the table on a network."""
    kind = zoo()[name]
    texts = [text for texts in COLUMNS.values() for text in texts if text not in QUICK]
    return [*measured(kind, QUICK), *(intervened(kind, text) for text in texts)]


def reason(why: str) -> str:
    """Return a reason without the names of the intervention and of this network."""
    why = re.sub(r"^\w+: ", "", why)
    why = re.sub(r"'model' has no private units: ", "", why)
    why = re.sub(r"(cannot be (?:traced|copied)) \(.*?\)(?=[:,])", r"\1", why)  # PyTorch's words, which change
    return why.split("; ")[0].replace("|", "\\|").replace("<", "\\<")


def kind_of(why: str) -> str:
    """Return a reason without the names of layers: of reasons that differ in nothing else, the first stands for all."""
    return re.sub(r"'[^']*'|[\w.]*\.[\w.]*(, [\w.]+)*( and \d+ more)?|\b[A-Z]\w+\b|\d+", "…", why)


def refusals(found: Sequence[Outcome], notes: dict[str, str]) -> str:
    """Return what is refused on a network, with the numbers of the reasons, which are added to `notes`.

    Of a column these are the names of the operations, or the column's if all of them are refused.
    """
    cells = []
    for column, texts in COLUMNS.items():
        numbers: dict[int, list[str]] = {}
        for outcome in found:
            if outcome.operation in texts and outcome.kind == "refused":
                why = reason(outcome.why)
                notes.setdefault(kind_of(why), why)
                number = list(notes).index(kind_of(why)) + 1
                numbers.setdefault(number, []).append(f"`{outcome.operation.partition('(')[0]}`")
        if sum(map(len, numbers.values())) == len(texts):
            cells.append(f"{column} {' '.join(f'({number})' for number in numbers)}")
        else:
            cells += [f"{', '.join(names)} ({number})" for number, names in numbers.items()]
    return ", ".join(cells)


def texts(names: Sequence[str]) -> tuple[str, str]:
    """Return the page about these networks, and the table in CSV."""
    notes: dict[str, str] = {}
    alike: dict[str, list[str]] = {}
    rows = [("network", "refused")]
    for name in names:
        kind = zoo()[name]
        about = kind.about + ("*" if kind.fresh else "") + ("†" if kind.forward else "")
        refused = refusals(outcomes(name), notes)
        rows.append((about, refused))
        if refused:
            alike.setdefault(refused, []).append(about)
    lines = ["| refused | networks |", "|---|---|"]
    lines += [f"| {refused} | {'; '.join(abouts)} |" for refused, abouts in alike.items()]
    listed = [f"{number}. {why}" for number, why in enumerate(notes.values(), 1)]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows(rows)
    return INTRODUCTION + "\n".join(lines) + "\n\n## Reasons\n\n" + "\n".join(listed) + "\n", file.getvalue()


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for file, text in zip((PAGE, TABLE), texts([*zoo()]), strict=True):
        file.write_text(text)


if __name__ == "__main__":
    main()
