"""The kinds of runs there are, by name; each lies in a package of its own, with settings.py and work.py."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...experiments.compare import at_the_fork
from ...experiments.rundir import RunDirectory
from .pretrain.starts import from_a_start
from .settings import LanguageSettings


@dataclass(frozen=True)
class Kind:
    """One kind of run. settings_name: its dataclass in the package's settings.py. shared: whether processes that
    `torchrun` starts can share it."""

    about: str
    package: str
    settings_name: str
    beginning: Callable[[Any, RunDirectory, int], tuple[Any, int, Path]] = at_the_fork
    shared: bool = False

    def settings(self) -> type[LanguageSettings]:
        module = importlib.import_module(f".{self.package}.settings", __package__)
        found: type[LanguageSettings] = getattr(module, self.settings_name)
        return found


KINDS = {
    "pretrain": Kind(
        "a GPT on one corpus, then on others, from a checkpoint of the first", "pretrain", "PretrainSettings",
        from_a_start, shared=True,
    ),
    "sft": Kind("supervised fine-tuning of a causal language model, and what it forgets", "finetune", "SFTSettings"),
    "clip": Kind("a small image-text model on captions", "images", "ClipSettings"),
    "continual": Kind("one task after the other with adapters (MoRAM, LoRA, …)", "continual", "ContinualSettings"),
}  # fmt: skip
