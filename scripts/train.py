"""Train one run: an agent or a network on a stream of changing tasks, with interventions.

  supple train ppo --env halfcheetah --steps 1_000_000 --hook fire@0.5 --out runs/a
  supple train ppo --preset cycling-mujoco --activation rand_smooth_leaky --out runs/b
  supple train dqn --env asterix --steps 2_500_000 --hook fire@0.5 --out runs/c
  supple train sac --env h1-walk --steps 1_000_000 --hook fire@0.5 --out runs/d
  supple train vision permuted-mnist --seeds 0-4 --hook "snp(lam=0.9)@task" --out runs/e
  supple train pretrain --preset warm-start-gpt-small --hook "fire(steps=5)@task" --out runs/f
  supple train sft --model smollm2 --learn chem.jsonl --retain gsm8k.jsonl --hook sib@start --out runs/g
  supple train clip --out runs/h
  supple train continual --preset moram-small --seeds 0-2 --out runs/i
  supple train linear --tasks semantic,reversal --hook "rebalance(lam=5)@task" --out runs/j
  torchrun --nproc-per-node 2 -m supple.scripts.train pretrain --preset warm-start-gpt --out runs/k

`supple resume DIR` continues a run that was interrupted.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import tyro

from supple.engine.kinds import Kind
from supple.engine.settings import SeedsOption
from supple.registry.errors import UsageError
from supple.registry.schema import NotNegative
from supple.scripts.cli import reporting, training
from supple.scripts.cli.console import join_command, parse, run, warn
from supple.scripts.cli.options import Options, Request, request_or_help

S = TypeVar("S")


@dataclass(kw_only=True)
class OneOrSeveral(Options[S]):
    """The options for kinds that train one seed per run. The settings of stacked runs have --seeds themselves."""

    seeds: SeedsOption = ()
    """Seeds, such as 0 1 2 or 0-4, to train a run for each, as a comparison with one arm (default: --seed alone)."""
    jobs: NotNegative[int] = 0
    """Number of runs at a time, with --seeds. 0 means one per core."""


def main(args: Sequence[str]) -> None:
    request = request_or_help("train", args, __doc__)
    kind, preset = request.kind, request.preset
    options_class = options_of(kind)
    default = options_class(settings=request.settings(), out=tyro.MISSING, preset=preset.name if preset else None)
    options = parse(options_class, request.options, request.prog, request.about(__doc__), default, kind=kind.name)
    request.check_video(options.capture_video)
    if getattr(options, "seeds", ()):
        train_seeds(request, options, join_command("supple train", args))
        return
    if getattr(options, "jobs", 0):
        raise UsageError(f"--jobs {options.jobs} is for several --seeds: this is one run")

    from supple.engine.machine import distributed  # imports PyTorch, which help does not need
    from supple.engine.runs import open_run, prepare
    from supple.engine.settings import device_here
    from supple.engine.spec import Labels, RunSpec

    labels = Labels(leads=preset.leads if preset else "")
    spec = RunSpec(kind.name, options.settings, labels, command=join_command("supple train", args))
    prepared = prepare(spec, options.out, warn) if distributed.is_first() else None
    # other processes wait here until the first has made the folder
    with distributed.join_processes(device_here(getattr(options.settings, "device", "cpu"))):
        training.finish_run(options.out, prepared or open_run(options.out, warn))
    if options.capture_video:
        reporting.show_report(options.out, video=True)


def train_seeds(request: Request, options: Any, command: str) -> None:
    """Train one run for each seed, as a comparison with one arm."""
    from supple.engine.forks import NONE
    from supple.experiments.comparisons.comparison import Comparison
    from supple.experiments.comparisons.grid import make_points

    if options.settings.seed:
        raise UsageError(f"--seed {options.settings.seed} and --seeds both say which seeds: give one of them")
    kind, preset = request.kind, request.preset
    points = make_points([" + ".join(options.settings.hook) or NONE])
    leads = (preset.leads if preset else "") or kind.leads
    settings = replace(options.settings, hook=())
    asked = Comparison(kind.name, settings, points, options.seeds, fork_at=0.0, leads=leads, command=command)
    training.train_comparison(options, asked)


def options_of(kind: Kind) -> Any:
    """Return the class of the options of a kind."""
    options: Any = Options if hasattr(kind.settings_class(), "seeds") else OneOrSeveral
    return options[kind.settings_class()]


if __name__ == "__main__":
    run(main)
