"""What a command line asks for: a kind of run, a preset, settings; the same for all commands that train."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import tyro

from supple.experiments import plugins
from supple.experiments.errors import UsageError
from supple.experiments.kinds import Kind, Preset, all_kinds, presets_of
from supple.registry import did_you_mean
from supple.scripts.console import warn

S = TypeVar("S")
Plugins = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE|PACKAGE")]


@dataclass(kw_only=True)
class Options(Generic[S]):
    """The options that every command that trains takes: settings, and a folder."""

    settings: tyro.conf.OmitArgPrefixes[S]
    out: Path
    """Folder of the run; must be new or empty."""
    scale: float = 1.0
    """Shrink the whole schedule by this factor in (0, 1]: steps, warm-up, periods, the steps of hooks and shifts."""
    preset: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Start from a whole experiment's settings (see `supple list presets`); other options override it."""
    plugin: Plugins = ()
    """A Python file, or a package, with interventions and the like of your own. May be given several times."""


class Asked(NamedTuple):
    """A kind of run, the preset that is named if any, the options that follow, and the words before them."""

    kind: Kind
    preset: Preset | None
    options: Sequence[str]
    prog: str

    def settings(self) -> Any:
        """Return the settings that hold where the options say nothing."""
        return self.kind.settings_class()(**(self.preset.settings if self.preset else {}))


def asked(command: str, args: Sequence[str]) -> Asked:
    """Return what the words after `supple COMMAND` ask for. Raises UsageError where they name no kind of run, no
    benchmark where there has to be one, or a preset of another kind."""
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
            raise UsageError(f"preset {named!r} is one for {every[named].kind}, not for {name}")
        raise UsageError(f"unknown preset {named!r}{did_you_mean(named, every)} (known: {', '.join(every)})")
    return Asked(kind, known[named], rest, prog)


def shrunk(settings: Any, scale: float, arms: tuple[str, ...] = ()) -> tuple[Any, tuple[str, ...], float]:
    """Return settings and arms as `--scale` makes them, and the factor that they took; say what became of them.
    Raises UsageError."""
    if scale == 1:
        return settings, arms, scale
    from supple.experiments.scaling import scaled, scaled_hooks, told  # PyTorch, which help texts do without

    made, factor = scaled(settings, scale)
    fewer = scaled_hooks(arms, factor)
    warn(f"--scale {scale:g}: {told({**vars(settings), 'arm': arms}, {**vars(made), 'arm': fewer})}")
    return made, fewer, factor


def table_of_kinds() -> str:
    """Return a line for each kind of run, and one for each benchmark, for help texts."""
    kinds = all_kinds()
    lines = ["kinds:", *(f"  {name:10}{kind.about}" for name, kind in kinds.items())]
    for name in (name for name, kind in kinds.items() if kind.benchmark):
        benchmarks = presets_of(name)
        width = max(map(len, benchmarks)) + 2
        lines += ["", f"benchmarks of {name}:", *(f"  {b:{width}}{preset.about}" for b, preset in benchmarks.items())]
    return "\n".join(lines)


def resumed(args: Sequence[str]) -> list[str] | None:
    """Return what `supple resume` would be told, where the older spelling `--resume DIR` is used; else None."""
    if not any(a == "--resume" or a.startswith("--resume=") for a in args):
        return None
    words = [a.removeprefix("--resume=") for a in args if a != "--resume"]
    if not words:
        raise UsageError("--resume needs a value: the folder of a run or of a comparison")
    return words


def _first(args: Sequence[str]) -> str:
    return args[0] if args and not args[0].startswith("-") else ""


def load_plugins(args: Sequence[str]) -> None:
    """Import the plug-ins that a command line names by --plugin, and the modules of its environments
    (`module:Id-v0`), which are plug-ins too. What it says besides may depend on them. Raises UsageError."""
    for text in _values(args, "--plugin"):
        plugins.load(text)
    for option in ("--env", "--sequence"):
        for name in ",".join(_values(args, option)).split(","):
            module, colon, _ = name.strip().partition(":")
            if colon and not {module, f"{module}.py"} & {plugin.name for plugin in plugins.loaded()}:
                plugins.load(module, option)


def _preset_named(args: Sequence[str]) -> str | None:
    return next(reversed(_values(args, "--preset")), None)


def _values(args: Sequence[str], option: str) -> list[str]:
    """Return what a command line gives an option, in its order."""
    found = [(i + 1, b) for i, (a, b) in enumerate(pairwise(args)) if a == option and b[:1] != "-"]
    found += [(i, a.removeprefix(f"{option}=")) for i, a in enumerate(args) if a.startswith(f"{option}=")]
    return [value for _, value in sorted(found)]
