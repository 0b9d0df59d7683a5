"""The reference of the Python API: a page for each public package, made from its exported names and docstrings.

A name that several packages export is documented in the one that it belongs to; the others link there.
"""

import importlib
import inspect
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from docutils import nodes
from numpy.typing import ArrayLike
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.typing import stringify_annotation

from supple.engine.kinds import all_kinds
from supple.engine.settings import RunSettings

from . import pages
from .docstrings import first_sentence, inline, rest

PACKAGES = (
    *("interventions", "metrics", "networks", "registry", "experiments", "envs"),
    *("agents.ppo", "agents.dqn", "agents.sac", "agents.sb3"),
    *("tracks.linear", "tracks.language", "tracks.language.adapters"),
    *("integrations.sb3", "integrations.transformers", "integrations.lightning"),
)


ARRAY_LIKE = stringify_annotation(ArrayLike, "smart")
SHORT = {"DataFrame": "pandas.DataFrame"}  # of names that modules import for type checkers only


@dataclass(frozen=True)
class Name:
    """A name that a package exports, and the package that documents it."""

    name: str
    thing: Any
    package: str
    home: str

    @property
    def sort(self) -> str:
        if inspect.isclass(self.thing):
            return "exception" if issubclass(self.thing, BaseException) else "class"
        return "function" if inspect.isroutine(self.thing) else "data"

    @property
    def about(self) -> str:
        doc = self.thing.__doc__ if self.sort != "data" else ""
        doc = "" if (doc or "").startswith(f"{self.name}(") else doc
        return first_sentence(doc) or ("" if self.sort != "data" else f"A `{type(self.thing).__name__}`.")


def names() -> dict[str, list[Name]]:
    """Return the exported names of each package."""
    exported = {package: _exported(importlib.import_module(f"supple.{package}")) for package in PACKAGES}
    found: dict[str, list[Name]] = {}
    for package, things in exported.items():
        found[package] = []
        for name, thing in sorted(things.items(), key=lambda item: item[0].lower()):
            holders = [p for p in PACKAGES if exported[p].get(name, exported) is thing]
            home = max(holders, key=lambda p: _shared(f"supple.{p}", getattr(thing, "__module__", None) or ""))
            found[package].append(Name(name, thing, package, home))
    return found


def _exported(module: ModuleType) -> dict[str, Any]:
    """Return what `__all__` names or, in a module without one, what is defined in it."""
    if (listed := getattr(module, "__all__", None)) is not None:
        return {name: getattr(module, name) for name in listed}
    own = {name: thing for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__}
    return {name: thing for name, thing in own.items() if not name.startswith("_")}


def _shared(package: str, module: str) -> int:
    """Return by how many parts of its name a module lies in a package; 0 if it does not."""
    return package.count(".") if f"{module}.".startswith(f"{package}.") else 0


def write(out: pages.Pages) -> None:
    found = names()
    for package, exported in found.items():
        out.write(f"api/{package}", _page(package, exported))
    abouts = {package: first_sentence(importlib.import_module(f"supple.{package}").__doc__) for package in found}
    rows = [(f":doc:`supple.{package} <{package}>`", inline(about)) for package, about in abouts.items()]
    about = "The public packages of ``supple``. Names that are not listed here may change without notice."
    lines = [*pages.title("Python API"), about, "", *pages.table(("package", "content"), rows)]
    out.write("api/index", [*lines, *pages.toctree(found, hidden=True)])


def _page(package: str, exported: list[Name]) -> list[str]:
    module = f"supple.{package}"
    lines = [*pages.title(module), f".. module:: {module}", "", *rest(importlib.import_module(module).__doc__ or "")]
    role = {"function": "func", "class": "class", "exception": "exc", "data": "data"}
    rows = [(f":py:{role[n.sort]}:`~supple.{n.home}.{n.name}`", inline(n.about)) for n in exported]
    lines += pages.table(("name", "what it is"), rows, "30 70")
    for sort, heading in {
        "class": "Classes",
        "function": "Functions",
        "exception": "Exceptions",
        "data": "Data",
    }.items():
        own = [n for n in exported if n.sort == sort and n.home == package]
        if own:
            lines += pages.title(heading, "-")
        for n in own:
            lines += [*_entry(n), ""]
    return lines


def _entry(n: Name) -> list[str]:
    full = f"supple.{n.package}.{n.name}"
    if n.sort == "data":
        value = repr(n.thing)
        short = len(value) < 200 and "`" not in value and " at 0x" not in value
        return [f".. py:data:: {full}", "", f"   A ``{type(n.thing).__name__}``{f': ``{value}``' if short else ''}."]
    if inspect.isclass(n.thing) and issubclass(n.thing, RunSettings):
        kinds = [name for name, kind in all_kinds().items() if kind.settings_class() is n.thing]
        shown = ", ".join(f":doc:`{name} <../kinds/{name}>`" for name in kinds)
        return [f".. py:class:: {full}(**settings)", "", f"   The settings of {shown}, as keyword arguments."]
    options = ["   :members:"] if n.sort in ("class", "exception") else []
    if options and n.thing.__bases__ != (object,):
        options.append("   :show-inheritance:")
    return [f".. auto{n.sort}:: {full}", *options]


def _unlinked(app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement) -> nodes.Node | None:
    """Show the types of signatures that have no page as text: those of supple that are not exported, and those of
    packages without an inventory. A name that does not exist stays a missing reference, which fails the build."""
    target = node.get("reftarget", "")
    package = target.partition(".")[0]
    if node.get("refdomain") == "py" and package not in app.config.intersphinx_mapping and _exists(target):
        return shown
    return None


def _exists(name: str) -> bool:
    """Return whether a module holds this name, or an alias in short form such as `DataFrame` stands for it."""
    module, _, name = SHORT.get(name, name).rpartition(".")
    try:
        return hasattr(importlib.import_module(module), name)
    except (ImportError, ValueError):
        return False


def _readable(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, ...]:
    """Write NumPy's union of everything that is like an array by its name, and made defaults as `...`."""
    texts = (text and text.replace(ARRAY_LIKE, "~numpy.typing.ArrayLike") for text in (signature, returned))
    return tuple(text and text.replace("<factory>", "...") for text in texts)


def _skip(app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what a namedtuple documents by itself."""
    return True if (getattr(thing, "__doc__", None) or "").startswith("Alias for field number") else None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("missing-reference", _unlinked)
    app.connect("autodoc-skip-member", _skip)
    app.connect("autodoc-process-signature", _readable)
    return {"parallel_read_safe": True}
