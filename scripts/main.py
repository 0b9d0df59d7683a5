"""Train neural networks on a changing world; measure and restore their plasticity.

supple compare ppo --preset gym-control-small --out runs/demo       a first comparison, minutes on two cores
supple report runs/demo                                             its tables and figures
supple train ppo --env halfcheetah --steps 1_000_000 --hook fire@0.5 --out runs/a
supple doctor runs/a
"""

import gc
import importlib
from collections.abc import Sequence
from typing import Any

from supple.registry import did_you_mean
from supple.registry.errors import UsageError
from supple.registry.interruption import end_on_signals

COMMANDS = {
    "train": "train one run",
    "compare": "train several arms from one identical state",
    "sweep": "train all runs that a sweep file or a suite asks for",
    "worker": "help with the runs of a sweep or a comparison",
    "resume": "continue a run, a comparison or a sweep",
    "evaluate": "evaluate trained runs again",
    "report": "make tables and figures of runs",
    "export": "make a folder of a trained run for others",
    "doctor": "examine how much plasticity a network has lost",
    "list": "list kinds, presets, suites, hooks, environments and all other names",
    "fetch": "download data and models",
    "new": "write a template for your own intervention, metric or shift",
    "check": "test whether an intervention keeps its promises",
    "linear": "draw the figures of deep linear networks",
    "sib": "balance a language model",
}
COMPLETION = ("--tyro-print-completion", "--tyro-write-completion")


def dispatch(args: Sequence[str]) -> None:
    """Pass the command line to the script that it names."""
    from supple.scripts.cli.console import say

    if not args or args[0] in ("-h", "--help"):
        say(*_help())
    elif args[0] == "--version":
        from supple.engine.storage.versions import versions

        found = versions()
        say(f"supple {found.pop('supple')}", *(f"{name} {version}" for name, version in found.items()))
    elif args[0].replace("_", "-") in COMPLETION:
        from supple.scripts.cli.completion import write_completion

        write_completion(args, {name: _script(name) for name in COMMANDS})
    elif args[0] not in COMMANDS:
        word = "option" if args[0].startswith("-") else "command"
        known = [*COMMANDS, "--help", "--version", *COMPLETION]
        raise UsageError(f"unknown {word} {args[0]!r}{did_you_mean(args[0], known)} (commands: {', '.join(COMMANDS)})")
    else:
        _script(args[0]).main(args[1:])


def _script(command: str) -> Any:
    return importlib.import_module(f"supple.scripts.{command}")


def _help() -> list[str]:
    from supple.scripts.cli.console import indent_commands

    lines = [*f"supple: {indent_commands(__doc__)}".split("\n"), "", "commands:"]
    lines += [f"  {name:10}{about}" for name, about in COMMANDS.items()]
    lines += ["", "`supple COMMAND` shows examples, `supple COMMAND --help` all options, `supple --version` versions."]
    return [*lines, "Completion with the tab key: docs/reference/command_line.md."]


def main() -> None:
    gc.set_threshold(50_000, 50, 50)  # by default, a tenth of the start is a search for garbage in modules
    with end_on_signals():
        from supple.scripts.cli.console import run  # takes a moment, during which an interruption may come

        run(dispatch)


if __name__ == "__main__":
    main()
