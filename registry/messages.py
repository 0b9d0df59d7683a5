"""The messages of exceptions of other people's code, which may have none, many lines, or a text that cannot be made."""

from .shown import shown
from .signals import is_interruption

LETTERS = 300  # of another program's message that are shown
SHOWN = 160  # characters of a text of the user


def brief(text: str, around: int = 0) -> str:
    """Return a text of the user for a message. Of a long one it is the part around this character."""
    if len(text) <= SHOWN:
        return text
    start = max(0, min(around - SHOWN // 2, len(text) - SHOWN))
    end = start + SHOWN
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"


def message_of(error: BaseException) -> str:
    """Return the beginning of an exception's message in one line, with control characters spelled out.

    Messages are made by the exception's own code, which may fail too.
    """
    try:
        text = str(error)
    except BaseException as failed:
        if is_interruption(failed):
            raise
        return f"a message that cannot be shown, because that raises {type(failed).__name__}"
    line = " ".join(text[: 10 * LETTERS].split())
    return shown(f"{line[:LETTERS]} …" if len(line) > LETTERS else line)


def one_line(error: BaseException) -> str:
    """Return an exception in one line: its type, and the beginning of its message."""
    return f"{shown(type(error).__name__)}: {message_of(error)}".removesuffix(": ")


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type if it has none."""
    try:
        lines = str(error).strip().splitlines()
    except BaseException:  # as above
        lines = []
    return shown(lines[0][:LETTERS]) if lines else type(error).__name__
