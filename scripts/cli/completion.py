"""Write tyro's completion script for all commands, kinds, benchmarks and presets in one."""

from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import tyro

from supple.engine.kinds import Kind, all_kinds, presets_of
from supple.registry import describe_unknown
from supple.registry.errors import UsageError

SHELLS = ("bash", "zsh")


def write_completion(args: Sequence[str], scripts: Mapping[str, Any]) -> None:
    """Print the script, or write it to a file: `--tyro-print-completion SHELL`, `--tyro-write-completion SHELL FILE`.

    Args:
        args: The words of the command line.
        scripts: The module of each command.

    Raises:
        UsageError: The shell is missing or unknown, or the file is missing.
    """
    option, shell, *rest = (*args, "")
    if shell not in SHELLS:
        raise UsageError(f"{option}: {describe_unknown('shell', shell, SHELLS)}")
    if "write" in option and not rest[0]:
        raise UsageError(f"{option} {shell} needs the FILE to write to")
    words = [word for word in args if word]
    # of tyro's configuration only the form of bool options matters here
    tyro.cli(command_line(scripts), prog="supple", args=words, config=(tyro.conf.FlagConversionOff,))


def command_line(scripts: Mapping[str, Any]) -> Any:
    """Return the type of the whole command line, with a subcommand for every command, kind and benchmark."""
    kinds, linear = all_kinds(), scripts["linear"]
    several = {  # commands with subcommands of their own
        "train": {name: _options(kind, scripts["train"].options_of(kind)) for name, kind in kinds.items()},
        "compare": {name: _options(kind, scripts["compare"].options_of(kind)) for name, kind in kinds.items()},
        "linear": dict.fromkeys(linear.COMMANDS, linear.Options),
    }
    return _choose({name: _choose(several[name]) if name in several else scripts[name].Options for name in scripts})


def _options(kind: Kind, options: Any) -> Any:
    """Return the options of a kind: by benchmark, if one has to be named, else with its presets as choices."""
    names = tuple(presets_of(kind.name))
    if kind.benchmark:
        return _choose(dict.fromkeys(names, options))
    if not names:
        return options
    choice = ("preset", Literal[names], field(default=names[0]))  # the default is never used
    return make_dataclass(kind.name, [choice], bases=(options,), kw_only=True)


def _choose(choices: dict[str, Any]) -> Any:
    return reduce(or_, (Annotated[options, tyro.conf.subcommand(name)] for name, options in choices.items()))
