"""supple compare: train once to the fork, then go on from the identical state once per arm.

  supple compare ppo --preset demo --out runs/demo
  supple compare ppo --sequence hopper,ant --cycles 2 --steps-per-task 500_000 \\
      --fork-at 0.5 --arm none --arm fire@task --arm "snp(lam=0.5)@task" --seeds 5 --out runs/y
  supple compare dqn --preset fire-atari-small --out runs/z
  supple compare vision warm-start --data DIR --fork-at-task 1 --arm none --arm fire --seeds 0 1 2 --out runs/w
  supple compare language pretrain --preset warm-start-gpt-small --out runs/g
  supple compare language sft --model smollm2 --learn chem.jsonl --retain gsm8k.jsonl \\
      --vary learning_rate=1e-5,1e-4 --vary epochs=1,3 --arm none --arm sib@start --out runs/s
  supple compare linear --tasks semantic,reversal --arm none --arm "rebalance(lam=5)@task" --out runs/v
  supple compare --resume runs/y

An arm is a hook, or several joined by " + ". Without a schedule it is applied at the fork. A fork where a task ends
belongs to the next one: "@task" fires there, and what is applied there acts on the new task's data.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.progress import TaskID

from supple.agents.algorithms import ALGORITHMS
from supple.agents.presets import Preset
from supple.agents.runs import track as agents_track
from supple.experiments.compare import (
    Comparison,
    Track,
    create,
    fork_step_of,
    open_comparison,
    run_comparison,
)
from supple.experiments.errors import UsageError
from supple.experiments.settings import positive
from supple.scripts.compare_kinds import of_language, of_linear
from supple.scripts.console import Options, PresetOptions, S, parse, progress_display, run, screen, typed, warn
from supple.scripts.report import show
from supple.scripts.train import algorithm_of, preset_of
from supple.scripts.vision import benchmark_of
from supple.tracks.kinds import KINDS
from supple.tracks.runs import track as kind_track
from supple.tracks.vision.runs import ALGORITHM as VISION
from supple.tracks.vision.runs import TRACK
from supple.tracks.vision.settings import VisionSettings

Arms = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOKS")]
Task = Annotated[int | None, tyro.conf.arg(metavar="INT")]
Share = Annotated[float | None, tyro.conf.arg(metavar="FLOAT")]
VARIED = {"language": of_language, "linear": of_linear}
ARMS = ("none", "fire", "snp", "reset")  # where none is named


@dataclass(kw_only=True)
class CompareOptions(PresetOptions[S]):
    arm: Arms = ()
    """One way to go on from the fork: none, a hook, or hooks joined by " + ". May be given several times."""
    fork_at: Share = None
    """Where the arms part, as a fraction of the planned steps (default: 0.5, or the preset's)."""
    fork_at_task: Task = None
    """Where the arms part, as the task that begins there, counted from 0 (instead of --fork-at)."""
    seeds: int = 1
    """Number of seeds: --seed, --seed + 1, …; each has a trunk of its own."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


@dataclass(kw_only=True)
class VisionCompareOptions(Options[S]):
    arm: Arms = ()
    """One way to go on from the fork: none, a hook, or hooks joined by " + ". May be given several times."""
    fork_at: Share = None
    """Where the arms part, as a fraction of the planned updates (default: where task 1 begins)."""
    fork_at_task: Task = None
    """Where the arms part, as the task that begins there, counted from 0 (instead of --fork-at)."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


@dataclass(kw_only=True)
class ResumeComparison:
    resume: Path
    """Folder of a comparison to go on with."""
    jobs: int = 0
    """Runs at a time; 0: one per core."""


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        print(
            (__doc__ or "").strip()
            + f"\n\nalgorithms: {', '.join(ALGORITHMS)}, vision, language, linear (`supple compare ppo --help`, "
            "`supple compare vision warm-start --help`, `supple compare language pretrain --help`)"
        )
        return
    if any(a == "--resume" or a.startswith("--resume=") for a in args):
        resume = parse(ResumeComparison, None, args, "supple compare", "Go on with a comparison.")
        jobs = workers(resume.jobs)
        comparison = open_comparison(resume.resume, track_of, jobs, warn)
        finish(resume.resume, comparison, jobs)
        return
    if args[0] == VISION:
        out, comparison, jobs = of_classifiers(args)
    elif args[0] in VARIED:
        out, comparison, jobs = VARIED[args[0]](args)
        jobs = workers(jobs)
    else:
        out, comparison, jobs = of_agents(args)
    create(out, track_of(comparison.algorithm), comparison, jobs, warn)
    finish(out, comparison, jobs)


def track_of(algorithm: str) -> Track:
    """How runs of an algorithm are compared. Raises KeyError for one that there is not."""
    if algorithm in KINDS:
        return kind_track(algorithm)
    if algorithm != VISION and algorithm not in ALGORITHMS:
        raise KeyError(algorithm)
    return TRACK if algorithm == VISION else agents_track(algorithm)


def of_agents(args: Sequence[str]) -> tuple[Path, Comparison, int]:
    """What the command line asks for: the folder, the comparison, the runs at a time."""
    algorithm = algorithm_of(args, "compare")
    kind, preset = ALGORITHMS[algorithm].settings, preset_of(args, algorithm)
    default = defaults(kind, preset)
    prog = f"supple compare {algorithm}"
    options = parse(CompareOptions, kind, args[1:], prog, "Fork, and compare arms.", default)
    positive(**{"--seeds": options.seeds})
    first, share = options.settings.seed, options.fork_at
    if share is None and options.fork_at_task is None:
        share = preset.fork_at if preset else 0.5
    comparison = Comparison(
        algorithm=algorithm,
        settings=options.settings,
        arms=options.arm or (preset.arms if preset else ARMS),
        seeds=tuple(range(first, first + options.seeds)),
        fork_step=fork_step_of(track_of(algorithm), options.settings, share, options.fork_at_task),
        command=typed("supple compare", args),
    )
    return options.out, comparison, workers(options.jobs)


def of_classifiers(args: Sequence[str]) -> tuple[Path, Comparison, int]:
    """The same for `supple compare vision BENCHMARK`."""
    name, benchmark = benchmark_of(args[1:], "compare vision")
    default = VisionCompareOptions(settings=VisionSettings(**benchmark.settings), out=tyro.MISSING)
    prog = f"supple compare vision {name}"
    options = parse(VisionCompareOptions, VisionSettings, args[2:], prog, "Fork, and compare arms.", default)
    settings, task = options.settings, options.fork_at_task
    seeds = settings.seeds
    if not settings.stacked:
        settings = replace(settings, seeds=seeds[:1])  # each is a run of its own
    if options.fork_at is None and task is None:
        task = 1
    comparison = Comparison(
        algorithm=VISION,
        settings=settings,
        arms=options.arm or ARMS,
        seeds=seeds,
        fork_step=fork_step_of(TRACK, settings, options.fork_at, task),
        command=typed("supple compare", args),
    )
    return options.out, comparison, workers(options.jobs)


def workers(jobs: int) -> int:
    """How many processes `--jobs` asks for."""
    if jobs < 0:
        raise UsageError(f"--jobs must be 0 (one per core) or more, got {jobs}")
    return jobs or os.cpu_count() or 1


def defaults(kind: type[S], preset: Preset | None) -> CompareOptions[S]:
    """What holds where the command line says nothing."""
    if preset is None:
        return CompareOptions(settings=kind(), out=tyro.MISSING)
    return CompareOptions(settings=kind(**preset.settings), out=tyro.MISSING, seeds=preset.seeds)


def finish(path: Path, comparison: Comparison, jobs: int) -> None:
    """Run what is left of a comparison, with a bar for each run, then report."""
    bars: dict[str, TaskID] = {}
    with progress_display() as display:

        def watch(label: str, step: int, end: int) -> None:
            if label not in bars:
                bars[label] = display.add_task(label, total=end)
            display.update(bars[label], completed=step)

        run_comparison(path, track_of(comparison.algorithm), comparison, jobs, watch, warn)
    screen.print()
    show(path)


if __name__ == "__main__":
    run(main)
