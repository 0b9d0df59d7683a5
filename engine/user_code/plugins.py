"""Plug-ins: files and packages of a user, named on the command line, that register entries when they are imported.

The folder of a run records the names and SHA-256 sums of the plug-ins that the run was started with, but supple never
imports anything because a folder names it. To resume the run, the user names the same plug-ins again.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from pkgutil import resolve_name

from supple.engine.storage import files
from supple.engine.storage.versions import DIGITS
from supple.registry import naming, quoted, summary
from supple.registry.errors import UsageError, refusing

# What can be registered: the table, and the class of which an entry is an instance or a subclass. They are looked up
# when a plug-in is loaded, because some are in rooms that import this one.
TABLES = {
    "intervention": ("supple.interventions:interventions", "supple.interventions:Intervention"),
    "metric": ("supple.metrics:metrics", "supple.metrics:Metric"),
    "activation": ("supple.interventions:activation_registry", "collections.abc:Callable"),
    "shift": ("supple.envs:shifts", "supple.envs:Shift"),
    "encoder": ("supple.agents.encoders:own_networks", "collections.abc:Callable"),
    "environment": ("gymnasium:registry", "gymnasium.envs.registration:EnvSpec"),
    "kind of run": ("supple.engine.kinds:kinds", "supple.engine.kinds:Kind"),
    "preset": ("supple.engine.kinds:presets", "supple.engine.kinds:Preset"),
}
OWN = __name__.partition(".")[0]
MOST = 4  # names of a plug-in that a message lists


@dataclass(frozen=True)
class Plugin:
    """One plug-in of this process.

    Attributes:
        name: Name of the file, of a function in it (net.py:make_body) or of the package, as runs record it.
        source: The same with the path of the file, from which another process can load it.
        sha256: Sum of the file, or of all Python files of the package.
        registered: The names that it registered, by key of `TABLES`.
    """

    name: str
    source: str
    sha256: str
    registered: Mapping[str, tuple[str, ...]]


_loaded: dict[str, Plugin] = {}


def load(text: str, option: str = "--plugin", function: Callable[..., object] | None = None) -> Plugin:
    """Import a plug-in, a file such as `my_method.py` or a package, and return its description.

    A file is read once, so that its sum is that of the code which runs. `net.py:make_body` also registers that function
    of the file, as a network of agents under this name.

    Args:
        text: The path of the file, or the name of the package.
        option: Beginning of error messages.
        function: The function, if it was imported already, which is not repeated then.

    Raises:
        UsageError: It cannot be found or imported, registers nothing or a name that is taken, or is given twice.
    """
    try:
        stem, ending, named = text.partition(".py:")
        of_file = ending or text.endswith(".py")
        if (Path(text).name if of_file else text) in _loaded:
            raise UsageError("a plug-in with this name is given twice")
        file = Path(f"{stem}.py" if ending else text).expanduser()
        plugin = _load_file(file, named, function) if of_file else _load_package(text)
    except UsageError as error:
        raise UsageError(f"{option} {text}: {error}") from error.__cause__
    _loaded[plugin.name] = plugin
    return plugin


def load_function(function: Callable[..., object]) -> str:
    """Register a function of a file as a network of agents, unless it is already, and return the name of the plug-in.

    Raises UsageError for a function that no file defines, as in a notebook."""
    file, name = inspect.getsourcefile(function), getattr(function, "__name__", "")
    if not file or not Path(file).is_file() or not name.isidentifier():
        raise UsageError(f"{summary(function)} must be a function in a file, whose sum the run records")
    text = f"{file}:{name}"
    return Path(text).name if Path(text).name in _loaded else load(text, "encoder", function).name


def load_here(texts: str | Sequence[str]) -> None:
    """Load the plug-ins of a call from Python, one or several as for `load`, except those that this process has.

    Raises UsageError as `load`, and if a file was changed since it was loaded.
    """
    for text in [texts] if isinstance(texts, str) else texts:
        file = text.rpartition(":")[0] if ".py:" in text else text
        known = _loaded.get(Path(text).name if file.endswith(".py") else text)
        if known is None:
            load(text, "plugin")
        elif file.endswith(".py") and files.sha256(Path(file).expanduser().read_bytes()) != known.sha256:
            raise UsageError(f"plugin {text} is not the file that this process has imported: start Python again")


def load_all(sources: Mapping[str, str]) -> None:
    """Load the plug-ins that `sources` returned in the parent process. Raises UsageError if one has changed."""
    for source, sha256 in sources.items():
        if load(source).sha256 != sha256:
            raise UsageError(f"--plugin {source} was changed while a run used it")


def loaded() -> list[Plugin]:
    """Return the plug-ins of this process in the order of loading."""
    return list(_loaded.values())


def sources() -> dict[str, str]:
    """Return the plug-ins that a new process has to load: path or package → SHA-256 sum."""
    return {plugin.source: plugin.sha256 for plugin in loaded()}


def describe(plugin: Plugin) -> str:
    """Return what a plug-in has registered in words, such as "intervention halve, metric tensors"."""
    entries = [f"{word} {name}" for word, names in plugin.registered.items() for name in names]
    return ", ".join([*entries[:MOST], *(["…"] if len(entries) > MOST else [])]) or "nothing"


def describe_all() -> str:
    """Return the plug-ins of this process with what they registered, such as "bad.py (shift bad)", or ""."""
    return ", ".join(f"{plugin.name} ({describe(plugin)})" for plugin in loaded())


def command(name: str, path: Path) -> str:
    """Return the command line `supple NAME PATH`, with the --plugin options of this process, for messages."""
    options = "".join(f" --plugin {quoted(plugin.source)}" for plugin in loaded())
    return f"supple {name} {quoted(path)}{options}"


def sums() -> dict[str, str]:
    """Return the SHA-256 sums of this process's plug-ins by name."""
    return {plugin.name: plugin.sha256 for plugin in loaded()}


