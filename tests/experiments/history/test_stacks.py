"""A stack of seeds is read as one run per seed, with the numbers of runs alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from supple.experiments.history.collect import load, load_runs
from supple.experiments.history.stacks import logs_of_seed
from supple.reports import compose
from supple.reports.pages.run_list import run_lines
from supple.reports.pages.run_pages import render_run
from tests import records

Row = dict[str, Any]
SEEDS, FORK, TOTAL = (3, 5), 200, 400
TASKS = [
    {"index": i, "cycle": i, "env": "CartPole-v1", "name": "CartPole-v1", "start": FORK * i, "end": FORK * (i + 1)}
    for i in range(2)
]
LOGS = ("metrics", "episodes", "events")


def write_run(folder: Path, logs: dict[str, list[Row]], arm: str | None = None, **more: Any) -> Path:
    records.write_run(folder, "ppo", TASKS, labels={"arm": arm}, **more)
    records.write_logs(folder, **logs)
    return folder


def logs_of(seed: int, arm: str | None) -> dict[str, list[Row]]:
    """Return the logs of a run alone: those of a trunk to the fork, or those of an arm after it."""
    rng = np.random.default_rng([seed, len(arm or "")])
    task, start = (0, 0) if arm is None else (1, FORK)
    steps = range(start + 10, start + FORK + 1, 10)
    sides = {side: {"dfi_unscaled": rng.random(), "weight_norm": rng.random()} for side in ("before", "after")}
    fired = {"event": "intervention", "step": FORK, "learner": "agent", "seconds": 0.5, "intervention": "fire"}
    change = {"sfe": rng.random(), "sfe_normalized": rng.random()}
    episodes = [{"step": s, "task": task, "cycle": task, "return": 10 * rng.random(), "length": 4} for s in steps]
    measured = [{"step": s, "time": 1.0, "task": task, "agent/weight_norm": rng.random()} for s in steps if s % 50 == 0]
    events: list[Row] = [{"event": "task", "step": start, "task": task}]
    events += [{**fired, **sides, "change": change}] * (arm == "fire@task")
    events += [{"event": "explosion", "step": start + 30, "task": task, "reward": -9.0}] * (seed == 5)
    return {"metrics": measured, "episodes": episodes, "events": events}


def stacked(logs: Sequence[dict[str, list[Row]]], seeds: Sequence[int] = SEEDS) -> dict[str, list[Row]]:
    """Return the logs that a stack of these runs writes."""
    marked = {
        name: [{**row, "seed": seed} for own, seed in zip(logs, seeds, strict=True) for row in own[name]]
        for name in LOGS
    }
    fired = [row for row in marked["events"] if row["event"] == "intervention"]
    others = [row for row in marked["events"] if row["event"] == "explosion"]
    begun = [row for row in logs[0]["events"] if row["event"] == "task"]
    if fired:
        lists = {
            side: {name: [row[side][name] for row in fired] for name in fired[0][side]}
            for side in ("before", "after", "change")
        }
        one = {name: value for name, value in fired[0].items() if name != "seed"} | lists
        fired = [{**one, "seeds": [row["seed"] for row in fired]}]
    return {name: sorted(marked[name], key=lambda row: row["step"]) for name in LOGS[:2]} | {
        "events": begun + fired + others
    }


def write_comparison(path: Path, stacks: Sequence[Sequence[int]]) -> Path:
    """Write a comparison forked from trunks, with these stacks; a stack of one seed is a run alone."""
    records.write_plan(path, "ppo", ["none", "fire@task"], SEEDS, FORK)
    for seeds in stacks:
        name = "-".join(["seed" if len(seeds) == 1 else "seeds", *map(str, seeds)])
        for arm, folder in ((None, "trunk"), ("none", "none"), ("fire@task", "fire")):
            logs = [logs_of(seed, arm) for seed in seeds]
            settings = {"seed": seeds[0]} if len(seeds) == 1 else {"seeds": list(seeds)}
            more = {"settings": settings, "arm": arm, **({"stop": FORK} if arm is None else {"start": FORK})}
            write_run(path / name / folder, logs[0] if len(seeds) == 1 else stacked(logs, seeds), **more)
    return path


def test_the_scores_of_a_comparison_of_stacks_are_those_of_runs_alone(tmp_path: Path) -> None:
    alone = write_comparison(tmp_path / "alone", [(3,), (5,)])
    together = write_comparison(tmp_path / "together", [SEEDS])
    assert compose(together).scores == compose(alone).scores
    assert compose(together).scores["arms"]["fire@task"]["interventions"] == 2
    assert [run.stack for run in load(together).runs] == [SEEDS] * 4


def test_seeds_from_a_stack_and_from_runs_alone_are_told_apart_in_one_line(tmp_path: Path) -> None:
    assert not load(write_comparison(tmp_path / "stacks", [SEEDS])).notes
    alone, stack = (write_comparison(tmp_path / name, s) for name, s in (("alone", [(3,), (5,)]), ("b", [SEEDS])))
    for arm in ("trunk", "none", "fire"):  # seed 3 of `fire` and all of `none` stay alone
        if arm != "none":
            (alone / "seeds-3-5").mkdir(exist_ok=True)
            (stack / "seeds-3-5" / arm).rename(alone / "seeds-3-5" / arm)
    for seed in SEEDS:
        for file in (alone / f"seed-{seed}" / "fire").iterdir():
            file.unlink()
    (note,) = load(alone).notes
    assert note.startswith("trained in a stack: seeds 3, 5 (fire@task); alone: seeds 3, 5 (none).")


def test_a_diverged_seed_ends_alone_and_the_report_says_so(tmp_path: Path) -> None:
    logs = stacked([logs_of(seed, None) for seed in SEEDS])
    at = {"event": "diverged", "step": 50, "seed": 5, "reason": "the loss is not finite"}
    logs = {name: [row for row in rows if row.get("seed") != 5 or row["step"] <= 50] for name, rows in logs.items()}
    logs["events"] = [*logs["events"], at, {"event": "task", "step": FORK, "task": 1}]
    run = write_run(tmp_path / "run", logs, settings={"seeds": list(SEEDS)})
    going, gone = load_runs(run)
    assert (going.last_step, gone.last_step) == (FORK, 50)
    assert not going.of_kind("diverged")
    notes = compose(run).scores["notes"]
    assert "none, seed 5: diverged by step 50 (the loss is not finite)" in notes
    (ends,) = [note for note in notes if note.startswith("none, seed 5: its logs end at step 50")]
    assert "unfinished" not in ends


def test_an_event_is_of_the_seeds_it_names() -> None:
    event = {"event": "intervention", "step": 9, "seeds": [5, 7], "before": {}, "after": {}, "change": {"sfe": [1, 2]}}
    shared = {"event": "task", "step": 0}
    logs: dict[str, list[Row]] = {name: [] for name in (*LOGS, "tasks")} | {"events": [shared, event]}
    found = {seed: logs_of_seed(logs, seed, (3, 5, 7))["events"] for seed in (3, 5, 7)}
    assert found[3] == [shared]
    assert [found[seed][1]["change"]["sfe"] for seed in (5, 7)] == [1, 2]
    assert found[7][1]["seed"] == 7
    assert "seeds" not in found[7][1]


def test_the_page_of_a_stack_shows_its_seeds_together(tmp_path: Path) -> None:
    path = write_comparison(tmp_path / "c", [SEEDS])
    runs = load(path).runs
    fire = [run for run in runs if run.spec.labels.arm == "fire@task"]
    page = render_run("fire", fire)
    assert (page.count("seed: 3"), page.count("seed: 5")) == (1, 3)  # the explosions are in the trunk and the arm
    (none, fired) = run_lines(tmp_path, runs)
    assert (none.seeds, fired.seeds) == ("3, 5", "3, 5")
