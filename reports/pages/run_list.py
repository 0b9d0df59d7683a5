"""The list of runs on the page of a report: their pages, folders, and the commands that repeat them."""

import os
from collections.abc import Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, fields
from pathlib import Path

from supple.engine.forks import FRESH, NONE
from supple.experiments.comparisons.folder import files_of_runs
from supple.experiments.comparisons.grid import variant_text
from supple.experiments.history.data import RunData
from supple.experiments.queue.queue import OUTCOME, read_outcome
from supple.registry import quoted

LONGEST = 200  # letters of the name of a page


@dataclass(frozen=True)
class RunLine:
    """A run in the list: the name of its page, and its folder relative to that which contains the report.

    `command` trains the run alone, or together with its comparison if no command trains it alone.
    """

    page: str
    arm: str
    variant: str
    seeds: str
    steps: str
    outcome: str
    folder: str
    command: str


def run_lines(place: Path, runs: Sequence[RunData]) -> list[RunLine]:
    """Return a line for each run directory. `place` is the folder that contains the report."""
    lines = []
    for path, page in page_names(runs).items():
        run, *_ = of_path = [run for run in runs if run.path == path]
        diverged = [f"seed {each.seed} {each.diverged}" for each in of_path if each.diverged]
        lines.append(
            RunLine(
                page,
                run.spec.labels.arm or "",
                variant_text(run.spec.labels.variant),
                ", ".join(str(each.seed) for each in of_path),
                f"{max(each.last_step for each in of_path):,} of {run.total_steps:,}",
                ", ".join([*outcomes(path), *diverged]) or "left",
                Path(os.path.relpath(path, place)).as_posix(),
                command_alone(run) or run.spec.command,
            )
        )
    return lines


def outcomes(folder: Path) -> list[str]:
    """Return the outcome of a run, or those of all runs of a comparison that have ended."""
    files = [file] if (file := folder / OUTCOME).is_file() else files_of_runs(folder, OUTCOME)
    return [str(read_outcome(file.parent).get("outcome")) for file in files]


def page_names(runs: Sequence[RunData]) -> dict[Path, str]:
    """Return the name of each run's page, by folder: its path inside the comparison, such as `seed-0.lr=0.1.fire`.

    Names are numbered if they are not unique.
    """
    pages: dict[str, Path] = {}
    for path in dict.fromkeys(run.path for run in runs):
        parts = path.parts[-3:]
        first = next((i for i, part in enumerate(parts) if part.startswith("seed")), len(parts) - 1)
        name = ".".join(parts[first:])[:LONGEST]
        pages[name if name not in pages else f"{name}.{len(pages)}"] = path
    return {path: name for name, path in pages.items()}


def command_alone(run: RunData) -> str:
    """Return the command that trains such a run, or "" if no single command can.

    There is none for a run with a trunk or plug-ins, the reference, or a benchmark, whose name is not recorded.
    """
    spec, kind = run.spec, run.spec.kind_row
    if spec.start.step or spec.labels.arm == FRESH or kind.benchmark or spec.resolved.plugins:
        return ""
    words = ["supple", "train", kind.name]
    for setting in fields(kind.settings_class()):
        if setting.name == "seed" and run.stack:  # --seeds says it
            continue
        default = setting.default if setting.default is not NO_DEFAULT else None
        value = run.values[setting.name]
        if setting.name == "hook":
            words += [word for hook in value or () if hook != NONE for word in ("--hook", hook)]
        elif (tuple(value) if isinstance(value, list) else value) != default:
            values = value if isinstance(value, list) else [value]
            words += [f"--{setting.name.replace('_', '-')}", *map(str, values)]
    return " ".join(map(quoted, [*words, "--out", "again"]))
