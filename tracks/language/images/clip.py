"""CLIP (Radford et al. 2021): images and texts in one space. An image is classified by the nearest class prompt.

    logits = exp(s) · norm(image features) · norm(text features)ᵀ          (images, texts)

The model is always `transformers`' CLIPModel, with downloaded weights from a folder, or small and new. Images are
preprocessed here, as whole batches of tensors.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from supple.engine.storage import files
from supple.networks import evaluating
from supple.tracks.language.models import silence_transformers

PREPROCESSOR = "preprocessor_config.json"
IMAGES = 512  # that pass through the model together where nothing is learned


@dataclass(frozen=True, eq=False)
class Clip:
    """A CLIPModel, its tokenizer, and the mean and deviation of its pixels. source: a description of its origin."""

    model: Any
    tokenizer: Any
    mean: tuple[float, ...]
    std: tuple[float, ...]
    source: str

    @property
    def device(self) -> torch.device:
        return self.model.logit_scale.device

    def pixels(self, images: Tensor) -> Tensor:
        """Return uint8 images (N, 1 or 3, h, w) as inputs of the model, (N, 3, side, side) float.

        Grey images are repeated to RGB. Images of another size are resized as in CLIP: bicubic with antialiasing, the
        shorter edge to the side, then the square in the middle.
        """
        side = self.model.config.vision_config.image_size
        x = images.to(self.device).float() / 255
        if x.shape[2:] != (side, side):
            height, width = x.shape[2:]
            short = min(height, width)
            size = (int(height * side / short), int(width * side / short))
            x = F.interpolate(x, size=size, mode="bicubic", antialias=True, align_corners=False).clamp_(0, 1)
            top, left = (size[0] - side) // 2, (size[1] - side) // 2
            x = x[..., top : top + side, left : left + side]
        mean, std = (torch.tensor(statistic, device=x.device).view(3, 1, 1) for statistic in (self.mean, self.std))
        return (x.expand(-1, 3, -1, -1) - mean) / std

    def tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Return (ids, mask) of texts, both (N, longest) int64. Texts are truncated to the model's positions."""
        longest = self.model.config.text_config.max_position_embeddings
        encoded = self.tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt")
        return encoded["input_ids"].to(self.device), encoded["attention_mask"].to(self.device)

    def inputs(self, pixels: Tensor, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the positional arguments of a forward pass of the model: token ids, pixels, mask."""
        ids, mask = self.tokens(texts)
        return ids, pixels, mask

    def image_features(self, pixels: Tensor) -> Tensor:
        """Return the features of images from `pixels`, (N, dimension), with norm 1."""
        return F.normalize(self.model.get_image_features(pixel_values=pixels).pooler_output, dim=-1)

    def text_features(self, texts: Sequence[str]) -> Tensor:
        """Return the features of texts, (N, dimension), with norm 1."""
        ids, mask = self.tokens(texts)
        return F.normalize(self.model.get_text_features(input_ids=ids, attention_mask=mask).pooler_output, dim=-1)

    def class_features(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """Return the features of class names, (classes, dimension), with norm 1. Those of several prompts are averaged.

        templates: Texts with {} for the name (prompt ensembles: Radford et al. 2021, 3.1.4)."""
        prompts = [template.replace("{}", name) for template in templates for name in classes]
        features = self.text_features(prompts)
        if len(templates) == 1:
            return features
        return F.normalize(features.unflatten(0, (len(templates), len(classes))).mean(0), dim=-1)

    def logits(self, pixels: Tensor, text_features: Tensor) -> Tensor:
        """Return (images, texts), float32."""
        return self.model.logit_scale.exp() * (self.image_features(pixels) @ text_features.T).float()

    @torch.no_grad()
    def nearest(self, images: Tensor, class_features: Tensor) -> Tensor:
        """Return the class that is nearest to each uint8 image, (N,) int64 on the CPU, in evaluation mode."""
        with evaluating(self.model):
            parts = [self.image_features(self.pixels(part)) @ class_features.T for part in images.split(IMAGES)]
        return torch.cat(parts).argmax(1).cpu()

    def save(self, folder: Path) -> None:
        """Write the model in transformers' layout, with its processor.

        The folder appears completely or not at all. An existing one is replaced."""
        side = self.model.config.vision_config.image_size
        processor = {
            "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": side},
            "crop_size": {"height": side, "width": side}, "resample": 3, "do_convert_rgb": True,
            "image_mean": list(self.mean), "image_std": list(self.std),
        }  # fmt: skip
        with files.atomic_folder(folder) as temporary, silence_transformers():
            self.model.save_pretrained(temporary)
            self.tokenizer.save_pretrained(temporary)
            (temporary / PREPROCESSOR).write_bytes(f"{json.dumps(processor, indent=2)}\n".encode())