def table(word: str) -> Mapping[str, object]:
    """Return the registered entries by name, for a key of `TABLES`."""
    registry = resolve_name(TABLES[word][0])
    return getattr(registry, "entries", registry)


def require(recorded: Mapping[str, str], path: Path, more: bool = False, mended: bool = False) -> None:
    """Raise UsageError unless this process's plug-ins are those that were recorded in `path`, by name and sum.

    more: Allow plug-ins that were not recorded. mended: Allow other sums."""
    if missing := [name for name in recorded if name not in _loaded]:
        named = " ".join(f"--plugin {name}" for name in missing)
        raise UsageError(
            f"{path} was started with a plug-in that must be named again: add {named}, or plugin= in Python (supple "
            f"imports nothing only because a folder names it)"
        )
    for plugin in loaded():
        if plugin.name not in recorded:
            if more:
                continue
            raise UsageError(f"{path} was started without --plugin {plugin.name}: leave it out")
        if plugin.sha256 != (before := recorded[plugin.name]) and not mended:
            raise UsageError(
                f"--plugin {plugin.source} is not the {plugin.name} that {path} was started with: its SHA-256 sum is "
                f"{plugin.sha256[:DIGITS]}…, but was {before[:DIGITS]}…; restore that version, or start a new run "
                "(--retry-failed accepts a mended plug-in for the failed runs of a comparison or a sweep)"
            )


def _load_file(path: Path, named: str = "", function: Callable[..., object] | None = None) -> Plugin:
    name = path.stem
    if not name.isidentifier():
        raise UsageError(f"{name!r} cannot be imported by Python: name the file with letters, digits and _")
    path = path.absolute()
    try:
        code = path.read_bytes()
    except OSError as error:
        raise UsageError(str(error.strerror)) from error
    module, spec = sys.modules.get(name), None if name in sys.modules else find_spec(name)
    other = getattr(module, "__file__", None) or "?" if module else spec and spec.origin
    if other and Path(other).resolve() != path.resolve():
        raise UsageError(f"a module {name!r} already exists: rename the file")

    def run() -> None:
        if function is None and name not in sys.modules:
            spec = spec_from_file_location(name, path)
            assert spec  # for a name that ends in .py
            sys.modules[name] = module = module_from_spec(spec)
            exec(compile(code, path, "exec"), module.__dict__)
        if named:
            if (found := function or getattr(sys.modules[name], named, None)) is None:
                raise UsageError(f"it does not define {named}")
            resolve_name(TABLES["encoder"][0]).register(f"{path.name}{after}")(found)

    after = f":{named}" if named else ""
    return Plugin(f"{path.name}{after}", f"{path}{after}", files.sha256(code), _register(run, name, str(path)))


