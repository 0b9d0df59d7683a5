"""Draw the figures of the exact theory of deep linear networks. `supple train linear` trains such a network.

supple linear figures
supple linear fig3 --seed 1 --out runs/linear
"""

import importlib
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supple.engine.storage import files
from supple.engine.storage.versions import versions
from supple.registry import describe_unknown
from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative
from supple.scripts.cli.console import indent_commands, join_command, parse, say

# Figures of Dominé et al. (2025), "From lazy to rich".
FIGURES = {
    "fig1": "outputs during training from λ = −2, 0, 2, and how balanced common initialisations are",
    "fig2": "loss, function, representations and tangent kernel during training",
    "fig3": "singular values during training, from sigmoidal to exponential",
    "fig4": "learned representations, and the effect of noise on them",
    "fig5": "distance of the tangent kernel from its initial value, over λ and network shapes",
    "fig11": "continual learning of four tasks, and forgetting",
    "fig12": "reversal learning: steps to convergence over λ",
    "fig13": "transfer of a new feature to items without training on them, over λ",
    "fig14": "fine-tuning after re-balancing",
}
COMMANDS = {**FIGURES, "figures": "all of these figures"}


@dataclass(kw_only=True)
class Options:
    seed: NotNegative[int] = 0
    """Seed of all random draws."""
    out: Path = Path("runs/linear")
    """Folder for the figure, figN.png, and its numbers, figN.json. Existing files are replaced."""


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        say(*indent_commands(__doc__).split("\n"), "", *(f"  {name:9}{about}" for name, about in COMMANDS.items()))
        return
    if args[0] not in COMMANDS:
        raise UsageError(describe_unknown("command", args[0], COMMANDS))
    about = f"{COMMANDS[args[0]]}\n\n  supple linear {args[0]} --seed 1 --out runs/linear"
    options = parse(Options, args[1:], f"supple linear {args[0]}", about)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in FIGURES if args[0] == "figures" else args[:1]:
        started = time.monotonic()
        numbers = make_figure(name, options.seed, options.out, join_command("supple linear", args))
        line = f"{options.out / name}.png  {time.monotonic() - started:.1f} s"
        if "difference" in numbers:
            line += f"  theory and simulation differ by at most {numbers['difference']:.1e}"
        say(line)


def make_figure(name: str, seed: NotNegative[int], folder: Path, command: str) -> dict[str, Any]:
    """Compute a figure, write its numbers and its picture into a folder, and return the numbers."""
    from supple.tracks.linear.figures.runs import for_json

    figure = importlib.import_module(f"supple.tracks.linear.figures.{name}")
    computed: dict[str, Any] = for_json(figure.numbers(seed))
    numbers = {"figure": name, "seed": seed, "command": command, "versions": versions(), **computed}
    picture = io.BytesIO()
    figure.draw(numbers).savefig(picture, format="png")
    files.replace(folder / f"{name}.json", json.dumps(numbers, allow_nan=False).encode() + b"\n")
    files.replace(folder / f"{name}.png", picture.getvalue())
    return numbers
