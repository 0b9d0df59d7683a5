"""The windows of the corpora at each update. Draws have no state, so a resumed run sees the same windows."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from supple.engine.seeding import generator
from supple.registry.errors import UsageError

from .tokens import TokenFile


@dataclass(frozen=True)
class Mixture:
    """Corpora and the share of windows from each. The shares sum to 1."""

    parts: tuple[TokenFile, ...]
    shares: tuple[float, ...]


def make_mixture(parts: Sequence[TokenFile], shares: Sequence[float] | None = None) -> Mixture:
    """Return a mixture of one corpus or several.

    shares: The shares of windows, in any unit. By default, they are proportional to the numbers of tokens, as if the
    corpora were concatenated.

    Raises UsageError if the tokenizers differ.
    """
    check_same_tokenizer(parts)
    weights = [float(len(part)) for part in parts] if shares is None else list(shares)
    return Mixture(tuple(parts), tuple(weight / sum(weights) for weight in weights))


def check_same_tokenizer(parts: Sequence[TokenFile]) -> None:
    """Raise UsageError if the corpora have different tokenizers: the same number would then be another word."""
    first = parts[0]
    for part in parts[1:]:
        if part.about["fingerprint"] != first.about["fingerprint"]:
            raise UsageError(
                f"{part.path}: made with another tokenizer, '{part.about['tokenizer']}', than {first.path}, "
                f"'{first.about['tokenizer']}': prepare one of them with the other's tokenizer.json"
            )


def draw_windows(
    source: Mixture, seed: int, task: int, update: int, batch: int, block: int, rank: int = 0, ranks: int = 1
) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of an update, (batch, block) int64 each: windows with independent random starts.

    The draw depends on (seed, task, update) only. Several processes see together what one process alone would see.

    Args:
        source: The corpora and their shares.
        seed: The run's seed.
        task: The phase, from 0.
        update: The update in the phase, from 0.
        batch: Windows over all processes.
        block: Tokens of a window.
        rank: This process, which takes every `ranks`-th window from this one on.
        ranks: The number of processes.

    Raises UsageError if a corpus has no more tokens than a batch, or than a block.
    """
    for part in source.parts:
        part.check(block)
    if (total := sum(map(len, source.parts))) <= batch * block:
        names = "; ".join(part.where for part in source.parts)
        raise UsageError(f"{names}: {total:,} tokens are too few for one batch, which has {batch} × {block:,}")
    draws = generator(seed, "windows", task, update)
    which = torch.multinomial(torch.tensor(source.shares, dtype=torch.float64), batch, True, generator=draws)
    places = torch.rand(batch, generator=draws, dtype=torch.float64)  # in [0, 1) of each one's corpus
    which, places = which[rank::ranks], places[rank::ranks]
    inputs = torch.empty(len(which), block, dtype=torch.int64)
    targets = torch.empty_like(inputs)
    for index, part in enumerate(source.parts):
        rows = (which == index).nonzero()[:, 0]
        starts = (places[rows] * (len(part) - block)).long()
        inputs[rows], targets[rows] = part.batch(starts, block)
    return inputs, targets


def validation_windows(tokens: TokenFile, count: int, block: int) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of at most `count` evenly spaced windows of a corpus.

    The windows do not overlap, and are always the same.

    Raises UsageError for a corpus with no more tokens than a block.
    """
    tokens.check(block)
    last = len(tokens) - 1 - block  # the last start
    count = min(count, (len(tokens) - 1) // block)
    starts = torch.arange(count) * last // max(count - 1, 1)
    return tokens.batch(starts, block)
