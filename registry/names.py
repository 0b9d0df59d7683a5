"""Registries of entries by name, which suggest the nearest name for an unknown one."""

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from .messages import one_line

T = TypeVar("T")


class UnknownName(ValueError):
    """A name that is not in its table; the message suggests the nearest one and lists the rest."""


class Registry(Generic[T]):
    """A table of entries by name.

    Args:
        kind: The word for one entry in messages, e.g. `"intervention"`.
        entries: The initial entries, by name.
        groups: Groups of entry points by which installed packages name modules that register more entries. They are
            imported at the first access to the entries, so that nothing waits for them earlier.
    """

    def __init__(self, kind: str, entries: Mapping[str, T] = {}, groups: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.groups = groups
        self._entries = dict(entries)

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that registers an object under `name`. Raises ValueError if the name is taken."""

        def file(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"the {self.kind} {name!r} exists already: choose another name")
            self._entries[name] = entry
            return entry

        return file

    @property
    def entries(self) -> Mapping[str, T]:
        """The entries by name, in the order of registration, as a read-only view."""
        return _Entries(self)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.loaded())

    def get(self, name: str) -> T:
        """Return the entry called `name`; raises UnknownName."""
        if name not in (known := self.loaded()):
            raise UnknownName(describe_unknown(self.kind, name, self.names()))
        return known[name]

    def loaded(self) -> dict[str, T]:
        """Return the table itself, with the entries of installed packages. Raises BrokenPackage."""
        for group in self.groups:
            load_group(group)
        return self._entries


class _Entries(Mapping[str, T]):
    """The entries of a registry as they are now."""

    def __init__(self, registry: Registry[T]) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> T:
        return self._registry.loaded()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._registry.loaded())

    def __len__(self) -> int:
        return len(self._registry.loaded())


def near_names(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known words nearest to a mistyped one, the nearest first; empty if none is near."""
    return difflib.get_close_matches(word, list(known), n=most)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `": did you mean 'fire'?"` for the nearest known word, or `""` if none is near."""
    near = near_names(word, known)
    return f": did you mean {near[0]!r}?" if near else ""


def describe_unknown(what: str, name: str, known: Collection[str]) -> str:
    """Return `"unknown metric 'srnk': did you mean 'srank'? (known: srank, …)"` for a name that is not in a table."""
    return f"unknown {what} {name!r}{did_you_mean(name, known)} (known: {', '.join(known)})"


_loaded: set[str] = set()


class BrokenPackage(RuntimeError):
    """An installed package whose entry point cannot be imported; the message is one line that names it."""


def load_group(group: str) -> None:
    """Import the modules that installed packages name as entry points of this group, once in a process.

    Raises BrokenPackage if one cannot be imported.
    """
    if group in _loaded:
        return
    _loaded.add(group)  # before, for a module may ask the registry that it is loaded for
    from importlib.metadata import entry_points  # takes a moment, which help texts do without

    for point in entry_points(group=group):
        try:
            point.load()
        except Exception as error:
            package = f"{point.dist.name} {point.dist.version}" if point.dist else point.module
            raise BrokenPackage(
                f"the installed package {package} cannot be loaded: {one_line(error)} "
                f"(its entry point {point.name} = {point.value} of {group}): repair or uninstall it"
            ) from error
