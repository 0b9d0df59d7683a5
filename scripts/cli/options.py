"""The part of the command line that all training commands share: the kind of run, the preset, the settings."""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import tyro

from supple.engine.kinds import Kind, Preset, all_kinds, preset_of, presets_of
from supple.engine.user_code import plugins
from supple.registry import did_you_mean
from supple.registry.errors import UsageError
from supple.scripts.cli.console import explain, indent_commands, parse, say

S = TypeVar("S")
Folder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
FolderOrNone = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
Plugins = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE|PACKAGE")]


@dataclass(kw_only=True)
class Options(Generic[S]):
    """The options of every command that trains: the settings of the kind, and a folder."""

    settings: tyro.conf.FlagConversionOff[tyro.conf.OmitArgPrefixes[S]]  # what is true or false takes a value
    out: Path
    """Folder for the results. It must be new or empty."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Named set of settings to start from (`supple list presets`). Options on the command line override it."""
    plugin: Plugins = ()
    """Python file or package that registers your own interventions, metrics, shifts or kinds of runs."""
    capture_video: bool = False
    """At the end, make the report with a video of an agent's evaluation episode in each task."""


class Request(NamedTuple):
    """A kind of run, the preset if one is named, the remaining options, and the words that precede them."""

    kind: Kind
    preset: Preset | None
    options: Sequence[str]
    prog: str

    def settings(self) -> Any:
        """Return the settings that apply where the command line gives none."""
        return self.kind.settings_class()(**(self.preset.settings if self.preset else {}))

    def about(self, doc: str | None) -> str:
        """Return the description of what is asked for, with its examples in the docstring of the command."""
        shown = find_examples(doc, " ".join(self.prog.split()[:3])) or [f"  {self.prog} --out runs/a"]
        return "\n".join([(self.preset or self.kind).about, "", *shown])

    def check_video(self, asked: bool) -> None:
        """Raise UsageError if a video is asked for, but runs of this kind have none."""
        if asked and not resolve_name(self.kind.report).videos:
            raise UsageError(f"--capture-video: {self.kind.name} trains no agent, so there is no episode to show")

    def explain(self, doc: str | None) -> None:
        """Print what to type next, for a command line that ends with the kind or the benchmark."""
        lines = f"{self.prog}: {self.about(doc)}".split("\n")
        if presets := {} if self.preset else presets_of(self.kind.name):
            lines += ["", "presets:", *_table({name: preset.about for name, preset in presets.items()})]
        lines += ["", f"`{self.prog} --help` lists all options, `supple list` the names that they accept."]
        say(*lines)


def parse_or_explain(options_class: Any, args: Sequence[str], prog: str, doc: str | None) -> Any:
    """Return what `parse` returns and load the plug-ins. Without arguments, end the program with an explanation."""
    if not args:
        explain(doc, prog)
        raise SystemExit
    options = parse(options_class, args, prog, doc)
    load_plugins(args)
    return options


def request_or_help(command: str, args: Sequence[str], doc: str | None) -> Request:
    """Return what the words after `supple COMMAND` ask for, or end the program with help on what may follow them."""
    if not args or args[0] in ("-h", "--help"):
        load_plugins(args)
        print_overview(doc, command)
        raise SystemExit
    request = parse_request(command, args)
    if not request.options:
        request.explain(doc)
        raise SystemExit
    return request


def parse_request(command: str, args: Sequence[str]) -> Request:
    """Return what the words after `supple COMMAND` ask for.

    Raises:
        UsageError: The kind, the benchmark or the preset is missing or unknown, or the preset is of another kind.
    """
    load_plugins(args)
    kinds = all_kinds()
    name, rest = _first_word(args), args[1:]
    if name not in kinds:
        what = f"unknown kind of run {name!r}{did_you_mean(name, kinds)}" if name else "which kind of run?"
        raise UsageError(f"{what} (`supple {command} KIND …`; kinds: {', '.join(kinds)})")
    kind, preset, prog = kinds[name], next(reversed(_find_values(rest, "--preset")), None), f"supple {command} {name}"
    if kind.benchmark and preset is None:
        presets = presets_of(name)
        preset, rest = _first_word(rest), rest[1:]
        if preset not in presets:
            what = f"unknown benchmark {preset!r}{did_you_mean(preset, presets)}" if preset else "which benchmark?"
            raise UsageError(f"{what} (`{prog} BENCHMARK …`; benchmarks: {', '.join(presets)})")
        prog = f"{prog} {preset}"
    return Request(kind, preset_of(kind, preset), rest, prog)


def find_examples(doc: str | None, words: str) -> list[str]:
    """Return the lines of a docstring with commands that begin with these words."""
    examples: list[str] = []
    for line in indent_commands(doc).splitlines():
        if f"{line.strip()} ".startswith(f"{words} ") or (examples and examples[-1].endswith("\\")):
            examples.append(line)
    return examples


def print_overview(doc: str | None, command: str) -> None:
    """Print the description and the examples of a command that trains, every kind of run, and every benchmark."""
    kinds = all_kinds()
    lines = ["", "kinds:", *(f"  {name:10}{kind.about}" for name, kind in kinds.items())]
    for name in (name for name, kind in kinds.items() if kind.benchmark):
        benchmarks = {benchmark: preset.about for benchmark, preset in presets_of(name).items()}
        lines += ["", f"benchmarks of {name}:", *_table(benchmarks)]
    more = f"`supple {command} KIND` shows examples and presets, `supple {command} KIND --help` lists all options."
    say(*f"supple {command}: {indent_commands(doc)}".split("\n"), *lines, "", more)


def _table(descriptions: dict[str, str]) -> list[str]:
    """Return a line for each name and its description, in two columns."""
    width = max(map(len, descriptions)) + 2
    return [f"  {name:{width}}{about}" for name, about in descriptions.items()]


def _first_word(args: Sequence[str]) -> str:
    return args[0] if args and not args[0].startswith("-") else ""


def load_plugins(args: Sequence[str]) -> None:
    """Import the plug-ins of a command line: those named by --plugin, own networks, and modules of environments.

    A module or file is named as in `module:Id-v0` or `file.py:Id-v0`. Modules of `envs.PACKAGED` are imported where
    they are needed. The other options may depend on what the plug-ins register.

    Raises:
        UsageError: A plug-in cannot be imported.
    """
    for text in _find_values(args, "--plugin"):
        plugins.load(text)
    for text in _find_values(args, "--encoder"):
        if ".py:" in text and Path(text).name not in plugins.sums():
            plugins.load(text, "--encoder")
    kind = all_kinds().get(_first_word(args))
    of_agents = ("--tasks",) if kind and hasattr(kind.settings_class(), "sequence") else ()  # else no environments
    for option in ("--env", "--sequence", *of_agents):
        for name in ",".join(_find_values(args, option)).split(","):
            module, colon, _ = name.strip().partition(":")
            if colon and not {Path(module).name, f"{module}.py"} & {plugin.name for plugin in plugins.loaded()}:
                from supple.envs.packaged import PACKAGED, package_hint

                if module.lower() in PACKAGED:  # imported where it is needed
                    continue
                try:
                    plugins.load(module, option)
                except UsageError as error:
                    hint = package_hint(module)
                    raise UsageError(f"{option} {name.strip()}: {hint}" if hint else str(error)) from error


def _find_values(args: Sequence[str], option: str) -> list[str]:
    """Return the values that a command line gives to an option, in their order."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument(option, action="append", nargs="?", default=[], dest="values")
    values: list[str | None] = parser.parse_known_args(args)[0].values
    return [value for value in values if value is not None]
