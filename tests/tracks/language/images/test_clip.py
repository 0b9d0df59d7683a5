"""CLIP models: zero-shot classification as in transformers, files, and unknown names."""

from pathlib import Path

import pytest
import torch
from torch import nn

from supple.tracks.language.images.clip import Clip
from supple.tracks.language.images.loading import load_clip
from supple.tracks.language.images.structure import clip_layers, clip_units, clip_wiring
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow

TEXTS = ["a photo of the seven.", "the inverted ankle boot", "x"]


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return torch.randint(0, 256, (5, 1, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_features_and_logits_are_those_of_the_models_own_forward_pass(clip: Clip, images: torch.Tensor) -> None:
    pixels, features = clip.pixels(images), clip.text_features(TEXTS)
    expected = clip.model(*clip.inputs(pixels, TEXTS)).logits_per_image
    torch.testing.assert_close(clip.logits(pixels, features), expected)
    alone = torch.cat([clip.text_features([text]) for text in TEXTS])  # without padding
    torch.testing.assert_close(features, alone)


def test_an_ensemble_of_prompts_is_the_mean_of_their_features(clip: Clip) -> None:
    templates, classes = ("a {}.", "the {}.", "{}"), ("cat", "dog")
    each = [clip.text_features([template.format(name) for name in classes]) for template in templates]
    expected = nn.functional.normalize(torch.stack(each).mean(0), dim=-1)
    torch.testing.assert_close(clip.class_features(classes, templates), expected)


def test_images_are_classified_by_the_nearest_class_in_evaluation_mode(clip: Clip, images: torch.Tensor) -> None:
    features = clip.text_features(TEXTS)
    clip.model.train()
    expected = clip.logits(clip.pixels(images), features).argmax(1)
    assert torch.equal(clip.nearest(images, features), expected)
    assert clip.model.training


@pytest.mark.parametrize("shape", [(3, 28, 28), (3, 40, 33), (3, 20, 24)])
def test_pixels_are_those_of_transformers_own_processor(clip: Clip, tmp_path: Path, shape: tuple[int, ...]) -> None:
    clip.save(tmp_path / "clip")
    name = "transformers.models.clip.image_processing_pil_clip"
    theirs = pytest.importorskip(name, reason="transformers 5.0 has another processor")
    processor = theirs.CLIPImageProcessorPil.from_pretrained(tmp_path / "clip", local_files_only=True)
    coarse = torch.rand(2, shape[0], 6, 6, generator=torch.Generator().manual_seed(0)) * 255
    images = nn.functional.interpolate(coarse, size=shape[1:], mode="bilinear").to(torch.uint8)
    expected = processor(list(images.numpy()), return_tensors="pt", input_data_format="channels_first")["pixel_values"]
    torch.testing.assert_close(clip.pixels(images), expected, rtol=0, atol=3 / 127)  # theirs are rounded to bytes


def test_a_saved_model_is_loaded_again_bit_for_bit(clip: Clip, images: torch.Tensor, tmp_path: Path) -> None:
    clip.save(tmp_path / "clip")
    clip.save(tmp_path / "clip")
    again = load_clip(str(tmp_path / "clip"))
    assert (again.mean, again.std) == (clip.mean, clip.std)
    ours, theirs = (each.inputs(each.pixels(images), TEXTS) for each in (clip, again))
    assert all(map(torch.equal, ours, theirs))
    assert torch.equal(again.text_features(TEXTS), clip.text_features(TEXTS))
    assert not again.model.training
    assert [path.name for path in tmp_path.iterdir()] == ["clip"]
    (tmp_path / "clip/preprocessor_config.json").unlink()  # then as OpenAI's
    assert load_clip(str(tmp_path / "clip")).mean == (0.48145466, 0.4578275, 0.40821073)


def test_new_weights_come_from_the_seed_alone(clip: Clip) -> None:
    before = torch.get_rng_state()
    same, other = load_clip("clip:16x1"), load_clip("clip:16x1", seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, clip.model.parameters(), same.model.parameters()))
    assert not torch.equal(clip.model.visual_projection.weight, other.model.visual_projection.weight)


def test_a_text_that_is_too_long_keeps_its_end_mark(clip: Clip) -> None:
    ids, mask = clip.tokens(["word " * 50])
    assert ids.shape == mask.shape == (1, 64)
    assert ids[0, -1] == clip.tokenizer.eos_token_id


def test_layers_units_and_wiring_are_those_of_both_encoders(clip: Clip) -> None:
    layers = {layer.name: layer for layer in clip_layers(clip.model)}
    assert {layer.module for layer in layers.values()} == {
        module for module in clip.model.modules() if isinstance(module, (nn.Linear, nn.Conv2d))
    }
    roles = {role: [name for name, layer in layers.items() if layer.role == role] for role in ("encoder", "head")}
    assert roles == {
        "encoder": ["vision_model.embeddings.patch_embedding"],
        "head": ["visual_projection", "text_projection"],
    }
    attention = "text_model.encoder.layers.0.self_attn"
    assert [layers[f"{attention}.{end}"].depth for end in ("q_proj", "v_proj", "out_proj")] == [0, 0, 1]
    assert len(clip_units(clip.model)) == 2
    assert list(clip_units(clip.model)) == list(clip_wiring(clip.model))


@pytest.mark.parametrize("name", ["clip:", "clip:0x1", "clip:40x2", "./nowhere", "nowhere"])
def test_an_unknown_clip_name_is_refused_in_one_line(name: str) -> None:
    assert name in refusal(load_clip, name)


def test_a_folder_without_a_clip_is_refused(tmp_path: Path) -> None:
    assert "no config.json" in refusal(load_clip, str(tmp_path))
    (tmp_path / "config.json").write_text('{"model_type": "clip"}')
    assert "not an image–text model that can be read" in refusal(load_clip, str(tmp_path))
