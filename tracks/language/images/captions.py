"""Images with captions made from the names of their classes, and the loss with which a CLIP learns from them.

    ½·[ −log softmax over captions + −log softmax over images ], of each image and its caption     (Radford et al. 2021)

All captions of a batch use the same template, so the images of a class share a caption, which is encoded once and
counted for each of them. If images share a caption, each of them is a correct match for it: the targets of the softmax
over images are uniform over them (Yang et al. 2022, UniCL). If all captions differ, this is CLIP's own loss.
"""

import torch
from torch import Tensor

TEMPLATES = ("a photo of the {}.", "a picture of the {}.", "the {}.", "{}")


def contrastive_losses(logits: Tensor, caption_of: Tensor) -> Tensor:
    """Return the symmetric cross-entropy of each image, (N,).

    logits: (N, captions), one column for each different caption. caption_of: (N,), the index of each image's caption.
    Each caption has an image.
    """
    right = logits.gather(1, caption_of[:, None]).squeeze(1)
    counts = torch.bincount(caption_of, minlength=logits.shape[1])
    over_captions = (logits + counts.log()).logsumexp(1) - right
    over_images = logits.logsumexp(0)[caption_of] - right
    return (over_captions + over_images) / 2
