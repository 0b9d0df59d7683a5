"""The kinds of runs that the one loop trains, by name; each lies in a package of its own.

In a package are settings.py, with a dataclass, and work.py, with `build(settings)`.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..experiments.compare import at_the_fork
from ..experiments.rundir import RunDirectory
from .language.pretrain.starts import from_a_start
from .settings import TrackSettings


@dataclass(frozen=True)
class Kind:
    """One kind of run.

    package: where it lies in this room. settings_name: its dataclass in the package's settings.py. command: what is
    typed after `supple` to train one; its first word is the script. shared: whether processes that `torchrun` starts
    can share it."""

    about: str
    package: str
    settings_name: str
    command: str
    beginning: Callable[[Any, RunDirectory, int], tuple[Any, int, Path]] = at_the_fork
    shared: bool = False

    @property
    def script(self) -> str:
        return self.command.split()[0]

    def settings(self) -> type[TrackSettings]:
        module = importlib.import_module(f".{self.package}.settings", __package__)
        found: type[TrackSettings] = getattr(module, self.settings_name)
        return found


KINDS = {
    "pretrain": Kind(
        "a GPT on one corpus, then on others, from a checkpoint of the first", "language.pretrain", "PretrainSettings",
        "language pretrain", from_a_start, shared=True,
    ),
    "sft": Kind(
        "supervised fine-tuning of a causal language model, and what it forgets", "language.finetune", "SFTSettings",
        "language sft",
    ),
    "clip": Kind("a small image-text model on captions", "language.images", "ClipSettings", "language clip"),
    "continual": Kind(
        "one task after the other with adapters (MoRAM, LoRA, …)", "language.continual", "ContinualSettings",
        "language continual",
    ),
    "linear": Kind("deep linear networks, one task after the other", "linear", "LinearSettings", "linear train"),
}  # fmt: skip


def kinds_of(script: str) -> dict[str, Kind]:
    """The kinds of runs that one script trains, such as "language"."""
    return {name: kind for name, kind in KINDS.items() if kind.script == script}
