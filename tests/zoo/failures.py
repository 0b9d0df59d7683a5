"""What is broken on which network: `python -m tests.zoo.failures FILE` tries everything and writes it there, by kind."""

import re
import sys
import time
import warnings
from collections import defaultdict
from pathlib import Path

import torch

from tests.zoo.networks import zoo
from tests.zoo.references import referred
from tests.zoo.trials import VARIANTS, Outcome, measured, tried


def everything(names: list[str]) -> list[Outcome]:
    """Return all outcomes on these networks, or on all."""
    found = []
    for name, kind in zoo().items():
        if names and name not in names:
            continue
        start = time.perf_counter()
        ours = [*measured(kind), *tried(kind, VARIANTS), *referred(kind)]
        found += ours
        broken = sum(outcome.kind == "broken" for outcome in ours)
        print(f"{name}: {broken} of {len(ours)} broken, {time.perf_counter() - start:.1f} s", flush=True)
    return found


def gist(why: str) -> str:
    """Return a reason without the names in it, by which reasons are grouped."""
    return re.sub(r"'[^']*'|\d+(\.\d+)?(e-?\d+)?|[\w.]+\.(weight|bias)\w*|module[\w.]*", "…", why)[:110]


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    path, *names = sys.argv[1:]
    found = everything(names)
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        if outcome.kind == "broken":
            groups[gist(outcome.why)].append(outcome)
    counts = {kind: sum(outcome.kind == kind for outcome in found) for kind in ("acts", "refused", "broken")}
    lines = [f"{len(zoo())} networks, {len(found)} outcomes: {counts}", ""]
    for _, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        by_network: dict[str, list[str]] = defaultdict(list)
        for outcome in group:
            by_network[outcome.network].append(outcome.operation)
        lines.append(f"== {len(group)} times: {group[0].why}")
        lines += [f"   {network}: {', '.join(operations)}" for network, operations in by_network.items()]
        lines.append("")
    Path(path).write_text("\n".join(lines))


if __name__ == "__main__":
    main()
