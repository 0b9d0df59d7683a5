"""CLIP (Radford et al. 2021): images and texts in one space, where an image is classified by the nearest class prompt.

    logits = exp(s) · norm(image features) · norm(text features)ᵀ          (images, texts)

The model is `transformers`' CLIPModel always, with downloaded weights from a folder or small and new; what is done to
images before is done here, on whole batches of tensors.
"""

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ....experiments.errors import RunError, UsageError
from ....experiments.seeding import derive
from ....interventions import Layer, Wiring
from ....interventions.learner import Role
from ....metrics.view import evaluating

NEW = "clip:"  # begins the name of a model with new weights
SMALL = "64x3"
PREPROCESSOR = "preprocessor_config.json"
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # OpenAI's CLIP
SIDE, PATCH, POSITIONS = 28, 7, 64  # of a small model: pixels, pixels, tokens of a text
HEAD_WIDTH = 32
PARTS = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "out", "fc1": "mlp", "fc2": "mlp"}
FEATURES = "vision_model.post_layernorm"  # what the image encoder's projection reads
IMAGES = 512  # that pass through the model together where nothing is learned


@dataclass(frozen=True, eq=False)
class Clip:
    """A CLIPModel, its tokenizer, and what pixels are standardised by. source: where it is from, in words."""

    model: Any
    tokenizer: Any
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    source: str

    @property
    def device(self) -> torch.device:
        return self.model.logit_scale.device

    def pixels(self, images: Tensor) -> Tensor:
        """uint8 images (N, 1 or 3, h, w) as the model takes them, (N, 3, side, side) float.

        Grey ones count as RGB. Others than the model's size are resized as in CLIP: bicubic with antialiasing, the
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
        mean, std = (torch.tensor(each, device=x.device).view(3, 1, 1) for each in (self.mean, self.std))
        return (x.expand(-1, 3, -1, -1) - mean) / std

    def tokens(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(ids, mask) of texts, both (N, longest) int64; a text longer than the model's positions loses its end."""
        longest = self.model.config.text_config.max_position_embeddings
        encoded = self.tokenizer(list(texts), padding=True, truncation=True, max_length=longest, return_tensors="pt")
        return encoded["input_ids"].to(self.device), encoded["attention_mask"].to(self.device)

    def inputs(self, pixels: Tensor, texts: Sequence[str]) -> tuple[Tensor, Tensor, Tensor]:
        """The positional arguments of a forward pass of the model: token ids, pixels, mask."""
        ids, mask = self.tokens(texts)
        return ids, pixels, mask

    def image_features(self, pixels: Tensor) -> Tensor:
        """Of images as `pixels` gives them: (N, dimension), of length 1."""
        return F.normalize(self.model.get_image_features(pixel_values=pixels).pooler_output, dim=-1)

    def text_features(self, texts: Sequence[str]) -> Tensor:
        """Of texts: (N, dimension), of length 1."""
        ids, mask = self.tokens(texts)
        return F.normalize(self.model.get_text_features(input_ids=ids, attention_mask=mask).pooler_output, dim=-1)

    def class_features(self, classes: Sequence[str], templates: Sequence[str]) -> Tensor:
        """Of class names in one prompt or several, whose features are averaged: (classes, dimension), of length 1.

        templates: each with {} for the name (prompt ensembles: Radford et al. 2021, 3.1.4)."""
        prompts = [template.format(name) for template in templates for name in classes]
        features = self.text_features(prompts)
        if len(templates) == 1:
            return features
        return F.normalize(features.unflatten(0, (len(templates), len(classes))).mean(0), dim=-1)

    def logits(self, pixels: Tensor, text_features: Tensor) -> Tensor:
        """(images, texts)."""
        return self.model.logit_scale.exp() * self.image_features(pixels) @ text_features.T

    @torch.no_grad()
    def nearest(self, images: Tensor, class_features: Tensor) -> Tensor:
        """The class nearest to each uint8 image, (N,) int64 on the CPU; in evaluation mode."""
        with evaluating(self.model):
            parts = [self.image_features(self.pixels(part)) @ class_features.T for part in images.split(IMAGES)]
        return torch.cat(parts).argmax(1).cpu()

    def save(self, folder: Path) -> None:
        """Write it in transformers' layout, all or nothing. Raises UsageError where there is something already."""
        if folder.exists():
            raise UsageError(f"{folder} is there already: choose another place to save the model in")
        partial = folder.with_name(f"{folder.name}.partial")
        try:
            self.model.save_pretrained(partial)
            self.tokenizer.save_pretrained(partial)
            side = self.model.config.vision_config.image_size
            processor = {
                "image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": side},
                "crop_size": {"height": side, "width": side}, "resample": 3, "do_convert_rgb": True,
                "image_mean": list(self.mean), "image_std": list(self.std),
            }  # fmt: skip
            (partial / PREPROCESSOR).write_text(json.dumps(processor, indent=2) + "\n")
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def load_clip(name: str, device: str = "cpu", seed: int = 0) -> Clip:
    """A CLIP by name: a folder in transformers' layout, `clip:small`, or a model on the hub.

    clip:small, clip:WIDTHxLAYERS: new weights, drawn from the seed (see `new_clip`).
    Only for a name that is no folder here is the hub asked. Raises UsageError for a folder that holds no CLIP,
    RunError where transformers is missing or the hub does not answer.
    """
    if name.startswith(NEW):
        return new_clip(name, device, seed)
    transformers = _transformers()
    folder = Path(name).expanduser()
    local = folder.is_dir()
    if not local and (name.startswith(("/", ".", "~")) or folder.exists()):
        raise UsageError(f"--model {name}: no such folder: it takes a folder in transformers' layout, or {NEW}small")
    where = str(folder) if local else name
    try:
        config = transformers.AutoConfig.from_pretrained(where, local_files_only=local)
        if config.model_type != "clip":
            raise UsageError(f"--model {name} is of type {config.model_type!r}, images need a CLIP ('clip')")
        model = transformers.CLIPModel.from_pretrained(where, local_files_only=local)
        tokenizer = transformers.AutoTokenizer.from_pretrained(where, local_files_only=local)
        mean, std = _statistics(transformers, where, local)
    except (OSError, KeyError) as error:
        line = str(error).strip().splitlines()[0]
        if local:
            raise UsageError(f"--model {name}: no CLIP in transformers' layout there ({line})") from error
        raise RunError(
            f"--model {name}: no folder of that name, and the hub did not give it ({line}); where there is no network, "
            f"give the path of a folder with the model's files"
        ) from error
    return Clip(model.float().to(device), tokenizer, mean, std, f"CLIP {name}")


