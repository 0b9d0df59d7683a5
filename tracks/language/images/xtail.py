"""Continual learning of image domains with a CLIP, as in X-TAIL (Xu et al. 2024) and MTIL (Zheng et al. 2023).

Each task is a domain, of which a few images a class are learned: 16 for X-TAIL, 5 for MTIL (MoRAM, A.1). A test
image is classified by the nearest class prompt. In X-TAIL nobody says which domain it is from: the classes of all
domains, learned or not, compete. In MTIL those of its own domain do.

In training the softmax is over the class prompts of the task's own domain, in both: later domains are not known yet,
and earlier ones have no images any more. (The paper is silent; Zheng et al.'s released code does so.)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ....experiments.errors import UsageError
from ....experiments.seeding import generator
from ....experiments.settings import device_here
from ....networks import evaluating
from ..continual.settings import ContinualSettings
from ..continual.stream import TaskStream
from .captions import TEMPLATES
from .clip import Clip, load_clip
from .domains import Domain, class_names, read_domain
from .structure import FEATURES, clip_layers, clip_units

Protocol = Literal["x-tail", "mtil"]
SHOTS: dict[Protocol, int] = {"x-tail": 16, "mtil": 5}
# A sequence of what can be fetched. Of the first three a CLIP pretrained by default settings has seen no class; the
# last two it knows, so that it can be seen to keep or to lose them before their turn (Transfer).
DOMAINS = (
    "mnist:high+rotated",
    "fashion-mnist:tops+inverted",
    "mnist+coarse",
    "fashion-mnist+rotated",
    "mnist+inverted",
)


def image_stream(settings: ContinualSettings) -> "ImageStream":
    """Return the model and the domains of these settings. Raises UsageError for what cannot work."""
    s = settings
    data = None if s.data is None else Path(s.data).expanduser()
    clip = load_clip(s.model, device_here(s.device), s.seed)
    domains = [read_domain(text, data) for text in s.ordered(s.tasks or DOMAINS)]
    prompts = s.prompts or TEMPLATES[:1]
    return ImageStream(clip, domains, s.seed, s.batch_size, s.protocol, s.shots, prompts, s.test_examples)


class ImageStream(TaskStream):
    """Domains that a CLIP learns one after the other. See the top of this file for the protocols.

    Two domains with a class of the same name share its prompt, and either's images may be called by it.
    """

    def __init__(
        self,
        clip: Clip,
        domains: Sequence[Domain],
        seed: int,
        batch_size: int = 64,
        protocol: Protocol = "x-tail",
        shots: int | None = None,
        prompts: Sequence[str] = TEMPLATES[:1],
        test_images: int | None = None,
    ) -> None:
        """shots: training images of a class, by default as many as the protocol has. prompts: each with {} for the
        class; the features of several are averaged when testing, the first is trained with. test_images: of each
        domain, None for all. Raises UsageError for a class with fewer images than shots, and for unfit prompts."""
        if protocol not in SHOTS:
            raise UsageError(f"unknown protocol {protocol!r} (known: {', '.join(SHOTS)})")
        if not prompts or not all("{}" in prompt for prompt in prompts):
            raise UsageError(f"prompts must be texts with {{}} for the name of the class, got {list(prompts)}")
        if not domains:
            raise UsageError("there is no domain to learn: name some, such as mnist fashion-mnist:shoes+inverted")
        self.clip, self.domains, self.seed, self.batch_size = clip, list(domains), seed, batch_size
        self.protocol, self.prompts, self.test_images = protocol, tuple(prompts), test_images
        self.shots = SHOTS[protocol] if shots is None else shots
        self.model = clip.model
        self.names = tuple(domain.name for domain in domains)
        self.scores = ("accuracy",) * len(domains)
        self.layers, self.units, self.features = clip_layers(clip.model), clip_units(clip.model), FEATURES
        self.sources = {"model": clip.source, **{domain.name: domain.source for domain in domains}}
        self.classes = class_names(domains)
        self._rows = [self._few(domain) for domain in domains]

    def updates_per_epoch(self, task: int) -> int:
        return -(-len(self._rows[task]) // self.batch_size)

    def loss(self, task: int, update: int) -> Tensor:
        return self.losses(task, update).mean()

    def losses(self, task: int, update: int) -> Tensor:
        """Return cross-entropy over the prompts of the domain's own classes."""
        images, labels = self.batch(task, update)
        features = self.clip.class_features(self.domains[task].classes, self.prompts[:1])
        logits = self.clip.logits(self.clip.pixels(images), features)
        return F.cross_entropy(logits, labels.to(logits.device), reduction="none")

    def inputs(self, task: int, update: int) -> tuple[Tensor, Tensor, Tensor]:
        images, _ = self.batch(task, update)
        return self.clip.inputs(self.clip.pixels(images), self._texts(task))

    def passes(self, task: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield batches of images, each with all the prompts that training has. They differ in length, and what fills
        them up passes too."""
        images = self.domains[task].train_images
        for rows in self._rows[task].split(self.batch_size):
            yield self.clip.inputs(self.clip.pixels(images[rows]), self._texts(task))

    def _texts(self, task: int) -> list[str]:
        return [self.prompts[0].replace("{}", name) for name in self.domains[task].classes]

    @torch.no_grad()
    def score(self, task: int, examples: int | None = None) -> float:
        """Return the share of the domain's test images that are classified rightly, under the protocol.

        The prompts of all competing classes are encoded anew each time, once for all images: adapters may have changed
        the text encoder as well, and a fused optimizer leaves no trace by which to know."""
        domain = self.domains[task]
        images, labels = domain.tested(self.test_images if examples is None else examples)
        classes = self.classes if self.protocol == "x-tail" else domain.classes
        places = torch.tensor([classes.index(name) for name in domain.classes])
        with evaluating(self.model):
            features = self.clip.class_features(classes, self.prompts)
        return float((self.clip.nearest(images, features) == places[labels]).double().mean())

    def save(self, folder: Path) -> None:
        self.clip.save(folder)

    def batch(self, task: int, update: int) -> tuple[Tensor, Tensor]:
        """Return images uint8 and labels of an update, all different; the same for the same seed, task and update."""
        domain, rows = self.domains[task], self._rows[task]
        order = torch.randperm(len(rows), generator=generator(self.seed, "images", task, update))
        rows = rows[order[: self.batch_size]]
        return domain.train_images[rows], domain.train_labels[rows]

    def _few(self, domain: Domain) -> Tensor:
        """Rows of the training images that are learned: as many of each class, drawn by the seed."""
        chosen = []
        for label, name in enumerate(domain.classes):
            rows = (domain.train_labels == label).nonzero().squeeze(1)
            if len(rows) < self.shots:
                raise UsageError(
                    f"domain {domain.name!r}: class {name!r} has {len(rows)} training images, for {self.shots} shots"
                )
            draw = generator(self.seed, "shots", domain.name, label)
            chosen.append(rows[torch.randperm(len(rows), generator=draw)[: self.shots]])
        return torch.cat(chosen)
