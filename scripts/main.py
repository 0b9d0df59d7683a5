"""supple: keep neural networks able to learn while the world changes.

  supple train ppo --env halfcheetah --steps 1_000_000 --hook fire@0.5 --out runs/a
  supple train vision permuted-mnist --seeds 0-4 --out runs/b
  supple train pretrain --preset warm-start-gpt-small --out runs/c
  supple train linear --tasks semantic,reversal --lam 2 --out runs/d
  supple compare ppo --preset gym-control-small --out runs/demo
  supple sweep my_sweep.toml --out runs/s
  supple worker runs/s
  supple bench "l2_init(strength=1e-3)"
  supple resume runs/a
  supple report runs/demo
  supple doctor runs/a
  supple linear figures
  supple language sib --model smollm2 --retain gsm8k.jsonl --out runs/e
  supple new intervention my_method
  supple check my_method.py
  supple fetch humanoid-bench
  supple list [interventions | activations | metrics | environments | sequences | kinds | presets | suites]

`supple COMMAND --help` explains each.
"""

import importlib
from collections.abc import Sequence

from supple.experiments.errors import UsageError
from supple.experiments.interruption import watching
from supple.registry import did_you_mean

COMMANDS = (
    *("train", "compare", "sweep", "worker", "bench", "resume", "report", "doctor", "list", "new", "check", "fetch"),
    *("linear", "language", "vision"),
)


def dispatch(args: Sequence[str]) -> None:
    """Pass the command line to the script that it names."""
    if not args or args[0] in ("-h", "--help"):
        print((__doc__ or "").strip())
        return
    if args[0] not in COMMANDS:
        raise UsageError(
            f"unknown command {args[0]!r}{did_you_mean(args[0], COMMANDS)} (commands: {', '.join(COMMANDS)})"
        )
    importlib.import_module(f"supple.scripts.{args[0]}").main(args[1:])


def main() -> None:
    with watching():
        from supple.scripts.console import run  # takes a moment, during which an interruption may come

        run(dispatch)


if __name__ == "__main__":
    main()
