"""CLIP models: zero-shot classification as in transformers, files, and unknown names."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from supple.tracks.language.images.clip import Clip
from supple.tracks.language.images.loading import load_clip
from supple.tracks.language.images.structure import clip_layers, clip_units, clip_wiring
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

pytest.importorskip("transformers")

TEXTS = ["a photo of the seven.", "the inverted ankle boot", "x"]


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_logits_are_those_of_the_models_own_forward_pass(clip: Clip, images: torch.Tensor) -> None:
    pixels = clip.pixels(images)
    expected = clip.model(*clip.inputs(pixels, TEXTS)).logits_per_image
    torch.testing.assert_close(clip.logits(pixels, clip.text_features(TEXTS)), expected)


def test_a_batch_of_texts_changes_none_of_them(clip: Clip) -> None:
    alone = torch.cat([clip.text_features([text]) for text in TEXTS])
    torch.testing.assert_close(clip.text_features(TEXTS), alone)


def test_an_ensemble_of_prompts_is_the_mean_of_their_features(clip: Clip) -> None:
    templates, classes = ("a {}.", "the {}.", "{}"), ("cat", "dog")
    expected = torch.cat(
        [
            nn.functional.normalize(sum(clip.text_features([t.format(name)]) for t in templates), dim=-1)  # type: ignore[arg-type]
            for name in classes
        ]
    )
    torch.testing.assert_close(clip.class_features(classes, templates), expected)


def test_images_are_classified_by_the_nearest_class_in_evaluation_mode(clip: Clip, images: torch.Tensor) -> None:
    features = clip.text_features(TEXTS)
    clip.model.train()
    expected = clip.logits(clip.pixels(images), features).argmax(1)
    assert torch.equal(clip.nearest(images, features), expected)
    assert clip.model.training


@pytest.mark.parametrize("shape", [(3, 28, 28), (3, 40, 33), (3, 20, 24)])
def test_pixels_are_those_of_transformers_own_processor(clip: Clip, tmp_path: Path, shape: tuple[int, ...]) -> None:
    name = "transformers.models.clip.image_processing_pil_clip"
    theirs = pytest.importorskip(name, reason="transformers 5.0 has another processor")
    clip.save(tmp_path / "clip")
    processor = theirs.CLIPImageProcessorPil.from_pretrained(tmp_path / "clip", local_files_only=True)
    coarse = torch.rand(2, shape[0], 6, 6, generator=torch.Generator().manual_seed(0)) * 255
    images = nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear").to(torch.uint8)
    expected = processor(list(images.numpy()), return_tensors="pt", input_data_format="channels_first")["pixel_values"]
    pixels = clip.pixels(images)
    assert pixels.shape == expected.shape
    assert float((pixels - expected).abs().max()) < 3 / 127  # theirs are rounded to bytes on the way


def test_a_saved_model_is_loaded_again_bit_for_bit(clip: Clip, images: torch.Tensor, tmp_path: Path) -> None:
    clip.save(tmp_path / "clip")
    clip.save(tmp_path / "clip")
    again = load_clip(str(tmp_path / "clip"))
    assert (again.mean, again.std) == (clip.mean, clip.std)
    for ours, theirs in zip(
        clip.inputs(clip.pixels(images), TEXTS), again.inputs(again.pixels(images), TEXTS), strict=True
    ):
        assert torch.equal(ours, theirs)
    assert torch.equal(again.text_features(TEXTS), clip.text_features(TEXTS))
    assert not again.model.training
    assert [path.name for path in tmp_path.iterdir()] == ["clip"]
    assert not list((tmp_path / "clip").glob("*.bin"))


def test_a_folder_without_a_processor_is_standardised_as_openais(clip: Clip, tmp_path: Path) -> None:
    clip.save(tmp_path / "clip")
    (tmp_path / "clip/preprocessor_config.json").unlink()
    assert load_clip(str(tmp_path / "clip")).mean == (0.48145466, 0.4578275, 0.40821073)


def test_new_weights_come_from_the_seed_alone(clip: Clip) -> None:
    before = torch.get_rng_state()
    same, other = load_clip("clip:16x1"), load_clip("clip:16x1", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(clip.model.parameters(), same.model.parameters(), strict=True))
    assert not torch.equal(clip.model.visual_projection.weight, other.model.visual_projection.weight)


def test_a_text_that_is_too_long_keeps_its_end_mark(clip: Clip) -> None:
    ids, mask = clip.tokens(["word " * 50])
    assert ids.shape == mask.shape == (1, 64)
    assert ids[0, -1] == clip.tokenizer.eos_token_id


def test_layers_units_and_wiring_are_those_of_both_encoders(clip: Clip) -> None:
    layers = clip_layers(clip.model)
    kinds = (nn.Linear, nn.Conv2d)
    weights = {name for name, module in clip.model.named_modules() if isinstance(module, kinds)}
    assert {layer.name for layer in layers} == weights
    assert [layer.name for layer in layers if layer.role == "encoder"] == ["vision_model.embeddings.patch_embedding"]
    assert [layer.name for layer in layers if layer.role == "head"] == ["visual_projection", "text_projection"]
    depths = {layer.name: layer.depth for layer in layers}
    block = "text_model.encoder.layers.0"
    assert [depths[f"{block}.{end}"] for end in ("self_attn.q_proj", "self_attn.v_proj", "self_attn.out_proj")] == [
        0,
        0,
        1,
    ]
    assert list(clip_units(clip.model)) == list(clip_wiring(clip.model))
    assert len(clip_units(clip.model)) == 2


@pytest.mark.parametrize("name", ["clip:", "clip:big", "clip:0x1", "clip:40x2", "./nowhere", "nowhere", "/no/such"])
def test_an_unknown_clip_name_is_refused_in_one_line(name: str) -> None:
    assert name in refusal(load_clip, name)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "no config.json"),
        ({"model_type": "llama"}, "of type 'llama'"),
        ({"model_type": "clip"}, "not a CLIP that can be read"),
    ],
)
def test_a_folder_without_a_clip_is_refused(tmp_path: Path, config: Any, says: str) -> None:
    if config:
        (tmp_path / "config.json").write_text(json.dumps(config))
    assert says in refusal(load_clip, str(tmp_path))
