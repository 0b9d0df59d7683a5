"""Plug-ins: files and packages of one's own, named on the command line, that register things when they are imported.

Nothing that the folder of a run names is ever imported. It records the plug-ins that the run was begun with, name and
sum; whoever goes on with it names them again, and they must be the same.
"""

import importlib
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name

from ..registry import why
from . import files
from .errors import UsageError

# What can be registered: in which table, and what an entry of it is, or is a kind of. They are looked up when a plug-in
# is loaded, for some lie in rooms that import this one.
TABLES = {
    "intervention": ("supple.interventions:interventions", "supple.interventions:Intervention"),
    "metric": ("supple.metrics:metrics", "supple.metrics:Metric"),
    "activation": ("supple.interventions:activation_registry", "collections.abc:Callable"),
    "shift": ("supple.envs:shifts", "supple.envs:Shift"),
    "environment": ("gymnasium:registry", "gymnasium.envs.registration:EnvSpec"),
    "kind of run": ("supple.experiments.kinds:kinds", "supple.experiments.kinds:Kind"),
    "preset": ("supple.experiments.kinds:presets", "supple.experiments.kinds:Preset"),
}
DIGITS = 12  # of a sum, in messages


@dataclass(frozen=True)
class Plugin:
    """One plug-in of this process.

    name: as runs record it: of a file its name, of a package the package's. source: what another process imports it
    by. sha256: of the file, or of all Python files of the package. registered: word of `TABLES` → names.
    """

    name: str
    source: str
    sha256: str
    registered: Mapping[str, tuple[str, ...]]


_loaded: dict[str, Plugin] = {}


def load(text: str, option: str = "--plugin") -> Plugin:
    """Import a plug-in, a file `my_method.py` or a package, and return what it is and what it registered.

    What a file holds is read once: its sum is that of what runs. option: what messages begin with.
    Raises UsageError, in one line, for what cannot be found or imported, registers nothing, takes a name that is there
    already, or is given twice.
    """
    try:
        plugin = _file(Path(text).expanduser()) if text.endswith(".py") else _package(text)
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error}") from error.__cause__
    _loaded[plugin.name] = plugin
    return plugin


def load_all(sources: Mapping[str, str]) -> None:
    """Import in this process what `sources` gave in the one that began it. Raises UsageError."""
    for source, sha256 in sources.items():
        if load(source).sha256 != sha256:
            raise UsageError(f"--plugin {source} was changed while a run was at work with it")


def loaded() -> list[Plugin]:
    """Return the plug-ins of this process, in the order in which they were loaded."""
    return list(_loaded.values())


def sources() -> dict[str, str]:
    """Return what a new process loads to know what this one knows: by what it is imported, and its sum."""
    return {plugin.source: plugin.sha256 for plugin in loaded()}


def options() -> str:
    """Return the words that name the plug-ins of this process again, " --plugin my_method.py", for messages."""
    return "".join(f" --plugin {shlex.quote(plugin.source)}" for plugin in loaded())


def entry() -> dict[str, dict[str, str]]:
    """Return the entry of config.json and comparison.json, {"plugins": {name: sum}}; nothing where there is none."""
    return {"plugins": {plugin.name: plugin.sha256 for plugin in loaded()}} if _loaded else {}


def table(word: str) -> Mapping[str, object]:
    """Return what is registered under a word of `TABLES`, by name."""
    found = resolve_name(TABLES[word][0])
    entries: Mapping[str, object] = getattr(found, "entries", found)
    return entries


def require(recorded: Mapping[str, str], path: Path) -> None:
    """Raise UsageError unless the plug-ins of this process are those that `path` was begun with.

    recorded: name → sum, as the folder says.
    """
    if missing := [name for name in recorded if name not in _loaded]:
        named = " ".join(f"--plugin {name}" for name in missing)
        raise UsageError(
            f"{path} was begun with a plug-in, which has to be named again: {named} (nothing that a folder names is "
            f"imported by itself)"
        )
    for plugin in loaded():
        if plugin.name not in recorded:
            raise UsageError(f"{path} was begun without --plugin {plugin.name}: leave it out")
        if plugin.sha256 != (before := recorded[plugin.name]):
            raise UsageError(
                f"--plugin {plugin.source} is not the {plugin.name} that {path} was begun with: its SHA-256 sum is "
                f"{plugin.sha256[:DIGITS]}…, and was {before[:DIGITS]}…: put that one back, or begin a new run"
            )


