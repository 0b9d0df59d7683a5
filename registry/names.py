"""Tables of things by name, which answer a wrong name with the nearest right one."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

T = TypeVar("T")


class UnknownName(ValueError):
    """A name that is not in its table; the message suggests the nearest one and lists the rest."""


class Registry(Generic[T]):
    """A table of entries by name.

    Args:
        kind: the word for one entry in messages, e.g. `"intervention"`.
        entries: what it holds from the start, by name.
    """

    def __init__(self, kind: str, entries: Mapping[str, T] = {}) -> None:
        self.kind = kind
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
        return MappingProxyType(self._entries)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self._entries)

    def get(self, name: str) -> T:
        """Return the entry called `name`; raises UnknownName."""
        if name not in self._entries:
            hint = did_you_mean(name, self._entries)
            raise UnknownName(f"unknown {self.kind} {name!r}{hint} (known: {', '.join(self.names())})")
        return self._entries[name]


def near_names(word: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Return the known words that are nearest to a mistyped one, the nearest first; none where none is near."""
    return difflib.get_close_matches(word, list(known), n=most)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `": did you mean 'fire'?"` for the nearest known word, or `""` if none is near."""
    near = near_names(word, known)
    return f": did you mean {near[0]!r}?" if near else ""
