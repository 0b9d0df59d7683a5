"""Names of folders: supple's own, and those that users' names become.

Studies, presets, arms and variants are folders. Beside them lie folders and files that supple makes itself (`OWN`), and
one system does not tell `Fire` from `fire` while another cannot make a folder called `con`. Such names are refused
before anything is trained. Folders that exist already keep their names and are read as before.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

from ...registry.errors import UsageError

TRUNK = "trunk"
# what supple makes beside the folders of studies, presets, seeds, variants and arms
OWN = (
    "sweep.json", "comparison.json", "config.json", "tuned.json", "outcome.json", "claim.json", "tracked.json",
    "tuning", TRUNK, "report", "report.tmp", "report.old", "trackers", "workers", ".lock",
)  # fmt: skip
SEEDS = re.compile(r"seeds?-[0-9].*")
# what Windows takes for devices, whatever follows after a dot
DEVICES = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9¹²³])\s*(\..*)?", re.IGNORECASE)
NOT_EVERYWHERE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
LONGEST = 255  # bytes of a name
DIGITS = 8  # of a SHA-256 sum


def fold(name: str) -> str:
    """Return a text that is the same for names or paths that some file system does not tell apart."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def problem(name: str) -> str:
    """Return why a folder cannot have this name, such as `is a folder of supple's own`, or "" if it can."""
    plain = fold(name)
    if not name.strip(" ."):
        return "has no letter"
    if plain in OWN or plain.removesuffix(".tmp") in OWN or SEEDS.fullmatch(plain):
        return "is the name of a folder or file that supple makes itself"
    if DEVICES.fullmatch(name):
        return "is reserved on Windows"
    if name[-1] in " ." or name[0] == " ":
        return "begins with a blank, or ends with a blank or a dot, which Windows removes"
    if letter := NOT_EVERYWHERE.search(name):
        return f"contains {letter[0]!r}, which not every system allows"
    if not name.isprintable():
        return "contains a character that cannot be printed"
    if len(name.encode(errors="replace")) > LONGEST:
        return f"is longer than {LONGEST} bytes"
    return ""


def require(name: str, what: str, others: Iterable[str] = ()) -> None:
    """Raise UsageError if a folder cannot have this name, or not beside those with the names `others`.

    `what` begins the message, such as `[rates]`.
    """
    if wrong := problem(name):
        raise UsageError(f"{what}: the folder {name!r} {wrong}: choose another name")
    if other := next((other for other in others if other != name and fold(other) == fold(name)), None):
        raise UsageError(
            f"{what}: some systems do not tell the folder {name!r} from {other!r}: choose names that differ more"
        )


def require_apart(runs: Sequence[tuple[str, str]], new: Collection[str]) -> None:
    """Raise UsageError if two runs would share a folder, one would lie in another's, or a folder is not possible.

    Args:
        runs: The label of each run, and its folder inside that of its seed.
        new: Folders that do not exist yet. If there are none, the others are only compared as this system does.
    """
    taken: dict[str, str] = {}
    for label, folder in runs:
        if folder in taken:
            raise UsageError(f"two runs would share the folder {folder}: {taken[folder]} and {label}")
        taken[folder] = label
    places: dict[str, str] = {}  # folders on the way to one of a run, by what is alike
    for folder, label in taken.items():
        *above, _ = ways = _paths_to(folder)
        if outer := next((way for way in above if way in taken), None):
            raise UsageError(f"the folder of {label} would lie inside the one of {taken[outer]}: rename one of them")
        for way in ways:
            other = places.setdefault(fold(way), way)
            if other != way and new:
                raise UsageError(f"{label}: some systems do not tell its folder {way} from {other}: rename one of them")
    for folder in new:
        for part in folder.split("/"):
            if wrong := problem(part):
                raise UsageError(f"{taken[folder]}: its folder {part!r} {wrong}: write or call it differently")


def _paths_to(folder: str) -> list[str]:
    """Return the paths that lead to a folder, the shortest first, and itself: `a`, `a/b`."""
    parts = folder.split("/")
    return ["/".join(parts[: i + 1]) for i in range(len(parts))]


def shorten(name: str, text: str, most: int = LONGEST) -> str:
    """Return a name, or if it is empty or has over `most` bytes, one that ends with `~` and a checksum of `text`.

    No slug contains a `~`, so that no other text has this name.
    """
    coded = name.encode(errors="replace")
    if 0 < len(coded) <= most:
        return name
    digits = sha256(text.encode(errors="surrogatepass")).hexdigest()[:DIGITS]
    return f"{coded[: LONGEST // 2].decode(errors='ignore')}~{digits}"


def slug(text: str) -> str:
    """Return a folder name for a text, such as an arm: letters, digits and `. _ = -`, or one by `shorten`."""
    return shorten(re.sub(r"[^A-Za-z0-9._=-]+", "_", text).strip("_").rstrip("_."), text)
