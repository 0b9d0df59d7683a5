"""PPO's recent batch, on which interventions and metrics look and of which they draw minibatches."""

from collections.abc import Iterator

import torch
from torch import Tensor

from supple.agents.draws import Draws, draw
from supple.networks import evaluating

from .network import MultiHead
from .rollout import RolloutBatch
from .settings import PPOSettings
from .update import ppo_loss, ppo_losses

PROBE_ROWS = 512
Batch = tuple[str, RolloutBatch]  # with its environment


class RecentBatch:
    """The batch of the update that is running, and that of the last one.

    Args:
        network: The agent's network.
        settings: The settings.
        draws: The generators of interventions, which draw minibatches.

    Attributes:
        last: The batch of the last update.
        learning: The batch of the update that is running.
        minibatch: The inputs of the last gradient step of that update.
    """

    def __init__(self, network: MultiHead, settings: PPOSettings, draws: Draws) -> None:
        self.network, self.settings, self.draws = network, settings, draws
        self.last: Batch | None = None
        self.learning: Batch | None = None
        self.minibatch: tuple[Tensor, str] | None = None

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
        return ppo_loss(self.network, key, batch, self.settings)[0].sum()

    def batches(self, count: int | None) -> Iterator[Tensor]:
        """Yield losses on minibatches of the last batch, in evaluation mode.

        As in training, a pass leaves out the rows beyond the last full minibatch."""
        if self.last is None:
            raise ValueError("there is no batch before the first rollout: schedule it later")
        return self._losses(*self.last, count)

    def _losses(self, key: str, batch: RolloutBatch, count: int | None) -> Iterator[Tensor]:
        size = min(self.settings.minibatch_size, batch.size)
        in_a_pass = batch.size // size
        for number in range(in_a_pass if count is None else count):
            if number % in_a_pass == 0:
                order = draw(torch.randperm, batch.size, self.draws).to(batch.returns.device).split(size, -1)
            minibatch = batch.take(order[number % in_a_pass])
            with evaluating(self.network):
                losses = ppo_losses(self.network, key, minibatch, self.settings)
            yield losses

    def another(self) -> tuple[Tensor, str] | None:
        """Return a random minibatch of the observations of the current update, and their environment."""
        if self.learning is None:
            return None
        key, batch = self.learning
        rows = draw(torch.randperm, batch.size, self.draws).to(batch.returns.device)
        return batch.take(rows[..., : self.settings.minibatch_size]).observations, key