def _file(path: Path) -> Plugin:
    name = path.stem
    if not name.isidentifier():
        raise UsageError(f"its name must be one that Python can import: letters, digits and _, not {name!r}")
    if path.name in _loaded:
        raise UsageError("a plug-in of this name is given twice")
    path = path.absolute()
    try:
        code = files.contents(path.resolve())
    except OSError as error:
        raise UsageError("there is no such file" if not path.exists() else str(error.strerror)) from error
    module, spec = sys.modules.get(name), None if name in sys.modules else find_spec(name)
    other = getattr(module, "__file__", None) or "?" if module else spec and spec.origin
    if other and Path(other).resolve() != path.resolve():
        raise UsageError(f"a module {name!r} is there already: give the file another name")

    def run() -> None:
        if name not in sys.modules:
            spec = spec_from_file_location(name, path)
            assert spec  # for a name that ends in .py
            sys.modules[name] = module = module_from_spec(spec)
            exec(compile(code, path, "exec"), module.__dict__)

    return Plugin(path.name, str(path), files.sha256(code), _registered(run, name, str(path)))


def _package(name: str) -> Plugin:
    top = name.partition(".")[0]
    if name in _loaded:
        raise UsageError("it is given twice")
    module, found = sys.modules.get(top), None
    if all(map(str.isidentifier, name.split("."))):
        found = module.__spec__ if module else find_spec(top)
    if found is None:
        raise UsageError("there is no package of this name here (a file is named with its ending, my_method.py)")
    return Plugin(name, name, _sum(found), _registered(lambda: importlib.import_module(name), name, ""))


def _sum(spec: ModuleSpec) -> str:
    """Return the sum over the Python files of a package, by their names in it; of a module that is one file, its."""
    if not spec.submodule_search_locations:
        return files.sha256(files.contents(Path(spec.origin or "").resolve()))
    roots = [Path(root) for root in spec.submodule_search_locations]
    found = sorted((str(file.relative_to(root)), file) for root in roots for file in root.rglob("*.py"))
    return files.sha256("\n".join(f"{files.sha256(files.contents(f.resolve()))} {name}" for name, f in found).encode())


def _registered(run: Callable[[], object], name: str, file: str) -> dict[str, tuple[str, ...]]:
    """Import a module by `run`, and return what came into the tables by that. file: its own, for messages."""
    before, known = _tables(), name in sys.modules
    try:
        with warnings.catch_warnings(record=True) as said:  # which are told where nothing is refused
            run()
    except (Exception, SystemExit) as error:
        if not known:
            sys.modules.pop(name, None)
        raise UsageError(f"it cannot be imported: {why(error, file)}") from error
    after = _tables()
    for word, entries in after.items():
        if taken := [each for each, entry in before[word].items() if entries.get(each) is not entry]:
            raise UsageError(f"it takes the place of the {word} {taken[0]!r}: choose another name")
    new = {word: tuple(entries.keys() - before[word].keys()) for word, entries in after.items()}
    for word, names in new.items():
        for each in names:
            _check(word, each, after[word][each])
    if not known and not any(new.values()):
        raise UsageError(f"it registers nothing: no {', '.join(list(TABLES)[:-1])} and no {list(TABLES)[-1]}")
    for warning in said:
        warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
    return {word: tuple(sorted(names)) for word, names in new.items()}


def _tables() -> dict[str, dict[str, object]]:
    """Return what is registered now, by the words of `TABLES`."""
    return {word: dict(table(word)) for word in TABLES}


def _check(word: str, name: str, entry: object) -> None:
    """Raise UsageError for an entry that nobody could type, or that is something else than its table holds."""
    if word != "environment" and not re.fullmatch(r"[A-Za-z_][\w.-]*", name, re.ASCII):
        raise UsageError(f"the {word} {name!r} has a name that cannot be typed: letters, digits and _ make one")
    wanted = resolve_name(TABLES[word][1])
    if not (isinstance(entry, wanted) or (isinstance(entry, type) and issubclass(entry, wanted))):
        raise UsageError(f"the {word} {name!r} is no {wanted.__name__}")
