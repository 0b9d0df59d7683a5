"""The suite of the board, and how its runs become a row.

Its settings are in bench.toml in full, so that no change of a preset or of a default changes what the board trains.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from ...engine.forks import FRESH, NONE
from ...engine.machine.resources import describe_machine
from ...engine.storage import files
from ...engine.storage.versions import versions
from ...engine.user_code import plugins
from ..queue.queue import Queue
from ..sweeps.file import read_sweep
from ..sweeps.search import load_finished, score, seconds_of
from ..sweeps.study import Study
from ..sweeps.sweep import Sweep
from .row import Result, Row

FILE = Path(__file__).with_name("bench.toml")


@dataclass(frozen=True)
class SuiteMeasure:
    """The measure of a study, and the scores that are possible.

    Attributes:
        name: The measure (`search.score`).
        low, high: The smallest and the largest possible score.
        spread: The largest standard deviation over seeds among the published rows, rounded up.
    """

    name: str
    low: float
    high: float
    spread: float


MEASURES = {  # by study
    "cart-pole": SuiteMeasure("return", 0.0, 400.0, 30.0),  # 1 per step, and episodes end after 400
    "nine-rooms": SuiteMeasure(
        "return", -28.0, 3.0, 1.2
    ),  # 100 steps at −0.01 times the largest distance to a goal, 28
    "random-labels": SuiteMeasure("online_accuracy", 0.0, 1.0, 0.02),
    "warm-start": SuiteMeasure("test_accuracy@last", 0.0, 1.0, 0.004),
}
CONTROLS = ("warm-start",)  # studies without a loss of plasticity, whose scores have no share
# kind of run → the arm with the plasticity of a new network
CEILINGS = {"ppo": f"{NONE} + {FRESH}=true", "vision": "reset@task"}
ALONE = {"ppo": {"stack": "off"}}  # kind of run → what is not among the frozen settings: each seed is a run of its own
DIGITS = 16  # of a SHA-256 sum


def suite(studies: Sequence[str] = ()) -> list[Study]:
    """Return the studies of the board, all or those named, without arms."""
    return [study for study in read_sweep(FILE).studies if not studies or study.name in studies]


def bench(methods: Sequence[str], studies: Sequence[str] = ()) -> Sweep:
    """Return the sweep that trains these methods and `none`, each seed of an agent alone, as all rows were trained.

    Args:
        methods: Hooks as for `supple compare --arm`, or `fresh`.
        studies: Names of studies in bench.toml; all by default.
    """
    return Sweep(
        [
            replace(
                study,
                arms=tuple(dict.fromkeys(arm_of(study.kind, method) for method in (NONE, *methods))),
                settings={**study.settings, **ALONE.get(study.kind, {})},
            )
            for study in suite(studies)
        ]
    )


def arm_of(kind: str, method: str) -> str:
    """Return the arm of a method for a kind of run."""
    return CEILINGS[kind] if method == FRESH else method


def row_of(method: str, queue: Queue, machine: str) -> Row:
    """Return the row of a method, from all finished runs of `bench`. Those of `none` are needed for its cost."""
    results = {}
    for study in suite(tuple(run.spec.labels.study for run in queue)):
        of_study = [run for run in queue if run.spec.labels.study == study.name]
        own = [run for run in of_study if run.spec.labels.arm == arm_of(study.kind, method)]
        others = [run for run in of_study if run.spec.labels.arm == NONE]
        runs, seconds = load_finished(own), seconds_of(load_finished(others))
        scores: dict[str, float | None] = {str(seed): None for run in own for seed in run.spec.seeds}
        measured = {str(run.seed): round(score(run, MEASURES[study.name].name), 6) for run in runs}
        scores |= {seed: number for seed, number in measured.items() if isfinite(number)}  # NaN: nothing was logged
        cost = round(seconds_of(runs) / seconds, 3) if seconds else None
        results[study.name] = Result(scores, round(seconds_of(runs), 1), cost, sum_of(study))
    return Row(
        method=method,
        results=results,
        plugins={plugin.name: plugin.sha256 for plugin in plugins.loaded()},
        versions=versions(),
        code=code(),
        machine=machine,
    )


def sum_of(study: Study) -> str:
    """Return a SHA-256 sum over everything that the runs of a study depend on, except for the code.

    It reveals rows that belong to another suite.
    """
    text = json.dumps([study.kind, study.base["settings"], study.fork_at, study.seeds], sort_keys=True)
    return files.sha256(text.encode())[:DIGITS]


def conditions() -> str:
    """Return a SHA-256 sum over what the numbers of runs depend on: code, versions, machine and plug-ins."""
    loaded = {plugin.name: plugin.sha256 for plugin in plugins.loaded()}
    return files.sha256(json.dumps([code(), versions(), describe_machine(), loaded], sort_keys=True).encode())[:DIGITS]


def code() -> str:
    """Return a SHA-256 sum over the Python files of supple."""
    root = Path(__file__).parents[2]
    return files.sha256("".join(files.sha256(f.read_bytes()) for f in sorted(root.rglob("*.py"))).encode())[:DIGITS]
