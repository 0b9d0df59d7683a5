"""A stack of seeds is read as one run per seed, with the numbers of runs alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supple.experiments.history.collect import load, load_runs
from supple.experiments.history.stacks import logs_of_seed
from supple.reports import compose
from supple.reports.pages.run_list import run_lines
from supple.reports.pages.run_pages import render_run
from tests import records

Row = dict[str, Any]
SEEDS, FORK = (3, 5), 200
TASKS = [
    {"index": i, "cycle": i, "env": "CartPole-v1", "name": "CartPole-v1", "start": FORK * i, "end": FORK * (i + 1)}
    for i in range(2)
]
BEGUN, NEXT = ({"event": "task", "step": FORK * task, "task": task} for task in range(2))
FIRED: Row = {"event": "intervention", "step": FORK, "learner": "agent", "seconds": 0.5, "intervention": "fire"}


def sides(*numbers: float) -> Row:
    """The numbers of an intervention on several seeds, or on one."""
    value = list(numbers) if len(numbers) > 1 else numbers[0]
    return {"before": {"dfi": value}, "after": {"dfi": value, "rank": None}, "change": {"sfe": value}}


def test_rows_are_of_the_seeds_that_they_name_or_of_all_until_a_seed_diverges() -> None:
    ended = {"event": "diverged", "step": 300, "seed": 5}
    metrics = [{"step": 50, "seed": seed, "x": seed / 2} for seed in (3, 5, 7)]
    fired = {**FIRED, "seeds": [5, 7], **sides(1.0, 2.0)}
    logs = {"metrics": metrics, "events": [BEGUN, fired, ended, NEXT]}
    own = {seed: logs_of_seed(logs, seed, (3, 5, 7)) for seed in (3, 5, 7)}
    assert [own[seed]["metrics"] for seed in own] == [[row] for row in metrics]
    known = {seed: {**FIRED, "seed": seed, **sides(number)} for seed, number in ((5, 1.0), (7, 2.0))}
    for event in known.values():
        del event["after"]["rank"]  # which is not known
    assert [own[seed]["events"] for seed in own] == [[BEGUN, NEXT], [BEGUN, known[5], ended], [BEGUN, known[7], NEXT]]


def write_run(folder: Path, seeds: Sequence[int], arm: str | None, logs: Mapping[str, Any] | None = None) -> Path:
    settings = {"seed": seeds[0]} if len(seeds) == 1 else {"seeds": list(seeds)}
    records.write_run(folder, "ppo", TASKS, settings, start=FORK if arm else 0, labels={"arm": arm})
    records.write_logs(folder, **{"metrics": [], "episodes": [], "events": [], **(logs or {})})
    return folder


def write_comparison(path: Path, **stacks: Sequence[Sequence[int]]) -> Path:
    """Write a comparison of two arms with these stacks each, and their trunks; a stack of one seed is a run alone."""
    records.write_plan(path, "ppo", ["none", "fire@task"], SEEDS, FORK)
    for arm, each in stacks.items():
        for seeds in each:
            name = path / "-".join(["seed" if len(seeds) == 1 else "seeds", *map(str, seeds)])
            write_run(name / "trunk", seeds, None)
            fired = {**FIRED, "seeds": list(seeds), **sides(1.0, 2.0)}
            write_run(name / arm, seeds, "fire@task" if arm == "fire" else arm, {"events": [fired] * (arm == "fire")})
    return path


def test_seeds_from_a_stack_and_from_runs_alone_are_told_apart_in_one_line(tmp_path: Path) -> None:
    assert not load(write_comparison(tmp_path / "stacks", none=[SEEDS], fire=[SEEDS])).notes
    (note,) = load(write_comparison(tmp_path / "mixed", none=[(3,), (5,)], fire=[SEEDS])).notes
    assert "in a stack and others alone" in note


def test_a_diverged_seed_ends_alone_and_the_report_says_so(tmp_path: Path) -> None:
    steps = {3: range(10, FORK + 1, 10), 5: range(10, 51, 10)}
    episodes = [
        {"step": step, "seed": seed, "task": 0, "cycle": 0, "return": 1.0, "length": 4}
        for seed, of in steps.items()
        for step in of
    ]
    at = {"event": "diverged", "step": 50, "seed": 5, "reason": "the loss is not finite"}
    run = write_run(tmp_path / "run", SEEDS, None, {"episodes": episodes, "events": [BEGUN, at, NEXT]})
    going, gone = load_runs(run)
    assert (going.last_step, gone.last_step) == (FORK, 50)
    assert not going.of_kind("diverged")
    notes = compose(run).scores["notes"]
    assert "none, seed 5: diverged by step 50 (the loss is not finite)" in notes
    (ends,) = [note for note in notes if note.startswith("none, seed 5: its logs end at step 50")]
    assert "unfinished" not in ends


def test_the_page_of_a_stack_shows_its_seeds_together(tmp_path: Path) -> None:
    runs = load(write_comparison(tmp_path / "c", none=[SEEDS], fire=[SEEDS])).runs
    assert [run.stack for run in runs] == [SEEDS] * 4
    page = render_run("fire", [run for run in runs if run.spec.labels.arm == "fire@task"])
    assert (page.count("seed: 3"), page.count("seed: 5")) == (1, 1)
    assert [line.seeds for line in run_lines(tmp_path, runs)] == ["3, 5", "3, 5"]
