"""Which report belongs to which kind of runs. Provisional: the registry of kinds will say it."""

import importlib

from .kind import Report

AGENTS = "agents.report:AGENTS"
REPORTS = {  # "module:NAME", imported when asked for
    "ppo": AGENTS,
    "dqn": AGENTS,
    "sac": AGENTS,
    "vision": "tracks.vision.report:VISION",
    "pretrain": "tracks.language.report:PRETRAIN",
    "sft": "tracks.language.report:SFT",
    "clip": "tracks.language.report:CLIP",
    "continual": "tracks.language.report:CONTINUAL",
    "linear": "tracks.linear.report:LINEAR",
}


def report_of(kind: str) -> Report:
    """Return the report of a kind of runs. Raises ValueError, in one line, for a kind that there is not."""
    if kind not in REPORTS:
        raise ValueError(f"unknown kind of runs {kind!r} (known: {', '.join(REPORTS)})")
    module, name = REPORTS[kind].split(":")
    found: Report = getattr(importlib.import_module(f"{__package__.rsplit('.', 2)[0]}.{module}"), name)
    return found
