"""The starts of second phases: states that the run of the first phase kept."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from supple.engine.forks import Forks, Variant
from supple.engine.loop import BEST, KEPT
from supple.engine.storage import checkpoint
from supple.engine.storage.run_directory import CHECKPOINTS
from supple.registry.errors import RunError, UsageError

from .settings import BEST_START, PretrainSettings

# Settings of pretraining that say what the first phase is.
OF_THE_TRUNK = (
    "first", "first_share", "tokenizer", "layers", "width", "heads", "block_size", "activation", "pretrain_steps",
    "warmup", "keep_at", "keep_best",
)  # fmt: skip


class Starts(Forks):
    """The forks of pretraining.

    The second phases of a seed start from states of one first phase, which is their trunk. Without a second phase, arms
    are forked as those of other kinds."""

    def shared_trunk(self, settings: PretrainSettings) -> bool:
        return bool(settings.second)

    def by_hooks(self, settings: PretrainSettings, variants: Sequence[Variant]) -> bool:
        return not settings.second and not any("second" in variant for variant in variants)

    def prepare(
        self, settings: PretrainSettings, variants: Sequence[Variant], fork: int
    ) -> tuple[PretrainSettings, Sequence[Variant], int]:
        """Return the settings of a trunk, which keeps the states at which second phases start, and its last update."""
        varied = {name for variant in variants for name in variant}
        starts = [variant.get("start", settings.start) for variant in variants]
        for start in starts:
            replace(settings, start=start).check()
        if not settings.second:
            if fork and "second" in varied:
                raise UsageError("--vary second=…: arms part where a second phase starts, not by a fork")
            return settings, variants, fork
        if fork:
            raise UsageError(
                "the arms of a second phase part where it starts: say where by --start or --vary start=…, not by a fork"
            )
        if settings.start and "start" in varied:
            raise UsageError("--start and --vary start=… both say where second phases begin: give one of them")
        if name := next((name for variant in variants for name in variant if name in OF_THE_TRUNK), None):
            raise UsageError(f"--vary {name}=…: all arms share the first phase, so what it depends on cannot vary")
        if "second" in varied and settings.tokenizer.startswith("bpe:"):
            raise UsageError(
                "--vary second=…: the tokenizer is trained on all corpora, and all arms share the first phase: give "
                "--tokenizer bytes or a tokenizer.json"
            )
        if settings.start:
            variants = [{**variant, "start": settings.start} for variant in variants]
        steps = sorted({int(start) for start in starts if start not in ("", BEST_START)} - {settings.pretrain_steps})
        keep = tuple(sorted({*settings.keep_at, *steps}))
        keep_best = settings.keep_best or BEST_START in starts
        return replace(settings, start="", keep_at=keep, keep_best=keep_best), variants, settings.pretrain_steps

    def first_step(self, settings: PretrainSettings, fork: int) -> int:
        return settings.first_end if fork and settings.second else fork

    def choose_start(self, settings: PretrainSettings, trunk: Path, fork: int) -> tuple[PretrainSettings, int, Path]:
        """Return the state of a trunk that `settings.start` names, and the settings with its update.

        It is the end of the first phase, a state that was kept, or the best state."""
        if not settings.second:
            return super().choose_start(settings, trunk, fork)
        if settings.start == BEST_START:
            folders = checkpoint.folders_of(trunk / BEST)
            if not folders:
                raise RunError(f"{trunk}: no best state was kept (--keep-best)")
            return replace(settings, start=str(int(folders[-1].name))), int(folders[-1].name), folders[-1]
        at = settings.first_end
        if at == fork:
            return replace(settings, start=str(at)), at, checkpoint.folder_of(trunk / CHECKPOINTS, at)
        folder = checkpoint.folder_of(trunk / KEPT, at)
        if not folder.exists():
            raise UsageError(f"{trunk}: the state of update {at} was not kept (--keep-at {at})")
        return settings, at, folder
