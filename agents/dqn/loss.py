"""The loss of DQN: the error of action values, by the target network's values of what follows."""

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.agents.offpolicy.replay import Sample
from supple.networks import evaluating

from .network import ValueNetwork
from .settings import DQNSettings
from .sizes import Sizes


class TDLoss:
    """The loss of a network on samples, with a target network (see `agent` for the equation)."""

    def __init__(self, network: ValueNetwork, target: ValueNetwork, space: Sizes, settings: DQNSettings) -> None:
        self.network, self.target, self.space, self.settings = network, target, space, settings

    def __call__(self, sample: Sample, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the mean of the losses, (*stack,), and the mean Q(s, a) as a constant."""
        losses, value = self.losses(sample, targets)
        return losses.mean(-1), value

    def losses(self, sample: Sample, targets: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the loss of each error, (*stack, n), Huber with threshold 1 or squared, and the mean Q(s, a).

        `targets`: what the method of that name returns for the sample, if it is known already."""
        if targets is None:
            targets = self.targets(sample)
        states, _ = self.space.split(sample.frames)
        values = self._values(self.network, states).gather(-1, sample.actions[..., None]).squeeze(-1)
        loss = F.smooth_l1_loss if self.settings.loss == "huber" else F.mse_loss
        return loss(values, targets, reduction="none"), values.detach().mean(-1)

    @torch.no_grad()
    def targets(self, sample: Sample) -> Tensor:
        """Return r + γ·(1 − terminated)·max Q⁻(s′), (*stack, n), or with double Q the value of the online choice.

        Both networks are in evaluation mode, so that random activations use their mean slope. Targets then have no
        noise, and measuring the loss does not advance the generator of training."""
        _, after = self.space.split(sample.frames)
        values = self._values(self.target, after)
        if self.settings.double_q:
            with evaluating(self.network):
                best = self._values(self.network, after).argmax(-1, keepdim=True)
            value = values.gather(-1, best).squeeze(-1)
        else:
            value = values.amax(-1)
        return sample.rewards + self.settings.gamma * value * ~sample.terminated

    def _values(self, network: ValueNetwork, observations: Tensor) -> Tensor:
        """Return a network's action values in the precision of updates, (*stack, n, actions) float32."""
        device = observations.device.type
        with torch.autocast(device, torch.bfloat16, enabled=self.settings.precision == "bfloat16"):
            values: Tensor = network(observations)
        return values.float()
