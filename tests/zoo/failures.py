"""What is broken on which network: `python -m tests.zoo.failures FILE` tries everything and writes it, by kind."""

import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.zoo.networks import zoo
from tests.zoo.references import referred, without_fresh
from tests.zoo.trials import VARIANTS, Outcome, measured, tried


def everything(names: list[str]) -> Iterator[list[Outcome]]:
    """Yield the outcomes on each of these networks, or on each of all."""
    for name, kind in zoo().items():
        if names and name not in names:
            continue
        start = time.perf_counter()
        ours = [
            *measured(kind),
            *tried(kind, VARIANTS),
            *referred(kind),
            *([without_fresh(kind)] if kind.fresh else []),
        ]
        broken = sum(outcome.kind == "broken" for outcome in ours)
        print(f"{name}: {broken} of {len(ours)} broken, {time.perf_counter() - start:.1f} s", flush=True)
        yield ours


def gist(why: str) -> str:
    """Return a reason without the names in it, by which reasons are grouped."""
    return re.sub(r"'[^']*'|\d+(\.\d+)?(e-?\d+)?|[\w.]+\.(weight|bias)\w*|module[\w.]*", "…", why)[:110]


def main() -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    path, *names = sys.argv[1:]
    found: list[Outcome] = []
    for ours in everything(names):
        found += ours
        Path(path).write_text(report(found))


def report(found: list[Outcome]) -> str:
    """Return what is broken, grouped by reasons, the most frequent first."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in found:
        if outcome.kind == "broken":
            groups[gist(outcome.why)].append(outcome)
    counts = {kind: sum(outcome.kind == kind for outcome in found) for kind in ("acts", "refused", "broken")}
    lines = [f"{len({outcome.network for outcome in found})} networks, {len(found)} outcomes: {counts}", ""]
    for _, group in sorted(groups.items(), key=lambda item: -len(item[1])):
        by_network: dict[str, list[str]] = defaultdict(list)
        for outcome in group:
            by_network[outcome.network].append(outcome.operation)
        lines.append(f"== {len(group)} times: {group[0].why}")
        lines += [f"   {network}: {', '.join(operations)}" for network, operations in by_network.items()]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
