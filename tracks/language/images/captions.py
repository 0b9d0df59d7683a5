"""Images with captions made from the names of their classes, and the loss with which a CLIP learns from them.

    ½·[ −log softmax over captions + −log softmax over images ], of each image and its caption     (Radford et al. 2021)

All captions of a batch use the same template, so the images of a class share a caption, which is encoded once and
counted for each of them. If images share a caption, each of them is a correct match for it: the targets of the softmax
over images are uniform over them (Yang et al. 2022, UniCL). If all captions differ, this is CLIP's own loss.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from supple.engine.seeding import generator

from .clip import Clip
from .domains import Domain, class_names

TEMPLATES = ("a photo of the {}.", "a picture of the {}.", "the {}.", "{}")


class CaptionBatch(NamedTuple):
    """Pixels (N, 3, side, side), the different captions, and the index of each image's caption, (N,) int64."""

    pixels: Tensor
    captions: list[str]
    caption_of: Tensor


class Captions:
    """Batches of captioned images from several domains, with an equal share from each.

    Args:
        clip: The model, which prepares the images and encodes the captions.
        domains: The domains.
        batch_size: Images of a batch, at least one of each domain.
        seed: The run's seed, from which all draws are derived.
    """

    def __init__(self, clip: Clip, domains: Sequence[Domain], batch_size: int, seed: int) -> None:
        self.clip, self.domains, self.seed = clip, domains, seed
        self.classes = class_names(domains)
        self.labels = [torch.tensor([self.classes.index(name) for name in domain.classes]) for domain in domains]
        share, more = divmod(batch_size, len(domains))
        self._sizes = [share + (place < more) for place in range(len(domains))]

    def batch(self, update: int) -> CaptionBatch:
        """Return the batch of an update: the same number of images from each domain, drawn with replacement."""
        draw = generator(self.seed, "captions", update)
        pixels, labels = [], []
        for domain, names, size in zip(self.domains, self.labels, self._sizes, strict=True):
            rows = torch.randint(len(domain.train_labels), (size,), generator=draw)
            pixels.append(self.clip.pixels(domain.train_images[rows]))
            labels.append(names[domain.train_labels[rows]])
        template = TEMPLATES[int(torch.randint(len(TEMPLATES), (), generator=draw))]
        present, caption_of = torch.cat(labels).unique(return_inverse=True)
        captions = [template.format(self.classes[label]) for label in present.tolist()]
        return CaptionBatch(torch.cat(pixels), captions, caption_of.to(self.clip.device))

    def losses(self, batch: CaptionBatch) -> Tensor:
        """Return the contrastive loss of each image of a batch, (N,). Its mean is the loss of the batch."""
        logits = self.clip.logits(batch.pixels, self.clip.text_features(batch.captions))
        return contrastive_losses(logits, batch.caption_of)


def contrastive_losses(logits: Tensor, caption_of: Tensor) -> Tensor:
    """Return the symmetric cross-entropy of each image, (N,).

    logits: (N, captions), one column for each different caption. own: (N,), the index of each image's caption. Each
    caption has an image.
    """
    right = logits.gather(1, caption_of[:, None]).squeeze(1)
    counts = torch.bincount(caption_of, minlength=logits.shape[1])
    over_captions = (logits + counts.log()).logsumexp(1) - right
    over_images = logits.logsumexp(0)[caption_of] - right
    return (over_captions + over_images) / 2
