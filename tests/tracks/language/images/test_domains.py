"""Domains of images: their images and class names, and one-line refusals."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from supple.tracks.language.images.domains import TRANSFORMS, class_names, read_domain
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


def test_a_domain_has_all_classes_of_its_data_set_by_name(data: Path) -> None:
    domain = read_domain("mnist", data)
    assert domain.classes[:3] == ("zero", "one", "two")
    assert domain.train_images.shape == (200, 1, 28, 28)
    assert torch.bincount(domain.test_labels).tolist() == [6] * 10


def test_some_classes_keep_the_order_they_are_named_in_and_groups_have_names(data: Path) -> None:
    whole, some = read_domain("mnist", data), read_domain("mnist:seven,two", data)
    assert some.classes == ("seven", "two")
    assert len(some.train_labels) == 40
    for place, label in enumerate((7, 2)):
        images = some.train_images[some.train_labels == place]
        assert torch.equal(images, whole.train_images[whole.train_labels == label])
    assert read_domain("mnist:low", data).classes == ("zero", "one", "two", "three", "four")


def test_transformed_classes_have_names_of_their_own(data: Path) -> None:
    plain, turned = read_domain("mnist", data), read_domain("mnist+inverted+rotated", data)
    assert turned.classes[7] == "inverted rotated seven"
    assert torch.equal(turned.train_images, 255 - plain.train_images.rot90(1, (2, 3)))
    assert len(class_names([plain, turned, plain])) == 20


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_gives_other_images_of_the_same_kind(name: str) -> None:
    images = torch.randint(0, 256, (3, 3, 28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    first, again = (TRANSFORMS[name](images) for _ in range(2))
    assert (first.shape, first.dtype) == (images.shape, torch.uint8)
    assert torch.equal(first, again)
    assert not torch.equal(first, images)


def test_thick_is_a_dilation_and_outlined_what_it_adds() -> None:
    image = torch.zeros(1, 1, 5, 5, dtype=torch.uint8)
    image[0, 0, 2, 2] = 9
    assert int(TRANSFORMS["thick"](image).sum()) == 81
    assert int(TRANSFORMS["outlined"](image).sum()) == 72


def test_few_test_images_are_the_same_each_time_and_of_many_classes(data: Path) -> None:
    domain = read_domain("mnist", data)
    images, labels = domain.test_subset(30)
    again, _ = domain.test_subset(30)
    assert torch.equal(images, again)
    assert len(labels.unique()) > 5
    assert len(domain.test_subset(None)[1]) == len(domain.test_subset(1000)[1]) == 60


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """train/ and test/ with two classes of 3 and 2 images, in a path with a + in it."""
    root = tmp_path / "a+b"
    for split, count in (("train", 3), ("test", 2)):
        for shade, name in ((40, "old_boot"), (200, "cat")):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                Image.fromarray(np.full((8, 6, 3), shade + number, np.uint8)).save(
                    root / split / name / f"{number}.png"
                )
    return root


def test_image_folders_are_called_as_they_are_or_by_a_file_of_names(folders: Path) -> None:
    domain = read_domain(f"folder:{folders}+mirrored")
    assert domain.classes == ("mirrored cat", "mirrored old boot")
    assert domain.train_images.shape == (6, 3, 8, 6)
    (folders / "names.txt").write_text("house cat\nboot\n")
    assert read_domain(f"folder:{folders}").classes == ("house cat", "boot")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ("cat\n", "class 1 has no name"),
        ("cat\ncat\n", "two classes are called"),
        ("cat\nboot\n", "only square images can be rotated, these are (8, 6)"),
    ],
)
def test_classes_without_a_name_and_oblong_images_are_refused(folders: Path, names: str, says: str) -> None:
    (folders / "names.txt").write_text(names)
    assert says in refusal(read_domain, f"folder:{folders}+rotated")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("minst", "unknown data set 'minst': did you mean 'mnist'"),
        ("mnist:sevn", "unknown class 'sevn': did you mean 'seven'"),
        ("mnist+rotatd", "unknown transform 'rotatd': did you mean 'rotated'"),
        ("folder:/nowhere/at/all", "no such folder"),
    ],
)
def test_unknown_parts_of_a_domain_are_refused_with_the_nearest_name(data: Path, text: str, says: str) -> None:
    assert says in refusal(read_domain, text, data)


def test_a_class_without_images_is_refused_by_name(data: Path, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    for file in (data / "mnist").iterdir():
        content = file.read_bytes()
        if "t10k-labels" in file.name:
            content = content.replace(b"\x05", b"\x04")
        (tmp_path / "mnist" / file.name).write_bytes(content)
    assert "domain 'mnist': class 'five' has no test images" in refusal(read_domain, "mnist", tmp_path)
