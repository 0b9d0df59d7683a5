"""Calls of a user's own code. What it raises keeps its traceback, and gets a note that says what was called.

with naming("hook halve@task: apply on 'agent'", intervention):
    written = intervention.apply(learner)
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

OWN = __name__.partition(".")[0]  # the package whose code is supple's own


@contextmanager
def naming(what: str, entry: object = None) -> Iterator[None]:
    """Add a note to exceptions in this block.

    Args:
        what: What is called, such as "hook halve@task: apply on 'agent'".
        entry: The object whose code is called. That of a plug-in is named in the note; supple's own gets no note. If
            None, every exception gets one.
    """

    try:
        yield
    except Exception as error:
        owner = entry is not None and owner_of(entry)
        if owner or entry is None:
            error.add_note(f"plug-in {owner}: {what}" if owner else what)
        raise


def notes_of(error: BaseException) -> str:
    """Return the notes of an exception as the beginning of a line, or "": "after step 20: hook halve@task: …: "."""
    return "".join(f"{note}: " for note in reversed(getattr(error, "__notes__", ())))


def owner_of(entry: object) -> str:
    """Return the file or package that an object's code comes from, or "" if that is supple.

    The object is a function, a class or an instance of one.
    """
    while hasattr(entry, "func"):  # functools.partial
        entry = entry.func
    name = getattr(entry, "__module__", None) or type(entry).__module__
    top = str(name).partition(".")[0]
    if top == OWN:
        return ""
    file = str(getattr(sys.modules.get(str(name)), "__file__", None) or "")
    single = file and "." not in str(name) and not file.endswith("__init__.py")
    return os.path.basename(file) if single else top