def _load_package(name: str) -> Plugin:
    top = name.partition(".")[0]
    if top in (OWN, *sys.stdlib_module_names):
        raise UsageError(f"{top} is no plug-in")
    module, spec = sys.modules.get(top), None
    if all(map(str.isidentifier, name.split("."))):
        spec = module.__spec__ if module else find_spec(top)
    if spec is None:
        raise UsageError("there is no package with this name here (for a file, add the ending: my_method.py)")
    return Plugin(name, name, _package_sum(spec), _register(lambda: importlib.import_module(name), name, ""))


def _package_sum(spec: ModuleSpec) -> str:
    """Return the sum over the Python files of a package and their names in it, or that of a single-file module."""
    if not spec.submodule_search_locations:
        return files.sha256(Path(spec.origin or "").read_bytes())
    roots = [Path(root) for root in spec.submodule_search_locations]
    sources = sorted((str(file.relative_to(root)), file) for root in roots for file in root.rglob("*.py"))
    lines = "\n".join(f"{files.sha256(f.read_bytes())} {name}" for name, f in sources)
    return files.sha256(lines.encode(errors="surrogateescape"))  # names of files need not be UTF-8


def _register(run: Callable[[], object], name: str, file: str) -> dict[str, tuple[str, ...]]:
    """Import a module by calling `run`, and return the entries that it registered. `file` is for error messages."""
    before, known = _tables(), name in sys.modules
    try:
        with naming(f"importing {file or name}"):
            run()
    except BaseException:
        if not known:
            sys.modules.pop(name, None)
        raise
    after = _tables()
    for word, entries in after.items():
        if taken := [name for name, entry in before[word].items() if entries.get(name) is not entry]:
            raise UsageError(f"it replaces the {word} {taken[0]!r}: choose another name")
    new = {word: tuple(entries.keys() - before[word].keys()) for word, entries in after.items()}
    for word, names in new.items():
        for entry in names:
            _check_entry(word, entry, after[word][entry])
    if not known and not any(new.values()):
        raise UsageError(f"it registers nothing: no {', '.join(list(TABLES)[:-1])} or {list(TABLES)[-1]}")
    return {word: tuple(sorted(names)) for word, names in new.items()}


def _tables() -> dict[str, dict[str, object]]:
    """Return all registered entries, by key of `TABLES`."""
    return {word: dict(table(word)) for word in TABLES}


def _check_entry(word: str, name: str, entry: object) -> None:
    """Raise UsageError for an entry whose name cannot be typed, or which has the wrong type for its table."""
    typable = isinstance(name, str) and re.fullmatch(r"[A-Za-z_][\w.-]*(\.py:\w+)?", name, re.ASCII) and name != "none"
    if word != "environment" and not typable:
        raise UsageError(f"the name of the {word} {name!r} cannot be typed: use letters, digits and _")
    wanted = resolve_name(TABLES[word][1])
    if not (isinstance(entry, wanted) or (isinstance(entry, type) and issubclass(entry, wanted))):
        function = getattr(entry, "__name__", "") if word == "metric" and callable(entry) else ""
        remedy = f": register Metric('what it is', 'weights', {function})" if function else ""
        raise UsageError(f"the {word} {name!r} should be of type {wanted.__name__}{remedy}")
    if word in ("kind of run", "preset"):
        with refusing(f"the {word} {name!r}"):
            resolve_name("supple.engine.kinds:check_row")(entry)
