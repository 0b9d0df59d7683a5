"""The settings for pretraining a CLIP on captions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

import tyro

from supple.engine.settings import Groups, Interval
from supple.registry.schema import NotNegative, Positive
from supple.tracks.language.settings import LanguageSettings

Domains = Annotated[tuple[str, ...], tyro.conf.arg(metavar="DOMAIN")]


@dataclass(kw_only=True)
class ClipSettings(LanguageSettings):
    model: str = "clip:small"
    """A new model, clip:small or clip:WIDTHxLAYERS, or an existing one to train further: a folder in transformers'
    layout."""
    domains: Domains = (
        "mnist", "mnist+inverted", "mnist:low+rotated",
        "fashion-mnist", "fashion-mnist+rotated", "fashion-mnist:shoes+inverted",
    )  # fmt: skip
    """Domains of images with captions: mnist, fashion-mnist:shoes+inverted, cifar-10, folder:DIR, …"""
    data: Annotated[str | None, tyro.conf.arg(metavar="DIR")] = None
    """Folder with the data sets in folders of their names (default: where `supple fetch` puts them)."""
    updates: Positive[int] = 2_000
    """Number of updates."""
    batch_size: Positive[int] = 128
    """Images per update."""
    warmup: NotNegative[int] = 100
    """Updates over which the learning rate rises. It then falls to 0 as a cosine."""
    test_images: Positive[int] = 500
    """Test images per domain in an evaluation."""
    learning_rate: Positive[float] = 1e-3
    checkpoint_every: Interval = "auto"
    """Updates between checkpoints. auto: a quarter of the run, 500 at most."""
    measure_every: Positive[int] = 500

    groups: ClassVar[Groups] = {
        "task": ("domains", "data", "updates"),
        "network": ("model",),
        "measuring": ("test_images",),
    }
    most_unsaved: ClassVar[int] = 500

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.domains:
            yield "--domains is empty: name the images to learn from, such as mnist fashion-mnist"
        if self.batch_size < len(self.domains):
            yield f"--batch-size {self.batch_size} has not one image of each of {len(self.domains)} domains"
