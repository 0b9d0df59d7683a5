"""The lines that a command prints before training, its plan, and after it, the results and the next command."""

import shlex
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from supple.engine.kinds import find_kind
from supple.engine.user_code import plugins
from supple.registry import quoted

if TYPE_CHECKING:
    from supple.engine.storage.run_directory import RunDirectory
    from supple.experiments.queue.jobs import Job

MOST_NAMES = 4  # in a line; more are counted


def plan_of_run(run: "RunDirectory", step: int) -> Iterator[str]:
    """Yield what will be trained from `step` on, for how long, and where the results go."""
    if step >= run.end:
        yield f"{run.path} has been trained to its end, step {run.end:,}"
        return
    config, kind = run.config, find_kind(run.config["algorithm"])
    tasks = [task for task in config["tasks"] if task["end"] > config["start_step"] and task["start"] < run.end]
    names = dict.fromkeys(str(task["name"]) for task in tasks)
    seeds = config["settings"].get("seeds") or [config["seed"]]
    count = f"{len(tasks)} tasks, " if len(tasks) > 1 else ""
    start = f"from step {step:,} of " if step else ""
    yield (
        f"plan: {kind.name} on {_list(list(names))}: {count}{start}{run.end:,} {kind.unit}, "
        f"seed{'s' if len(seeds) > 1 else ''} {_list(seeds)}"
    )
    if config["hooks"]:
        yield f"hooks: {_list(config['hooks'])}"
    yield f"results: {run.path}"


def plan_of_jobs(path: Path, jobs: "Sequence[Job]", processes: int) -> Iterator[str]:
    """Yield what the comparisons of these runs compare, how many runs remain, and where the results go."""
    studies = {job.path: job for job in jobs}
    for job in list(studies.values())[:MOST_NAMES]:
        c = job.comparison
        variants = f", {len(c.variants)} variants" if len(c.variants) > 1 else ""
        fork = f", fork at step {c.fork_step:,}" if c.fork_step else ""
        study = f"{job.study}: " if job.study else ""
        yield f"plan: {study}{c.algorithm}, arms {_list(c.arms)}{variants}, seeds {_list(c.seeds)}{fork}"
    if len(studies) > MOST_NAMES:
        yield f"and {len(studies) - MOST_NAMES} more studies"
    failed, remaining = sum(job.failed for job in jobs), sum(job.open for job in jobs)
    finished = len(jobs) - failed - remaining
    yield (
        f"{len(jobs):,} runs: {finished:,} finished, {failed:,} failed, {remaining:,} remaining, "
        f"{min(processes, remaining)} at a time"
    )
    yield f"results: {path}"


def next_of_run(run: "RunDirectory") -> Iterator[str]:
    """Yield the commands that follow a finished run."""
    options = plugins.options()
    yield f"next: supple report {quoted(run.path)}{options}  (tables and figures)"
    yield f"      supple doctor {quoted(run.path)}{options}  (how much plasticity was lost)"
    if command := comparison_command(run):
        yield f"      {command}  (with and without the hooks)"


def next_of_jobs(jobs: "Sequence[Job]") -> str:
    """Return the command that follows a report on several runs."""
    first = next(job for job in jobs if job.arm is not None)  # of the first arm, which is often `none`
    return f"next: supple doctor {quoted(first.folder)}{plugins.options()}  (how much plasticity a run has lost)"


def comparison_command(run: "RunDirectory") -> str:
    """Return the command that compares a run's hooks with none, or "" if it has no hooks of its own."""
    hooks, words = run.config["settings"]["hook"], shlex.split(run.config["command"])
    if not hooks or words[:2] != ["supple", "train"]:
        return ""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("--hook", "--out", "--seed"):  # which a comparison replaces by options of its own
        parser.add_argument(option, nargs="?")
    shared = parser.parse_known_args(words[2:])[1]
    seeds = [] if "--seeds" in shared else ["--seeds", "0-4"]
    arms = ["--arm", "none", "--arm", " + ".join(hooks), "--fork-at", "0"]
    return " ".join(map(quoted, ["supple", "compare", *shared, *seeds, *arms, "--out", f"{run.path}-arms"]))


def _list(names: Sequence[object]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(map(str, names[:MOST_NAMES])) + more
