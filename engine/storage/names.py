"""Names of folders, made from what a user gives: arms, variants, presets.

Beside them lie folders and files that supple makes itself (`OWN`), and some systems do not tell `Fire` from `fire`.
"""

import re
from hashlib import sha256

TRUNK = "trunk"
# what supple makes beside the folders of studies, presets, seeds, variants and arms
OWN = (
    "sweep.json", "comparison.json", "config.json", "tuned.json", "outcome.json", "tracked.json", "tuning", TRUNK,
    "report", "report.tmp", "report.old", "trackers", "workers",
)  # fmt: skip
LONGEST = 150  # letters of a name, before its checksum
DIGITS = 6  # of a SHA-256 sum


def plain(text: str) -> str:
    """Return a text with `_` in place of all but letters, digits and `. _ = -`: `fire_task` for `fire@task`."""
    return re.sub(r"[^A-Za-z0-9._=-]+", "_", text).strip("_.")


def slug(text: str) -> str:
    """Return a folder name for a text: itself, or if it had to change, a name that ends with a checksum of the text.

    Different texts have different names, also on systems that do not distinguish upper and lower case.
    """
    name = plain(text).lower()[:LONGEST]
    changed = name != text or name in ("", *OWN)
    return "-".join(filter(None, [name, sha256(text.encode()).hexdigest()[:DIGITS] if changed else ""]))
