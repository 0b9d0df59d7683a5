"""Self-normalized resets (SNR) reinitialise units that are silent for longer than is usual for them.

    a_i ← 0 if unit i fired, else a_i + 1;   reinitialised if P(A_i ≥ a_i) ≤ η

A_i is the time, in updates, that unit i is silent between two firings. The threshold is relative to each unit. A unit
fires at an update if |h| > 1e-3 (Lillo & Cheney, Table E10) on *any* sample of the batch (at any position of a
convolution). The distribution is the histogram of the unit's last 1000 silences (`window` in Lillo & Cheney), with one
additional silence of 1000 updates:

    P(A ≥ a) = (#{A_k ≥ a} + [a ≤ 1000]) / (#A_k + 1)

A unit with a short history is therefore not reinitialised at once; it must fire 1/η − 1 times first. A unit that is
silent for longer than the window always is, even if it never fired. A reinitialised unit starts without a history.
Units are reinitialised as by ReDo: new incoming weights, bias and outgoing weights 0, normalisation as at
initialisation.

Source: Farias & Jozefiak 2024, "Self-normalized resets for plasticity in continual learning" (arXiv 2410.20098).

Resets: optimizer slots of the rewritten entries. Step counters and target networks are kept, for the reasons in cbp.py.

Cost: at each look one forward pass on the recent inputs (`Learner.last_inputs`) and a few operations on one number for
each unit. On a GPU the host waits once to learn whether any unit is to be reset. If so, one draw of the network's
parameters and a pass over the layers around the units. Memory: 4 kB for each unit.

Released code: ajozefiak/SelfNormalizedResets, src/algorithms/snr.py, has another rule with the same aim. A unit fires
only where h > 0, on any sample of the batch. Silence is counted in samples: a silent batch adds its size. Each unit has
a threshold τ, and is reinitialised at a_i ≥ τ. Every N tasks (16), τ becomes the percentile `threshold_percentile`
(.99) of the silences since the last time, leaving out those of length 0, if this is smaller than τ; otherwise τ is
doubled. It stays between one batch and a maximum. FIRE's copy (isaac7778/FIRE, vision/interventions/node_reset/snr.py)
recomputes τ every 16 *updates*, takes the ReLU of a layer's output before normalisation for h, and was run with
`tau_percentile` .99 and .92 after a warm start (.92 to .99 in the other protocols); the paper's Tables 7 to 9 print
1 − percentile. Most units fire in nearly every batch, so most silences have length 0, and η = 1 − percentile is not the
same strength. No `variant` follows either code.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from supple.networks import Learner
from supple.networks.hidden_units import Hidden

from .base import check_within, interventions
from .replacement import Replacement

FIRED = 1e-3  # |h| above this (Lillo & Cheney, Table E10)


@interventions.register("snr")
class SelfNormalizedResets(Replacement):
    """Reinitialise units that are silent for longer than is usual for them (Farias & Jozefiak 2024).

    Args:
        eta: η, the probability at which a silence is too long, in [1/(window + 1), 1); Lillo & Cheney use 1e-3, 3e-3
            and 1e-2.
        window: Number of silences remembered for each unit, and the longest one in updates, from 1 to 30,000.
        period: Updates between two looks at the units, ≥ 1; time is then counted in looks.
    """

    effect = "of units that are silent for unusually long: incoming re-drawn, bias and outgoing 0"

    def __init__(self, eta: float = 3e-3, window: int = 1000, period: int = 1) -> None:
        super().__init__("snr", period)
        check_within("snr", window=(window, "[1, 30000]"))
        if not 1 / (window + 1) <= eta < 1.0:
            raise ValueError(f"snr: eta must lie in [1/(window + 1), 1) = [{1 / (window + 1):.2g}, 1), got {eta}")
        self.eta, self.window = eta, window

    def statistic(self, activations: Tensor) -> Tensor:
        """Return whether each unit fired: (…, rows, units) → (…, units)."""
        return (activations.abs() > FIRED).any(-2)

    def begin(self, group: Hidden, device: torch.device) -> dict[str, Tensor]:
        zeros = torch.zeros(group.shape, dtype=torch.long, device=device)
        return {
            "silent": zeros.clone(),  # a_i
            "known": zeros.clone(),  # silences that ended so far
            "longer": zeros.clone(),  # #{A_k ≥ a_i}, kept up to date: counting anew would take a pass over the window
            "silences": zeros.new_zeros(*group.shape, self.window, dtype=torch.int16),  # the last ones, a ring
            "histogram": zeros.new_zeros(*group.shape, self.window + 1, dtype=torch.int16),  # of these
        }

    def choose(
        self, learner: Learner, groups: Mapping[str, Hidden], states: Mapping[str, dict], seen: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        masks = {name: self._find_late(states[name], fired) for name, fired in seen.items()}
        if not masks:
            return {}
        any_late = torch.stack([mask.any() for mask in masks.values()]).tolist()
        masks = {name: mask for (name, mask), late in zip(masks.items(), any_late, strict=True) if late}
        for name, mask in masks.items():
            for value in states[name].values():
                value.masked_fill_(mask if value.ndim == mask.ndim else mask.unsqueeze(-1), 0)
        return masks

    def _find_late(self, state: dict[str, Tensor], fired: Tensor) -> Tensor:
        """Update the state by one look, and return the mask of the units that have been silent for too long."""
        silent, known, histogram = state["silent"], state["known"], state["histogram"]
        ended, length = fired.unsqueeze(-1), silent.unsqueeze(-1)
        place = known.remainder(self.window).unsqueeze(-1)
        oldest = state["silences"].gather(-1, place)
        full = (known >= self.window).unsqueeze(-1)
        histogram.scatter_add_(-1, oldest.long(), -(ended & full).to(histogram.dtype))
        histogram.scatter_add_(-1, length, ended.to(histogram.dtype))
        state["silences"].scatter_(-1, place, length.to(oldest.dtype).where(ended, oldest))
        known += fired
        count = known.clamp(max=self.window)
        # with a silence one longer, those exactly as long as it was drop out; after a firing all are at least 0
        longer = count.where(fired, state["longer"] - histogram.gather(-1, length).squeeze(-1))
        state["longer"].copy_(longer)
        silent.add_(1).masked_fill_(fired, 0)
        return longer + (silent <= self.window) <= self.eta * (count + 1)
