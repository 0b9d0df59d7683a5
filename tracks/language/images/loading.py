"""A CLIP by its name: from a folder, from the hub, or small and new."""

import torch

from supple.registry.errors import UsageError
from supple.tracks.language.models import read_named, require, silence_transformers

from .clip import Clip
from .small import NEW, new_clip

MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # OpenAI's CLIP
FORMS = f"a folder in transformers' layout, {NEW}small, {NEW}WIDTHxLAYERS, or OWNER/NAME on the hub"


def load_clip(name: str, device: str = "cpu", seed: int = 0) -> Clip:
    """Return a CLIP by its name, in evaluation mode, with float32 weights.

    name: A folder in transformers' layout. Or `clip:small` or `clip:WIDTHxLAYERS`, with new weights drawn from `seed`
    (see small.py). Or OWNER/NAME on the Hugging Face hub, the only one that may need the network.

    Raises:
        UsageError: The name is none of these, or the model is of another kind.
        RunError: The model cannot be loaded.
    """
    require("transformers", "an image–text model")
    clip = new_clip(name, seed) if name.startswith(NEW) else read_named(name, _pretrained, "an image–text model", FORMS)
    clip.model.float().to(device).eval()
    return clip


def _pretrained(name: str, local_files_only: bool) -> Clip:
    from transformers import AutoConfig, AutoTokenizer, CLIPModel, ImageProcessingMixin

    with silence_transformers():
        config = AutoConfig.from_pretrained(name, local_files_only=local_files_only)
        if config.model_type != "clip":
            raise UsageError(f"{name} is of type {config.model_type!r}; tasks of images need a CLIPModel ('clip')")
        model = CLIPModel.from_pretrained(name, dtype=torch.float32, local_files_only=local_files_only)
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=local_files_only)
        try:
            values, _ = ImageProcessingMixin.get_image_processor_dict(name, local_files_only=local_files_only)
        except OSError:  # weights alone, of a model that is like OpenAI's
            values = {}
    mean, std = (tuple(map(float, values.get(f"image_{key}", known))) for key, known in (("mean", MEAN), ("std", STD)))
    return Clip(model, tokenizer, mean, std, name)
