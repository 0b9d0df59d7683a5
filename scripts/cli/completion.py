"""Write tyro's completion script for all commands, kinds, benchmarks and presets in one."""

from collections.abc import Sequence
from dataclasses import field, make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import tyro

from supple.engine.kinds import Kind, all_kinds, presets_of
from supple.registry import did_you_mean
from supple.registry.errors import UsageError
from supple.scripts import bench, check, compare, doctor, fetch, linear, new, report, resume, sib, sweep, worker
from supple.scripts import list as listing
from supple.scripts.cli import options as asked

SHELLS = ("bash", "zsh")


def write(args: Sequence[str]) -> None:
    """Print the script, or write it to a file: `--tyro-print-completion SHELL`, `--tyro-write-completion SHELL FILE`.

    Raises:
        UsageError: The shell is missing or unknown, or the file is missing.
    """
    option, shell, *rest = (*args, "")
    if shell not in SHELLS:
        raise UsageError(f"{option}: unknown shell {shell!r}{did_you_mean(shell, SHELLS)} (known: {', '.join(SHELLS)})")
    if "write" in option and not rest[0]:
        raise UsageError(f"{option} {shell} needs the FILE to write to")
    # of tyro's configuration only the form of bool options matters here
    tyro.cli(everything(), prog="supple", args=[word for word in args if word], config=(tyro.conf.FlagConversionOff,))


def everything() -> Any:
    """Return the type of the whole command line, with a subcommand for every command, kind and benchmark."""
    kinds = all_kinds()
    training = {name: _options(kind, asked.Options) for name, kind in kinds.items()}
    comparing = {
        name: _options(kind, compare.CompareOptions if hasattr(kind.settings_class(), "seeds") else compare.SeveralRuns)
        for name, kind in kinds.items()
    }
    figures = dict.fromkeys((*linear.FIGURES, "figures"), linear.FigureOptions)
    commands = {
        "train": _either(training),
        "compare": _either(comparing),
        "sweep": sweep.Options,
        "worker": worker.Options,
        "resume": resume.Options,
        "report": report.Options,
        "doctor": doctor.Options,
        "bench": bench.Options,
        "list": listing.Options,
        "fetch": fetch.Options,
        "new": new.Options,
        "check": check.Options,
        "linear": _either({"train": training["linear"], **figures}),
        "language": _either({"sib": sib.Options, "pretrain": training["pretrain"]}),  # a choice needs two
    }
    return _either(commands)


def _options(kind: Kind, options: Any) -> Any:
    """Return the options of a kind: by benchmark, if one has to be named, else with its presets as choices."""
    names, own = tuple(presets_of(kind.name)), options[kind.settings_class()]
    if kind.benchmark:
        return _either(dict.fromkeys(names, own))
    if not names:
        return own
    choice = ("preset", Literal[names], field(default=names[0]))  # the default is never used
    return make_dataclass(kind.name, [choice], bases=(own,), kw_only=True)


def _either(choices: dict[str, Any]) -> Any:
    return reduce(or_, (Annotated[each, tyro.conf.subcommand(name)] for name, each in choices.items()))
