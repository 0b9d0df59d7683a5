"""The settings of pretraining. Defaults are those of FIRE (Section 4.2 and E.2), with nanoGPT's 124M configuration."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from supple.engine.settings import Groups
from supple.registry.errors import UsageError
from supple.registry.schema import BelowOne, NotNegative, Positive, PositiveShare
from supple.tracks.language.settings import LanguageSettings

BEST_START = "best"
Names = Annotated[tuple[str, ...], tyro.conf.arg(metavar="CORPUS")]


@dataclass(kw_only=True)
class PretrainSettings(LanguageSettings):
    first: Names = ()
    """Corpora of the first phase: brown, kjv, foldoc (`supple fetch`), text files, or folders of prepared corpora
    (train.bin, validation.bin)."""
    second: Names = ()
    """Corpora of the second phase, mixed in equal shares; none: no second phase."""
    first_share: PositiveShare = 1.0
    """Share of the first corpora's training text that the first phase uses. The second phase uses all of its text."""
    tokenizer: str = "bpe:50257"
    """bytes, bpe:SIZE (trained on the training text of all corpora), or a tokenizer.json. Prepared corpora have
    their own. (The paper uses GPT-2's, with 50,257 tokens.)"""
    layers: Positive[int] = 12
    """Number of blocks of the GPT."""
    width: Positive[int] = 768
    """Width of the residual stream."""
    heads: Positive[int] = 12
    """Attention heads per block."""
    block_size: Positive[int] = 1024
    """Tokens per sequence."""
    dropout: BelowOne = 0.0
    """Dropout probability while training."""
    activation: str = "gelu"
    """Activation of the MLPs, with optional parameters (see `supple list activations`)."""
    batch_size: Positive[int] = 480
    """Sequences per update, over all processes."""
    micro_batch: Positive[int] = 12
    """Sequences per forward pass; their gradients are averaged. Lower it to save memory."""
    pretrain_steps: Positive[int] = 60_000
    """Updates of the first phase, over which its learning rate decays."""
    start: Annotated[str, tyro.conf.arg(metavar="STEP")] = ""
    """Start of the second phase: an update of the first phase, or best (by validation loss; comparisons only).
    Empty: the end of the first phase."""
    steps: Positive[int] = 18_600
    """Updates of the second phase. (The paper does not say; its Figure 3 ends there.)"""
    warmup: NotNegative[int] = 2_000
    """Updates over which the learning rate of the first phase rises from 0."""
    second_warmup: BelowOne = 0.1
    """Share of the second phase over which its learning rate rises from 0."""
    min_rate: BelowOne = 0.1
    """Learning rate at the end of a phase as a share of the maximum."""
    val_sequences: Positive[int] = 64
    """Sequences of validation text in an evaluation, evenly spaced."""
    keep_at: tuple[Positive[int], ...] = ()
    """Updates of the first phase after which the state is kept for second phases that start there."""
    keep_best: bool = False
    """Also keep the state of the first phase with the lowest validation loss."""
    compile: bool = False
    """Compile the network (torch.compile): takes minutes at the start, and is faster on a GPU."""

    groups: ClassVar[Groups] = {
        "task": ("first", "second", "first_share", "tokenizer", "pretrain_steps", "start", "steps"),
        "network": ("layers", "width", "heads", "block_size", "dropout", "activation"),
        "measuring": ("val_sequences",),
        "speed": ("micro_batch", "compile"),
    }

    @property
    def first_end(self) -> int:
        """The update at which the second phase begins; for `best`, which is not known yet, the end of the first."""
        return int(self.start) if self.start not in ("", BEST_START) else self.pretrain_steps

    def check_single(self) -> None:
        if self.start == BEST_START:
            raise UsageError("--start best is known in comparisons only: `supple compare pretrain … --start best`")
        if self.start.isdecimal() and (step := max(self.keep_at, default=0)) > int(self.start):
            raise UsageError(f"--keep-at {step}: with --start {self.start} the first phase ends at update {self.start}")

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.first:
            yield "--first is missing: the corpora of the first phase, such as `--first kjv` or text files"
        if self.start and not self.second:
            yield f"--start {self.start} is where a second phase begins, and there is none: --second CORPUS"
        if self.micro_batch > 0 and self.batch_size % self.micro_batch:
            yield f"--batch-size {self.batch_size} must be a multiple of --micro-batch {self.micro_batch}"
        if self.start not in ("", BEST_START) and not self.start.isdecimal():
            yield f"--start must be an update of the first phase or best, got {self.start!r}"
        if self.warmup >= self.pretrain_steps:
            yield (
                f"--warmup {self.warmup} must be less than --pretrain-steps {self.pretrain_steps}: the learning rate "
                "would never come to its highest"
            )
        starts = (self.first_end,) if self.start in ("", BEST_START) or self.start.isdecimal() else ()
        for step in (*starts, *self.keep_at):
            if not 0 < step <= self.pretrain_steps:
                yield f"a second phase can start at update 1 to {self.pretrain_steps} of the first, not {step}"
