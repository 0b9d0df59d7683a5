"""The table of what works on which network: `python -m tests.zoo.table` writes docs/reference/networks.md."""

import re
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch

from tests.zoo.networks import zoo
from tests.zoo.references import referred
from tests.zoo.trials import Outcome, measured, tried

PAGE = Path(__file__).parents[2] / "docs/reference/networks.md"
MEASURED = ("measure", "trainability", "record", "names", "trace_wiring", "outputs_of_others", "diagnose", "features")
QUICK = ("fire_ is an isometry", "dormant_fraction by hand", "recycle_ of silent units")  # of the references
COLUMNS = {  # heading → the operations whose outcomes it shows
    "measured": ("measure", "trainability"),
    "`diagnose`": ("diagnose",),
    "`fire`": ("fire(method=polar)",),
    "`reset`, `snp`": ("reset(toward=fresh)", "snp"),
    "units": ("redo(tau=0)", "cbp(replacement_rate=0.5,maturity=1)"),
    "matrices": ("parseval", "weight_clip(kappa=1)"),
}
INTRODUCTION = """# Networks

This page shows what works on networks that are more than a plain `nn.Sequential`. It is for users who have such a
network. The tests write the table: they train each network for two steps, measure it, and apply every intervention.
They require four things.

- A measurement changes nothing: no parameter, buffer, gradient, optimizer state or generator by a bit, and no object,
  mode or attribute.
- An intervention writes the parameters that it names, and no frozen one. Tied parameters stay tied.
- The outputs stay the same if only silent units are reinitialised.
- A refusal comes before training, with its reason in one line.

✓ means that all operations of the column work. A number in parentheses refers to the reason for a refusal, listed
below the table. If a name stands before the number, only that operation is refused. "Units" are `redo` and `cbp`;
`snr`, `regrama` and `cpr` need the same. "Matrices" are `parseval` and `weight_clip`. A network with * needs the
function that makes it (`fresh=` of `learner_for`), and one with † the function to call (`forward=`).

"""


@cache
def outcomes(name: str) -> list[Outcome]:
    """Return the outcomes of the measures and interventions of the table on a network, and of the references."""
    kind = zoo()[name]
    texts = [text for texts in COLUMNS.values() for text in texts if text not in MEASURED]
    return [*measured(kind, MEASURED), *tried(kind, texts), *referred(kind, QUICK)]


def reason(why: str) -> str:
    """Return a reason without the names of the intervention and of this network."""
    why = re.sub(r"^\w+: ", "", why)
    why = re.sub(r"'model' has no private units: ", "", why)
    why = re.sub(r"(cannot be (?:traced|copied)) \(.*?\)(?=[:,])", r"\1", why)  # PyTorch's words, which change
    return why.split("; ")[0].replace("|", "\\|").replace("<", "\\<")


def kind_of(why: str) -> str:
    """Return a reason without the names of layers: of reasons that differ in nothing else, the first stands for all."""
    return re.sub(r"'[^']*'|[\w.]*\.[\w.]*(, [\w.]+)*( and \d+ more)?|\b[A-Z]\w+\b|\d+", "…", why)


def cell(found: Sequence[Outcome], operations: Sequence[str], notes: dict[str, str]) -> str:
    by_name = {outcome.operation: outcome for outcome in found}
    of = {text: by_name[text] for text in operations if text in by_name}
    refused = {text: outcome for text, outcome in of.items() if outcome.kind == "refused"}
    if any(outcome.kind == "broken" for outcome in of.values()) or not of:
        return "✗"
    if not refused:
        return "✓"
    numbers: dict[int, list[str]] = {}
    for text, outcome in refused.items():
        why = reason(outcome.why)
        notes.setdefault(kind_of(why), why)
        number = list(notes).index(kind_of(why)) + 1
        numbers.setdefault(number, []).append(text.partition("(")[0])
    if len(refused) == len(of):
        return "– " + " ".join(f"({number})" for number in numbers)
    return "; ".join(f"{', '.join(f'`{name}`' for name in names)} ({number})" for number, names in numbers.items())


def page(names: Sequence[str]) -> str:
    """Return the page about these networks."""
    notes: dict[str, str] = {}
    lines = [f"| network | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in names:
        kind = zoo()[name]
        marks = ("*" if kind.fresh else "") + ("†" if kind.forward != "forward" else "")
        cells = [cell(outcomes(name), operations, notes) for operations in COLUMNS.values()]
        lines.append(f"| {kind.about}{marks} | {' | '.join(cells)} |")
    listed = [f"{number}. {why}" for number, why in enumerate(notes.values(), 1)]
    return INTRODUCTION + "\n".join(lines) + "\n\n## Reasons\n\n" + "\n".join(listed) + "\n"


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    PAGE.write_text(page([name for name, kind in zoo().items() if not kind.slow]))


if __name__ == "__main__":
    main()
