"""Texts of other people in places that show texts: control characters, and bytes that are not UTF-8, become visible.

A name may hold anything that a file system or a plug-in allows. In a terminal, some characters are commands (ESC), some
hide or reorder what follows (U+202E), and some end the line. XML and HTML forbid most of them, and UTF-8 has no lone
surrogates, which stand for the bytes of a file name that are not UTF-8 (PEP 383).
"""

import re
import shlex
import sys
from pathlib import Path

HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that change the direction of writing
    "\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb"  # others without a width; joiners of letters are left
    "\u2028\u2029"  # ends of lines and paragraphs
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"  # no characters at all
)
NOT_ASCII = re.compile("[^ -~]")
ESCAPED_BYTE = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8, in a name that Python read


def shown(text: object) -> str:
    r"""Return a text in one line without characters that cannot be seen: ESC becomes `\x1b`, a newline `\n`.

    A byte of a file name that is not UTF-8 becomes `\xff`. Everything else is left, so paths stay paths.
    """
    return HIDDEN.sub(lambda match: escape(match[0]), str(text))


def quoted(word: str | Path) -> str:
    """Return a word for a command line that bash and zsh read as this word, whatever characters it has."""
    text = f"./{word}" if isinstance(word, Path) and str(word).startswith("-") else str(word)
    coded = getattr(sys.stdout, "encoding", None) or "utf-8"
    special = HIDDEN if coded.lower().startswith("utf") else NOT_ASCII
    if not special.search(text):
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{special.sub(lambda match: _bytes(match[0]), plain)}'"


def escape(letter: str) -> str:
    r"""Return a character in ASCII: `\x1b`, `\u202e`, and `\xff` for a byte that is not UTF-8."""
    return _bytes(letter) if ESCAPED_BYTE.match(letter) else letter.encode("unicode_escape").decode()


def _bytes(letter: str) -> str:
    """Return the bytes of a character as they are written between $' and '."""
    escaped = ESCAPED_BYTE.fullmatch(letter)
    data = letter.encode(errors="surrogateescape" if escaped else "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)
