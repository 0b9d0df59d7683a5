"""Train one run: an agent or a network on a stream of changing tasks, with interventions.

  supple train ppo --env halfcheetah --steps 1_000_000 --hook fire@0.5 --out runs/a
  supple train ppo --preset cycling-mujoco --activation rand_smooth_leaky --out runs/b
  supple train dqn --env asterix --steps 2_500_000 --hook fire@0.5 --out runs/c
  supple train sac --env h1-walk --steps 1_000_000 --hook fire@0.5 --out runs/d
  supple train vision permuted-mnist --seeds 0-4 --hook "snp(lam=0.9)@task" --out runs/e
  supple train pretrain --preset warm-start-gpt-small --hook "fire(steps=5)@task" --out runs/f
  supple train sft --model smollm2 --learn chem.jsonl --retain gsm8k.jsonl --hook sib@start --out runs/g
  supple train clip --out runs/h
  supple train continual --preset moram-small --out runs/i
  supple train linear --tasks semantic,reversal --hook "rebalance(lam=5)@task" --out runs/j
  torchrun --nproc-per-node 2 -m supple.scripts.train pretrain --preset warm-start-gpt --out runs/k

`supple resume DIR` continues a run that was interrupted.
"""

from collections.abc import Sequence
from typing import Any

import tyro

from supple.engine.kinds import Kind
from supple.scripts.cli import training
from supple.scripts.cli.console import join_command, parse, run, warn
from supple.scripts.cli.options import Options, request_or_help


def main(args: Sequence[str]) -> None:
    request = request_or_help("train", args, __doc__)
    kind, preset = request.kind, request.preset
    default = Options(settings=request.settings(), out=tyro.MISSING, preset=preset.name if preset else None)
    options = parse(options_of(kind), request.options, request.prog, request.about(__doc__), default, kind=kind.name)

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


def options_of(kind: Kind) -> Any:
    """Return the class of the options of a kind."""
    options: Any = Options
    return options[kind.settings_class()]


if __name__ == "__main__":
    run(main)
