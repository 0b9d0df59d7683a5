"""PPO's recent batch, on which interventions and metrics look and of which they draw minibatches."""

from collections.abc import Iterator

import torch
from torch import Tensor

from supple.agents.draws import Draws, sources_of
from supple.networks import evaluating

from .network import MultiHead
from .rollout import RolloutBatch
from .update import LossSettings, ppo_loss, ppo_losses

PROBE_ROWS = 512
Batch = tuple[str, RolloutBatch]  # with its environment


class RecentBatch:
    """The batch of the update that is running, and that of the last one.

    Args:
        network: The agent's network.
        loss: The settings of the loss.
        minibatch_size: Rows of a minibatch.
        draws: The generators of interventions, which draw minibatches.

    Attributes:
        last: The batch of the last update.
        learning: The batch of the update that is running.
        minibatch: The inputs of the last gradient step of that update.
    """

    def __init__(self, network: MultiHead, loss: LossSettings, minibatch_size: int, draws: Draws) -> None:
        self.network, self.loss, self.minibatch_size, self.draws = network, loss, minibatch_size, draws
        self.last: Batch | None = None
        self.learning: Batch | None = None
        self.minibatch: tuple[Tensor, str] | None = None

    def finish(self) -> None:
        """Note that the update has ended."""
        self.last, self.learning, self.minibatch = self.learning, None, None

    @property
    def key(self) -> str:
        """The environment of the batch."""
        batch = self.learning or self.last
        assert batch is not None
        return batch[0]

    @property
    def probe(self) -> Batch | None:
        """Up to `PROBE_ROWS` rows of the last batch, for metrics."""
        if self.last is None:
            return None
        key, batch = self.last
        return key, batch.thin(-(-batch.size // PROBE_ROWS))

    def probe_loss(self) -> Tensor:
        """Return the loss on the probe, summed over the members of a stack."""
        if self.probe is None:
            raise RuntimeError("there is no recent batch before the first rollout")
        key, batch = self.probe
        return ppo_loss(self.network, key, batch, self.loss)[0].sum()

    def batches(self, count: int | None) -> Iterator[Tensor]:
        """Yield losses on minibatches of the last batch, in evaluation mode.

        As in training, a pass leaves out the rows beyond the last full minibatch."""
        if self.last is None:
            raise ValueError("there is no batch before the first rollout: schedule it later")
        return self._losses(*self.last, count)

    def _losses(self, key: str, batch: RolloutBatch, count: int | None) -> Iterator[Tensor]:
        size = min(self.minibatch_size, batch.size)
        in_a_pass = batch.size // size
        for number in range(in_a_pass if count is None else count):
            if number % in_a_pass == 0:
                order = permute(batch.size, self.draws, batch.returns.device).split(size, -1)
            minibatch = batch.take(order[number % in_a_pass])
            with evaluating(self.network):
                losses = ppo_losses(self.network, key, minibatch, self.loss)
            yield losses

    def another(self) -> tuple[Tensor, str] | None:
        """Return a random minibatch of the observations of the current update, and their environment."""
        if self.learning is None:
            return None
        key, batch = self.learning
        rows = permute(batch.size, self.draws, batch.returns.device)[..., : self.minibatch_size]
        return batch.take(rows).observations, key


def permute(rows: int, draws: Draws, device: torch.device) -> Tensor:
    """Return a random order of the rows, (rows,), or for a stack one for each member, (members, rows)."""
    orders = [torch.randperm(rows, generator=own) for own in sources_of(draws)]
    return (orders[0] if isinstance(draws, torch.Generator) else torch.stack(orders)).to(device)
