"""supple compare: train once to the fork, then go on from the identical state once per arm.

  supple compare ppo --preset demo --out runs/demo
  supple compare ppo --sequence hopper,ant --cycles 2 --steps-per-task 500_000 \\
      --fork-at 0.5 --arm none --arm fire@task --arm "snp(lam=0.5)@task" --seeds 5 --out runs/y
  supple compare dqn --preset fire-atari-small --out runs/z
  supple compare --resume runs/y

An arm is a hook, or several joined by " + ". Without a schedule it is applied at the fork.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.progress import TaskID

from supple.agents.algorithms import ALGORITHMS
from supple.agents.compare import Comparison, create, fork_step_of, open_comparison, run_comparison
from supple.agents.presets import Preset
from supple.experiments.errors import UsageError
from supple.experiments.settings import positive
from supple.scripts.console import parse, progress_display, run, screen, typed, warn
from supple.scripts.report import show
from supple.scripts.train import Options, S, algorithm_of, preset_of


@dataclass(kw_only=True)
class CompareOptions(Options[S]):
    arm: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="HOOKS")] = ()
    """One way to go on from the fork: none, a hook, or hooks joined by " + ". May be given several times."""
    fork_at: float = 0.5
    """Where the arms part, as a fraction of the planned steps."""
    seeds: int = 1
    """Number of seeds: --seed, --seed + 1, …; each has a trunk of its own."""
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
        print((__doc__ or "").strip() + f"\n\nalgorithms: {', '.join(ALGORITHMS)} (`supple compare ppo --help`)")
        return
    if any(a == "--resume" or a.startswith("--resume=") for a in args):
        resume = parse(ResumeComparison, None, args, "supple compare", "Go on with a comparison.")
        jobs = workers(resume.jobs)
        finish(resume.resume, open_comparison(resume.resume, jobs, warn), jobs)
        return
    algorithm = algorithm_of(args, "compare")
    kind, preset = ALGORITHMS[algorithm].settings, preset_of(args, algorithm)
    default = defaults(kind, preset)
    prog = f"supple compare {algorithm}"
    options = parse(CompareOptions, kind, args[1:], prog, "Fork, and compare arms.", default)
    positive(**{"--seeds": options.seeds})
    jobs = workers(options.jobs)
    arms = options.arm or (preset.arms if preset else ("none", "fire", "snp", "reset"))
    first = options.settings.seed
    comparison = Comparison(
        algorithm=algorithm,
        settings=options.settings,
        arms=arms,
        seeds=tuple(range(first, first + options.seeds)),
        fork_step=fork_step_of(options.settings, options.fork_at),
        command=typed("supple compare", args),
    )
    create(options.out, comparison, jobs, warn)
    finish(options.out, comparison, jobs)


def workers(jobs: int) -> int:
    """How many processes `--jobs` asks for."""
    if jobs < 0:
        raise UsageError(f"--jobs must be 0 (one per core) or more, got {jobs}")
    return jobs or os.cpu_count() or 1


def defaults(kind: type[S], preset: Preset | None) -> CompareOptions[S]:
    """What holds where the command line says nothing."""
    if preset is None:
        return CompareOptions(settings=kind(), out=tyro.MISSING)
    return CompareOptions(
        settings=kind(**preset.settings), out=tyro.MISSING, fork_at=preset.fork_at, seeds=preset.seeds
    )


def finish(path: Path, comparison: Comparison, jobs: int) -> None:
    """Run what is left of a comparison, with a bar for each run, then report."""
    bars: dict[str, TaskID] = {}
    with progress_display() as display:

        def watch(label: str, step: int, end: int) -> None:
            if label not in bars:
                bars[label] = display.add_task(label, total=end)
            display.update(bars[label], completed=step)

        run_comparison(path, comparison, jobs, watch, warn)
    screen.print()
    show(path)


if __name__ == "__main__":
    run(main)
