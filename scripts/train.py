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

import tyro

from supple.scripts import resume
from supple.scripts.cli.console import parse, run, typed, warn
from supple.scripts.cli.options import Options, asked, load_plugins, overview, resumed, shrunk


def main(args: Sequence[str]) -> None:
    if not args or args[0] in ("-h", "--help"):
        load_plugins(args)
        overview(__doc__, "train")
        return
    if (words := resumed(args)) is not None:
        resume.main(words)
        return
    what = asked("train", args)
    if not what.options:
        what.explain(__doc__)
        return
    kind, preset = what.kind, what.preset
    default = Options(settings=what.settings(), out=tyro.MISSING, preset=preset.name if preset else None)
    options = parse(Options, kind.settings_class(), what.options, what.prog, what.about(__doc__), default)

    from supple.engine.machine import distributed  # imports PyTorch, which help does not need
    from supple.engine.runs import create
    from supple.engine.settings import device_here

    settings, _, _ = shrunk(options.settings, options.scale)
    if distributed.is_first():
        create(options.out, kind.name, settings, typed("supple train", args), warn)
    # other processes wait here until the first has made the folder
    with distributed.join_processes(device_here(getattr(settings, "device", "cpu"))):
        resume.finish_run(options.out)


if __name__ == "__main__":
    run(main)
