"""Image domains in sequence: shots, protocols, prompts, and adapters in both encoders."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.tracks.language.continual.settings import ContinualSettings
from supple.tracks.language.images.clip import Clip
from supple.tracks.language.images.domains import Domain, read_domain
from supple.tracks.language.images.xtail import ImageStream, image_stream
from tests.tracks.logs import read_log, refusal

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def domains(data: Path) -> list[Domain]:
    return [read_domain(text, data) for text in ("mnist:low", "mnist:high", "mnist:low+inverted")]


@pytest.fixture
def varied(clip: Clip) -> Clip:
    """A model whose image features differ from image to image, which those of an untrained encoder hardly do."""
    projection = torch.randn(3 * 28 * 28, 16, generator=torch.Generator().manual_seed(0))

    def image_features(pixels: torch.Tensor) -> torch.Tensor:
        return F.normalize((pixels.flatten(1) + 0.7) @ projection, dim=-1)

    object.__setattr__(clip, "image_features", image_features)
    return clip


def stream_of(clip: Clip, domains: list[Domain], **settings: Any) -> ImageStream:
    return ImageStream(clip, domains, ContinualSettings(model="m", **settings))


def different(images: torch.Tensor) -> set[bytes]:
    return {image.numpy().tobytes() for image in images}


def test_every_class_has_as_many_shots_and_a_seed_gives_the_same(clip: Clip, domains: list[Domain]) -> None:
    first, same, other = (stream_of(clip, domains, seed=seed, batch_size=1000, shots=4) for seed in (0, 0, 1))
    for task, domain in enumerate(domains):
        images, labels = first.batch(task, 0)
        assert torch.bincount(labels).tolist() == [4] * 5
        assert torch.equal(images, same.batch(task, 0)[0])
        shown = different(images)
        assert len(shown) == 20
        assert different(first.batch(task, 7)[0]) == shown != different(other.batch(task, 0)[0])
        assert shown <= different(domain.train_images)
        passed = torch.cat([pixels for _, pixels, _ in stream_of(clip, domains, batch_size=8, shots=4).passes(task)])
        assert len(passed) == 20
        assert different(passed) == different(clip.pixels(images))
    small = stream_of(clip, domains, batch_size=8)
    assert not torch.equal(small.batch(0, 0)[0], small.batch(0, 1)[0])


def test_shots_are_those_of_the_protocol(clip: Clip, domains: list[Domain]) -> None:
    assert stream_of(clip, domains).updates_per_epoch(0) == 2  # 16 × 5 images
    assert stream_of(clip, domains, protocol="mtil").updates_per_epoch(0) == 1  # 5 × 5


def test_the_loss_is_over_the_prompts_of_the_tasks_own_classes(clip: Clip, domains: list[Domain]) -> None:
    stream = stream_of(clip, domains, batch_size=8)
    images, labels = stream.batch(2, 3)
    texts = [f"a photo of the {name}." for name in domains[2].classes]
    logits = clip.model(*clip.inputs(clip.pixels(images), texts)).logits_per_image
    torch.testing.assert_close(stream.loss(2, 3), F.cross_entropy(logits, labels))
    torch.testing.assert_close(stream.losses(2, 3).mean(), stream.loss(2, 3))
    torch.testing.assert_close(clip.model(*stream.inputs(2, 3)).logits_per_image, logits)


@pytest.mark.parametrize("protocol", ["x-tail", "mtil"])
def test_scores_are_the_share_of_nearest_prompts_that_are_right(
    varied: Clip, domains: list[Domain], protocol: Any
) -> None:
    stream = stream_of(varied, domains, protocol=protocol)
    scores = [stream.score(task) for task in range(len(domains))]
    for task, domain in enumerate(domains):
        names = [name for candidate in (domains if protocol == "x-tail" else [domain]) for name in candidate.classes]
        texts = varied.text_features([f"a photo of the {name}." for name in names])
        nearest = (varied.image_features(varied.pixels(domain.test_images)) @ texts.T).argmax(1)
        right = [names[i] == domain.classes[k] for i, k in zip(nearest, domain.test_labels, strict=True)]
        assert scores[task] == pytest.approx(sum(right) / len(right))
    assert max(scores) > 0.0
    assert len(set(scores)) > 1


def test_scores_follow_every_change_of_the_text_encoder(varied: Clip, domains: list[Domain]) -> None:
    """Fused optimizers write without counting in a tensor's version, so nothing may be kept by that."""
    stream = stream_of(varied, domains, protocol="mtil")
    before = [stream.score(task) for task in range(len(domains))]
    weight = varied.model.text_projection.weight
    weight.grad = 2 * weight.detach()
    torch.optim.SGD([weight], lr=1.0, fused=True).step()  # its own negative: what was nearest is farthest
    assert [stream.score(task) for task in range(len(domains))] != before


def test_a_clip_learns_domains_in_sequence_and_is_scored_on_all_after_each(data: Path, tmp_path: Path) -> None:
    settings = ContinualSettings(
        model="clip:16x1", tasks=("mnist:low", "mnist:high"), data=str(data), shots=4, r=2, k=2, updates_per_task=2,
        batch_size=8, test_examples=20, device="cpu", measure_every=2, checkpoint_every=2,
    )  # fmt: skip
    prepare(RunSpec("continual", settings), tmp_path / "run", print).train(lambda _: None)
    rows = read_log(tmp_path / "run", "tasks")
    assert [row["name"] for row in rows] == ["mnist:low", "mnist:high"]
    assert all(len(row["scores"]) == 2 and row["score_of"] == "accuracy" for row in rows)
    assert (tmp_path / "run/model/adapters.safetensors").is_file()


def test_settings_name_prompts_and_shots(data: Path) -> None:
    prompts = ("a {} in {braces}", "{}")
    settings = ContinualSettings(model="clip:16x1", tasks=("mnist:low",), data=str(data), shots=4, device="cpu")
    stream = image_stream(replace(settings, prompts=prompts))
    assert stream.prompts == prompts
    assert stream.score(0, 5) >= 0.0
    assert stream.losses(0, 0).isfinite().all()
    assert "for the name of the class" in refusal(image_stream, replace(settings, prompts=("a photo",)))
    assert "class 'zero' has 20 training images, for 21 shots" in refusal(image_stream, replace(settings, shots=21))
