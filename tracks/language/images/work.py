"""The pretraining of a CLIP on captions: a `Work` with one task, whose model transformers can load."""

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from supple.engine.seeding import generator
from supple.engine.work import Task
from supple.interventions import EndlessData, Learner
from supple.networks import evaluating
from supple.networks.redraw import redraw_by
from supple.tracks.language.gpt import make_adamw
from supple.tracks.language.schedule import cosine_rate
from supple.tracks.supervised import SupervisedWork

from .captions import TEMPLATES, contrastive_losses
from .domains import class_names, read_domain
from .loading import load_clip
from .settings import ClipSettings
from .structure import FEATURES, clip_layers, clip_units, clip_wiring

LARGEST = math.log(100.0)  # of logit_scale, which keeps training stable (Radford et al. 2021, 2.5)
BETAS = (0.9, 0.98)  # AdamW's, as for CLIP's vision transformers (Table 18)


class ClipWork(SupervisedWork):
    """Contrastive learning from captions made from class names (captions.py), with a learned temperature.

    Raises UsageError for a model or a domain that does not exist.
    """

    settings: ClipSettings
    batch = ("batch_size",)
    best_by, more_is_better = "accuracy", True

    def __init__(self, settings: ClipSettings) -> None:
        s = settings
        super().__init__(s, [Task(0, 0, s.updates, "captions")])
        self.clip = load_clip(s.model, s.device, s.seed)
        self.domains = [read_domain(text, s.data) for text in dict.fromkeys(s.domains)]
        self.classes = class_names(self.domains)
        self.labels = [torch.tensor([self.classes.index(name) for name in domain.classes]) for domain in self.domains]
        self.sources = {"model": self.clip.source, **{domain.name: domain.source for domain in self.domains}}
        model, draws = self.clip.model, generator(s.seed, "interventions")
        self.learner = Learner(
            "model",
            model,
            make_adamw(model, s.learning_rate, s.weight_decay, BETAS),
            clip_layers(model),
            clip_units(model),
            probe=lambda: self.clip.inputs(*self.captioned(self.place[1])[:2]),
            loss=lambda: self._losses(self.place[1]).mean(),
            batches=self._batches,
            generator=draws,
            redraw=lambda: redraw_by(lambda: type(model)(model.config), draws),
            wiring=clip_wiring(model),
            features=FEATURES,
            capabilities=(EndlessData(),),
        )

    def loss(self, task: Task, update: int, part: int) -> Tensor:
        with torch.no_grad():
            self.clip.model.logit_scale.clamp_(max=LARGEST)
        return self._losses(update).mean()

    def rate(self, task: Task, update: int) -> float:
        return cosine_rate(update, task.steps, self.settings.warmup, 0, 0.0)

    @torch.no_grad()
    def examine(self, task: Task) -> dict[str, float]:
        """Return the zero-shot accuracy on held-out images: for each domain, and the mean over the domains.

        The classes of all domains are candidates."""
        with evaluating(self.clip.model):
            features = self.clip.class_features(self.classes, TEMPLATES[:1])
        numbers = {}
        for domain, numbers_of in zip(self.domains, self.labels, strict=True):
            images, labels = domain.test_subset(self.settings.test_images)
            hits = self.clip.nearest(images, features) == numbers_of[labels]
            numbers[f"accuracy/{domain.name}"] = float(hits.double().mean())
        return {"accuracy": sum(numbers.values()) / len(numbers), **numbers}

    def export(self, folder: Path) -> None:
        """Write the model in transformers' layout (see `Clip.save`)."""
        self.clip.save(folder)

    def captioned(self, update: int) -> tuple[Tensor, list[str], Tensor]:
        """Return the batch of an update: the same number of images from each domain, drawn with replacement.

        These are pixels (N, 3, side, side), the different captions, and the index of each image's caption, (N,) int64.
        """
        draw = generator(self.settings.seed, "captions", update)
        share, more = divmod(self.settings.batch_size, len(self.domains))
        pixels, labels = [], []
        for place, (domain, names) in enumerate(zip(self.domains, self.labels, strict=True)):
            rows = torch.randint(len(domain.train_labels), (share + (place < more),), generator=draw)
            pixels.append(self.clip.pixels(domain.train_images[rows]))
            labels.append(names[domain.train_labels[rows]])
        template = TEMPLATES[int(torch.randint(len(TEMPLATES), (), generator=draw))]
        present, caption_of = torch.cat(labels).unique(return_inverse=True)
        captions = [template.format(self.classes[label]) for label in present.tolist()]
        return torch.cat(pixels), captions, caption_of.to(self.clip.device)

    def _losses(self, update: int) -> Tensor:
        """Return the contrastive loss of each image of a batch, (N,). Its mean is the loss of the batch."""
        with self.settings.autocast():
            pixels, captions, caption_of = self.captioned(update)
            return contrastive_losses(self.clip.logits(pixels, self.clip.text_features(captions)), caption_of)

    def _batches(self, count: int | None) -> Iterator[Tensor]:
        assert count is not None, "EndlessData says that there is no epoch"
        for update in range(self.place[1], self.place[1] + count):
            yield self._losses(update)
