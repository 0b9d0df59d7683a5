"""A classifier, its optimizer, and the learner that interventions and metrics use."""

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.engine.seeding import derive, generator
from supple.interventions import FireScope, Injectable, Learner, unit_names
from supple.networks import Adam, evaluating, stack_networks
from supple.networks.activations import set_generators

from .data import DataSet
from .feed import ImageFeed
from .networks import Network, make_network
from .settings import VisionSettings
from .task_data import Images


class Model:
    """One network per seed: a stack of small networks, or a single large one.

    All tensors have the members as their first axis: images, labels, losses and hits.

    Args:
        settings: The settings.
        data: The data set, for the images' shape and the pixels' statistics.
        classes: The number of outputs.
        device: cpu or cuda.

    Attributes:
        learner: What interventions and metrics use.
        feed: Its data, those of the present task, which the loop sets.

    Raises ValueError if the network does not fit the images, the activation or the width.
    """

    feed: ImageFeed

    def __init__(self, settings: VisionSettings, data: DataSet, classes: int, device: str) -> None:
        s = self.settings = settings
        self.device, self.members, self.stacked = device, len(s.members), s.stacked
        self.shape, self.classes = data.image_shape, classes
        self.updates = 0  # so far; draws for interventions are keyed by it
        drawn = [self._draw_network(seed, "network") for seed in s.members]
        self.network = drawn[0]
        if self.stacked:
            self.network = stack_networks(
                drawn, lambda members: make_network(s.network, members, self.shape, classes, s.activation, s.width)
            )
        self.network.to(device)
        self.generators = [torch.Generator(device).manual_seed(derive(seed, "activations")) for seed in s.members]
        set_generators(self.network, self.generators)
        self.statistics = _pixel_statistics(data, device) if s.standardize else None
        optimizer = Adam(self.network.parameters(), lr=s.learning_rate, networks=int(self.stacked))
        self.learner = Learner(
            "model",
            self.network,
            optimizer,
            self.network.layers(),
            unit_names(self.network),
            probe=lambda: self._inputs(self.feed.probe()[0]),
            last_inputs=lambda: self._inputs(self.feed.last()[0]),
            loss=lambda: self._probe_losses().mean(1).sum(),
            generator=generator(s.members[0], "interventions"),
            generators=tuple(generator(seed, "interventions") for seed in s.members) if self.stacked else (),
            redraw=self._redraw,
            seeds=len(s.members) if self.stacked else 0,
            batches=self._batches,
            activation_draws=self.generators,
            features=self.network.features,
            capabilities=(
                Injectable(self.network.injectable),
                FireScope(self.network.fire_scope),
            ),
        )

    def pixels(self, images: Tensor) -> Tensor:
        """Return uint8 images (members, n, c, h, w) as inputs of the network."""
        x = images.to(self.device).float().div_(255)
        if self.statistics is None:
            return x
        mean, deviation = self.statistics
        return x.sub_(mean).div_(deviation)

    def losses(self, x: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cross-entropy of each image, and whether it is classified correctly, both (members, n)."""
        logits = self.network(x) if self.stacked else self.network(x[0])[None]
        losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
        return losses, logits.detach().argmax(-1) == labels

    @torch.no_grad()
    def accuracy(self, images: Images, chunk: int = 1000) -> Tensor:
        """Return the share of images that are classified correctly in evaluation mode, (members,)."""
        hits = torch.zeros(self.members, device=self.device)
        for start in range(0, images.size, chunk):
            batch, labels = images.between(start, start + chunk)
            with evaluating(self.network):
                hits += self.losses(self.pixels(batch), labels.to(self.device))[1].sum(1)
        return hits / images.size

    @torch.no_grad()
    def sound(self) -> Tensor:
        """Return whether the losses on the images reserved for metrics are finite, in evaluation mode, (members,)."""
        with evaluating(self.network):
            return self._probe_losses().isfinite().all(1)

    # -- what the learner offers ----------------------------------------------------------------------------------

    def _inputs(self, images: Tensor) -> Sequence[Tensor]:
        x = self.pixels(images)
        return (x if self.stacked else x[0],)

    def _probe_losses(self) -> Tensor:
        """Return the losses on the images of the probe, (members, n)."""
        images, labels = self.feed.probe()
        return self.losses(self.pixels(images), labels)[0]

    def _batches(self, count: int | None) -> Iterator[Tensor]:
        for images, labels in self.feed.batches(count):
            with evaluating(self.network):  # else BatchNorm would tie the samples of a batch together, and move
                losses = self.losses(self.pixels(images), labels)[0]
            yield losses if self.stacked else losses[0]

    def _redraw(self) -> dict[str, Tensor]:
        """Return new parameters, drawn from the number of updates so far. Members draw independently."""
        drawn = [self._draw_network(seed, "redraw", self.updates) for seed in self.settings.members]
        names = [name for name, _ in drawn[0].named_parameters()]
        return {name: torch.cat([network.get_parameter(name).detach() for network in drawn]) for name in names}

    def _draw_network(self, seed: int, *purpose: int | str) -> Network:
        """Return a network drawn from this seed: a single one, or a stack of one."""
        s = self.settings
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive(seed, *purpose))
            return make_network(s.network, 1, self.shape, self.classes, s.activation, s.width, s.init_lambda)


def _pixel_statistics(data: DataSet, device: str) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of the training images' channels, (channels, 1, 1), divided by 255."""
    counts = torch.stack([torch.bincount(c.flatten(), minlength=256) for c in data.train_images.unbind(1)]).double()
    shares, values = counts / counts.sum(1, keepdim=True), torch.arange(256, dtype=torch.float64) / 255
    mean = (shares * values).sum(1)
    deviation = (shares * (values - mean[:, None]).square()).sum(1).sqrt().clamp_min(1e-6)
    return mean.float().view(-1, 1, 1).to(device), deviation.float().view(-1, 1, 1).to(device)