def new_clip(name: str, device: str = "cpu", seed: int = 0) -> Clip:
    """A small CLIP with new weights: `clip:small` is `clip:64x3`, both encoders 3 layers of width 64, 356,033 numbers.

    Images of 28 × 28 in patches of 7 × 7; heads of width 32; CLIP's own kind of tokenizer over bytes, with no merges:
    a text is spelled. Weights as transformers draws them for its CLIPModel, from the seed.
    Raises UsageError for another name or sizes that do not fit.
    """
    text = name.removeprefix(NEW)
    sizes = re.fullmatch(r"(\d+)x(\d+)", SMALL if text == "small" else text)
    if sizes is None or min(map(int, sizes.groups())) < 1:
        raise UsageError(f"--model {name}: new models are {NEW}small or {NEW}WIDTHxLAYERS, such as {NEW}{SMALL}")
    width, layers = map(int, sizes.groups())
    if width > HEAD_WIDTH and width % HEAD_WIDTH:
        raise UsageError(f"--model {name}: a width above {HEAD_WIDTH} must be a multiple of it, the width of a head")
    transformers = _transformers()
    tokenizer = _byte_tokenizer(transformers)
    shared = {
        "hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers, "projection_dim": width,
        "num_attention_heads": max(1, width // HEAD_WIDTH),
    }  # fmt: skip
    config = transformers.CLIPConfig(
        text_config={
            **shared, "vocab_size": len(tokenizer), "max_position_embeddings": POSITIONS,
            "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={**shared, "image_size": SIDE, "patch_size": PATCH},
        projection_dim=width,
    )  # fmt: skip
    model = _drawn(config, derive(seed, "network"))
    return Clip(model.to(device), tokenizer, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), f"{name}, new weights of seed {seed}")


def clip_layers(model: nn.Module) -> tuple[Layer, ...]:
    """Its layers with weights: those of the image encoder, then those of the text encoder, each counted from its own
    input. The patches' convolution is the encoder, both projections are heads; parts: query, key, value, out, mlp."""
    layers: list[Layer] = []
    for tower, head in (("vision_model", "visual_projection"), ("text_model", "text_projection")):
        inner = model.get_submodule(tower).named_modules(prefix=tower)
        depth = -1
        for name, module in (*inner, (head, model.get_submodule(head))):
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                part = PARTS.get(name.rsplit(".", 1)[-1], "")
                beside = bool(layers) and {part, layers[-1].part} <= {"query", "key", "value"}
                depth += not beside
                role: Role = "head" if name == head else "hidden" if part else "encoder"
                layers.append(Layer(name, module, role, depth, part))
    return tuple(layers)


def clip_units(model: nn.Module) -> tuple[str, ...]:
    """Names of the activations in the MLPs of both encoders, images first."""
    names = [name for name, _ in model.named_modules() if name.endswith(".activation_fn")]
    return tuple(sorted(names, key=lambda name: not name.startswith("vision_model.")))


def clip_wiring(model: nn.Module) -> dict[str, Wiring]:
    """Each of `clip_units` lies between the two layers of its MLP."""
    mlps = {unit: unit.removesuffix(".activation_fn") for unit in clip_units(model)}
    return {unit: Wiring((f"{mlp}.fc1",), (f"{mlp}.fc2",)) for unit, mlp in mlps.items()}


def redrawn(model: nn.Module, generator: torch.Generator) -> dict[str, Tensor]:
    """New weights for a CLIPModel, as transformers draws them, by a seed from the generator."""
    seed = int(torch.randint(2**62, (), generator=generator))
    return {name: parameter.detach() for name, parameter in _drawn(model.config, seed).named_parameters()}


def _drawn(config: Any, seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return _transformers().CLIPModel(config)


def _byte_tokenizer(transformers: Any) -> Any:
    """CLIP's tokenizer with bytes for its vocabulary, each inside a word and at its end, and nothing merged."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = sorted(ByteLevel.alphabet())
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    return transformers.CLIPTokenizer(vocab={word: number for number, word in enumerate(words)}, merges=[])


Triple = tuple[float, float, float]


def _statistics(transformers: Any, where: str, local: bool) -> tuple[Triple, Triple]:
    """Mean and deviation of pixels, from preprocessor_config.json; OpenAI's where there is none."""
    try:
        read = transformers.ImageProcessingMixin.get_image_processor_dict
        values, _ = read(where, local_files_only=local)
    except OSError:
        return MEAN, STD
    mean, std = (
        tuple(map(float, values.get(key, default))) for key, default in (("image_mean", MEAN), ("image_std", STD))
    )
    return (mean[0], mean[1], mean[2]), (std[0], std[1], std[2])


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise RunError("image–text models need transformers: pip install 'supple[language]'") from error
    return transformers
