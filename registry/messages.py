"""The messages of exceptions of other people's code, which may have none, many lines, or a text that cannot be made."""

LETTERS = 300  # of a first line
SHOWN = 160  # characters of a text of the user


def brief(text: str, around: int = 0) -> str:
    """Return a text of the user for a message. Of a long one it is the part around this character."""
    if len(text) <= SHOWN:
        return text
    start = max(0, min(around - SHOWN // 2, len(text) - SHOWN))
    end = start + SHOWN
    return f"{'… ' if start else ''}{text[start:end]}{' …' if end < len(text) else ''}"


def message_of(error: BaseException) -> str:
    """Return an exception's message in one line; "" if it has none, or none that can be shown."""
    try:
        return " ".join(str(error).split())
    except BaseException:  # its __str__ is other people's code, too
        return ""


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type if it has none."""
    try:
        lines = str(error).strip().splitlines()
    except BaseException:  # as above
        lines = []
    return lines[0][:LETTERS] if lines else type(error).__name__
