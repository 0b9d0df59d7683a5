"""Continual learning of image domains with a CLIP, as in X-TAIL (Xu et al. 2024) and MTIL (Zheng et al. 2023).

Each task is a domain, of which a few images per class are learned: 16 for X-TAIL, 5 for MTIL (MoRAM, A.1). A test image
is classified by the nearest class prompt. In X-TAIL its domain is unknown: the classes of all domains, learned or not,
are candidates. In MTIL only those of its own domain are.

In training, the softmax is over the class prompts of the task's own domain, for both protocols: later domains are not
known yet, and earlier ones have no images any more. (The paper does not say. The released code of Zheng et al. does
so.)
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.engine.seeding import generator
from supple.networks import evaluating
from supple.registry.errors import UsageError
from supple.tracks.language.continual.settings import ContinualSettings

from .captions import TEMPLATES
from .clip import Clip
from .domains import Domain, class_names, read_domain
from .loading import load_clip
from .structure import FEATURES, clip_layers, clip_units

SHOTS = {"x-tail": 16, "mtil": 5}
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
    """Return the model and the domains of these settings. Raises UsageError for settings that cannot work."""
    domains = [read_domain(text, settings.data) for text in settings.order_tasks(settings.tasks or DOMAINS)]
    return ImageStream(load_clip(settings.model, settings.device, settings.seed), domains, settings)


class ImageStream:
    """Domains that a CLIP learns in sequence, as `TextStream` has texts. The module describes the protocols.

    If two domains have a class of the same name, they share its prompt, and images of either are correct for it.
    """

    def __init__(self, clip: Clip, domains: Sequence[Domain], settings: ContinualSettings) -> None:
        """Choose the training images of each domain.

        Raises UsageError for a class with fewer images than shots, and for wrong prompts."""
        self.prompts = settings.prompts or TEMPLATES[:1]
        if not all("{}" in prompt for prompt in self.prompts):
            raise UsageError(f"prompts must be texts with {{}} for the name of the class, got {list(self.prompts)}")
        self.clip, self.domains, self.settings = clip, list(domains), settings
        self.shots = settings.shots or SHOTS[settings.protocol]
        self.model = clip.model
        self.names = tuple(domain.name for domain in domains)
        self.scores = ("accuracy",) * len(domains)
        self.layers, self.units, self.features = clip_layers(clip.model), clip_units(clip.model), FEATURES
        self.sources = {"model": clip.source, **{domain.name: domain.source for domain in domains}}
        self.classes = class_names(domains)
        self._rows = [self._choose_shots(domain) for domain in domains]

    def updates_per_epoch(self, task: int) -> int:
        return -(-len(self._rows[task]) // self.settings.batch_size)

    def loss(self, task: int, update: int) -> Tensor:
        return self.losses(task, update).mean()

    def losses(self, task: int, update: int) -> Tensor:
        """Return the cross-entropy over the prompts of the domain's own classes."""
        images, labels = self.batch(task, update)
        features = self.clip.class_features(self.domains[task].classes, self.prompts[:1])
        logits = self.clip.logits(self.clip.pixels(images), features)
        return F.cross_entropy(logits, labels.to(logits.device), reduction="none")

    def inputs(self, task: int, update: int) -> tuple[Tensor, Tensor, Tensor]:
        images, _ = self.batch(task, update)
        return self.clip.inputs(self.clip.pixels(images), self._texts(task))

    def passes(self, task: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield batches of images, each with all prompts of training.

        The prompts differ in length, and their padding is included."""
        images = self.domains[task].train_images
        for rows in self._rows[task].split(self.settings.batch_size):
            yield self.clip.inputs(self.clip.pixels(images[rows]), self._texts(task))

    def _texts(self, task: int) -> list[str]:
        return [self.prompts[0].replace("{}", name) for name in self.domains[task].classes]

    @torch.no_grad()
    def score(self, task: int, examples: int | None = None) -> float:
        """Return the share of the domain's test images that are classified correctly, under the protocol.

        The prompts of all candidate classes are encoded at every call, once for all images. Adapters may have changed
        the text encoder too, and a fused optimizer leaves no trace of its steps."""
        domain = self.domains[task]
        images, labels = domain.test_subset(self.settings.test_examples if examples is None else examples)
        classes = self.classes if self.settings.protocol == "x-tail" else domain.classes
        places = torch.tensor([classes.index(name) for name in domain.classes])
        with evaluating(self.model):
            features = self.clip.class_features(classes, self.prompts)
        return float((self.clip.nearest(images, features) == places[labels]).double().mean())

    def save(self, folder: Path) -> None:
        self.clip.save(folder)

    def batch(self, task: int, update: int) -> tuple[Tensor, Tensor]:
        """Return images uint8 and labels of an update, without repetition. Seed, task and update determine them."""
        domain, rows = self.domains[task], self._rows[task]
        order = torch.randperm(len(rows), generator=generator(self.settings.seed, "images", task, update))
        rows = rows[order[: self.settings.batch_size]]
        return domain.train_images[rows], domain.train_labels[rows]

    def _choose_shots(self, domain: Domain) -> Tensor:
        """Return the rows of the training images: the same number of each class, drawn from the seed."""
        chosen = []
        for label, name in enumerate(domain.classes):
            rows = (domain.train_labels == label).nonzero().squeeze(1)
            if len(rows) < self.shots:
                raise UsageError(
                    f"domain {domain.name!r}: class {name!r} has {len(rows)} training images, for {self.shots} shots"
                )
            draw = generator(self.settings.seed, "shots", domain.name, label)
            chosen.append(rows[torch.randperm(len(rows), generator=draw)[: self.shots]])
        return torch.cat(chosen)
