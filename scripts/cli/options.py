"""The part of the command line that all training commands share: the kind of run, the preset, the settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import tyro

from supple.engine.kinds import Kind, Preset, all_kinds, presets_of
from supple.engine.user_code import plugins
from supple.registry import did_you_mean
from supple.registry.errors import UsageError
from supple.scripts.cli.console import described, say, warn

S = TypeVar("S")
Plugins = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE|PACKAGE")]


@dataclass(kw_only=True)
class Options(Generic[S]):
    """The options of every command that trains: the settings of the kind, and a folder."""

    settings: tyro.conf.OmitArgPrefixes[S]
    out: Path
    """Folder for the results. It must be new or empty."""
    scale: float = 1.0
    """Factor in (0, 1] for every length in steps, updates or epochs: 0.01 for a quick trial of a long run."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Named set of settings to start from (`supple list presets`). Options on the command line override it."""
    plugin: Plugins = ()
    """Python file or package that registers your own interventions, metrics, shifts or kinds of runs."""


class Asked(NamedTuple):
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
        shown = examples(doc, " ".join(self.prog.split()[:3])) or [f"  {self.prog} --out runs/a"]
        return "\n".join([(self.preset or self.kind).about, "", *shown])

    def explain(self, doc: str | None) -> None:
        """Print what to type next, for a command line that ends with the kind or the benchmark."""
        lines = f"{self.prog}: {self.about(doc)}".split("\n")
        if found := {} if self.preset else presets_of(self.kind.name):
            width = max(map(len, found)) + 2
            lines += ["", "presets:", *(f"  {name:{width}}{preset.about}" for name, preset in found.items())]
        lines += ["", f"`{self.prog} --help` lists all options, `supple list` the names that they accept."]
        say(*lines)


def asked(command: str, args: Sequence[str]) -> Asked:
    """Return what the words after `supple COMMAND` ask for.

    Raises:
        UsageError: The kind, the benchmark or the preset is missing or unknown, or the preset is of another kind.
    """
    load_plugins(args)
    kinds = all_kinds()
    if _first(args) == "language":  # the older spelling
        args = args[1:]
    name, rest = _first(args), args[1:]
    if name not in kinds:
        what = f"unknown kind of run {name!r}{did_you_mean(name, kinds)}" if name else "which kind of run?"
        raise UsageError(f"{what} (`supple {command} KIND …`; kinds: {', '.join(kinds)})")
    kind, named, prog = kinds[name], _preset_named(rest), f"supple {command} {name}"
    known = presets_of(name)
    if kind.benchmark and named is None:
        named, rest = _first(rest), rest[1:]
        if named not in known:
            what = f"unknown benchmark {named!r}{did_you_mean(named, known)}" if named else "which benchmark?"
            raise UsageError(f"{what} (`{prog} BENCHMARK …`; benchmarks: {', '.join(known)})")
        prog = f"{prog} {named}"
    if named is None:
        return Asked(kind, None, rest, prog)
    if named not in known:
        if named in (every := presets_of()):
            raise UsageError(f"--preset {named}: a preset of {every[named].kind}, not of {name}")
        own = f"presets of {name}: {', '.join(known)}" if known else f"{name} has no presets"
        raise UsageError(f"unknown preset {named!r}{did_you_mean(named, known)} ({own})")
    return Asked(kind, known[named], rest, prog)


def examples(doc: str | None, words: str) -> list[str]:
    """Return the lines of a docstring with commands that begin with these words."""
    found: list[str] = []
    for line in described(doc).splitlines():
        if f"{line.strip()} ".startswith(f"{words} ") or (found and found[-1].endswith("\\")):
            found.append(line)
    return found


def shrunk(settings: Any, scale: float, arms: tuple[str, ...] = ()) -> tuple[Any, tuple[str, ...], float]:
    """Return the settings and arms scaled by `--scale`, and the factor that was applied. Print what changed.

    The factor is larger than `scale` if the run cannot be that short.

    Raises:
        UsageError: The scale is not in (0, 1].
    """
    if scale == 1:
        return settings, arms, scale
    from supple.engine.scaling import scaled, scaled_hooks, told  # imports PyTorch, which help does not need

    made, factor = scaled(settings, scale)
    fewer = scaled_hooks(arms, factor)
    warn(f"--scale {scale:g}: {told({**vars(settings), 'arm': arms}, {**vars(made), 'arm': fewer})}")
    return made, fewer, factor


def overview(doc: str | None, command: str) -> None:
    """Print the description and the examples of a command that trains, every kind of run, and every benchmark."""
    kinds = all_kinds()
    lines = ["", "kinds:", *(f"  {name:10}{kind.about}" for name, kind in kinds.items())]
    for name in (name for name, kind in kinds.items() if kind.benchmark):
        benchmarks = presets_of(name)
        width = max(map(len, benchmarks)) + 2
        lines += ["", f"benchmarks of {name}:", *(f"  {b:{width}}{preset.about}" for b, preset in benchmarks.items())]
    more = f"`supple {command} KIND` shows examples and presets, `supple {command} KIND --help` lists all options."
    say(*f"supple {command}: {described(doc)}".split("\n"), *lines, "", more)


def resumed(args: Sequence[str]) -> list[str] | None:
    """Return the arguments for `supple resume` if the older spelling `--resume DIR` is used, else None."""
    if not any(a == "--resume" or a.startswith("--resume=") for a in args):
        return None
    words = [a.removeprefix("--resume=") for a in args if a != "--resume"]
    if not words:
        raise UsageError("--resume needs a value: the folder of a run or of a comparison")
    return words


def _first(args: Sequence[str]) -> str:
    return args[0] if args and not args[0].startswith("-") else ""


def load_plugins(args: Sequence[str]) -> None:
    """Import the plug-ins that the command line names by --plugin, and the modules of its environments.

    A module is named as in `module:Id-v0`. The other options may depend on what the plug-ins register.

    Raises:
        UsageError: A plug-in cannot be imported.
    """
    for text in _values(args, "--plugin"):
        plugins.load(text)
    for option in ("--env", "--sequence"):
        for name in ",".join(_values(args, option)).split(","):
            module, colon, _ = name.strip().partition(":")
            if colon and not {module, f"{module}.py"} & {plugin.name for plugin in plugins.loaded()}:
                try:
                    plugins.load(module, option)
                except UsageError as error:
                    from supple.envs.elsewhere import package_hint

                    hint = package_hint(module)
                    raise UsageError(f"{option} {name.strip()}: {hint}" if hint else str(error)) from error


def _preset_named(args: Sequence[str]) -> str | None:
    return next(reversed(_values(args, "--preset")), None)


def _values(args: Sequence[str], option: str) -> list[str]:
    """Return the values that a command line gives to an option, in their order."""
    found = [(i + 1, b) for i, (a, b) in enumerate(pairwise(args)) if a == option and b[:1] != "-"]
    found += [(i, a.removeprefix(f"{option}=")) for i, a in enumerate(args) if a.startswith(f"{option}=")]
    return [value for _, value in sorted(found)]
