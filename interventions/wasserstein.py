"""The Wasserstein regulariser keeps the distribution of a tensor's entries near that of its initial values.

    L ← L + λ·Σ (sort θ − sort θ₀)²   over every entry of every trained tensor, each sorted separately

Each entry may move to the initial value of another. The sum is the squared 2-Wasserstein distance of the two
distributions, times the number of entries. Each member of a stack has its own distribution.

Source: Lewandowski et al. 2024, "Learning continually by spectral regularization", arXiv:2406.06811v1; "Curvature
explains loss of plasticity", arXiv:2312.00246.

Resets: nothing.

Cost: every parameter is sorted once per update, and a sorted copy of θ₀ is stored.

Released code differs in the normalisation: parseval_reg (wechu/parseval_reg, parseval_reg/agent.py) takes the mean over
each tensor's entries, Juliani & Ash (awjuliani/deep-rl-plasticity, algos/ppo/trainer.py) the root of the sum over all.
parseval_reg leaves out the log σ of a Gaussian policy, which here stays near its initial value.
"""

from itertools import groupby

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from supple.networks import Learner

from .base import Intervention, check_within, interventions

LONG = 2**15  # entries from which on PyTorch sorts integers by their digits
INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of an entry


# Begin and end of what is sorted at once, a long row or several short ones; for short ones, the row that each entry
# belongs to, (entries,).
Part = tuple[int, int, Tensor | None]


@interventions.register("wasserstein")
class Wasserstein(Intervention):
    """Penalise Σ(sort θ − sort θ₀)² of every trained tensor (Lewandowski et al. 2024); strengths as for `l2_init`."""

    def __init__(self, strength: float = 1e-3) -> None:
        check_within("wasserstein", strength=(strength, "[0, ∞)"))
        self.strength = strength
        # by learner: θ₀, the names of what is trained, and the sorted values of these with their parts
        self._starts: dict[str, tuple[dict[str, Tensor], list[str], Tensor, list[Part]]] = {}

    def attach(self, learner: Learner) -> None:
        learner.check_trained("wasserstein")

    def penalty(self, learner: Learner) -> Tensor:
        trained = learner.trained()
        (start, parts), parameters = self._sort_start(learner, list(trained)), list(trained.values())
        values = torch.cat([p.detach().flatten() for p in parameters])
        placed = torch.empty_like(values)
        for begin, end, of_row in parts:  # each entry is compared with that of θ₀ of the same rank in its row
            placed[begin:end].scatter_(0, _sort_order(values[begin:end], of_row), start[begin:end])
        targets = zip(parameters, placed.split([p.numel() for p in parameters]), strict=True)
        terms = [mse_loss(p, target.view(p.shape).to(p), reduction="sum") for p, target in targets]
        return self.strength * torch.stack(terms).sum()

    def _sort_start(self, learner: Learner, names: list[str]) -> tuple[Tensor, list[Part]]:
        """Return the step-0 values in one vector, (entries,), sorted in each part, and the parts.

        A row is a parameter of one network. They are sorted again if a checkpoint, a new head or a freeze has changed
        them.
        """
        known = self._starts.get(learner.name)
        if known is None or known[0] is not learner.initial or known[1] != names:
            values, rows = [learner.initial[name] for name in names], max(1, learner.members)
            lengths = [value.numel() // rows for value in values for _ in range(rows)]
            parts = _split_rows(lengths, values[0].device)
            known = learner.initial, names, torch.cat([value.flatten() for value in values]), parts
            for begin, end, of_row in parts:
                part = known[2][begin:end]
                part.copy_(part[_sort_order(part, of_row)])
            self._starts[learner.name] = known
        return known[2:]


def _split_rows(lengths: list[int], device: torch.device) -> list[Part]:
    """Return the parts of rows of these lengths that are sorted at once: a long row alone, short rows together."""
    parts: list[Part] = []
    begin = 0
    for _, together in groupby(enumerate(lengths), lambda item: item[0] if item[1] >= LONG else -1):
        counts = torch.tensor([length for _, length in together])
        rows = torch.arange(len(counts), dtype=torch.int32)
        of_row = rows.repeat_interleave(counts).to(device) if len(rows) > 1 else None
        end = begin + int(counts.sum())
        parts.append((begin, end, of_row))
        begin = end
    return parts


def _sort_order(values: Tensor, of_row: Tensor | None) -> Tensor:
    """Return the indices that sort floating-point numbers (entries,), row by row, in a stable way.

    Their bits are sorted as integers. Those of positive numbers have the order of the numbers. Those of negative
    numbers have the reverse order, which is corrected by inverting all bits but the sign.
    """
    bits = values.view(INTEGERS[values.element_size()])
    turned = (bits >> (8 * values.element_size() - 1)) & torch.iinfo(bits.dtype).max
    order = (bits ^ turned).sort(stable=True).indices
    if of_row is not None:  # rows beside each other: by row, what is ordered by value
        order = order.gather(0, of_row.gather(0, order).sort(stable=True).indices)
    return order
