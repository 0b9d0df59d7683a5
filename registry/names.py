"""Tables of things by name, which answer a wrong name with the nearest right one."""

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from .installed import load_group

T = TypeVar("T")


class UnknownName(ValueError):
    """A name that is not in its table; the message suggests the nearest one and lists the rest."""


class Registry(Generic[T]):
    """A table of entries by name.

    Args:
        kind: the word for one entry in messages, e.g. `"intervention"`.
        entries: what it holds from the start, by name.
        groups: groups of entry points by which installed packages name modules that register more entries. These are
            imported when the table is first asked what it holds, so that nothing waits for them before.
    """

    def __init__(self, kind: str, entries: Mapping[str, T] = {}, groups: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.groups = groups
        self._entries = dict(entries)

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that files what it is given under `name`; ValueError if the name is taken."""

        def file(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"{self.kind} {name!r} is registered twice")
            self._entries[name] = entry
            return entry

        return file

    @property
    def entries(self) -> Mapping[str, T]:
        """The entries by name, in the order in which they were registered: a view that cannot be written to."""
        return _Entries(self)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.loaded())

    def get(self, name: str) -> T:
        """Return the entry called `name`; raises UnknownName."""
        if name not in (known := self.loaded()):
            hint = did_you_mean(name, known)
            raise UnknownName(f"unknown {self.kind} {name!r}{hint} (known: {', '.join(self.names())})")
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
    """Return the known words that are nearest to a mistyped one, the nearest first; none where none is near."""
    return difflib.get_close_matches(word, list(known), n=most)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `": did you mean 'fire'?"` for the nearest known word, or `""` if none is near."""
    near = near_names(word, known)
    return f": did you mean {near[0]!r}?" if near else ""
