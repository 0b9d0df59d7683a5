"""The settings of agents that read images as well as vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import tyro

from supple.engine.settings import Groups
from supple.registry.errors import UsageError

from .limits import in_one_line
from .settings import AgentSettings

if TYPE_CHECKING:
    from supple.envs import Picture


@dataclass(kw_only=True)
class ImageSettings(AgentSettings):
    observations: Annotated[
        Literal["auto", "image", "hwc", "chw", "vector"], tyro.conf.arg(metavar="auto|image|hwc|chw|vector")
    ] = "auto"
    """How networks read observations. auto: three dimensions are images, whose smaller side has the channels, two are
    read as vectors. hwc: images with channels last; chw: first."""
    encoder: Annotated[str, tyro.conf.arg(metavar="NAME")] = "auto"
    """Convolutions that read images: nature, impala or minatar, with optional channels: impala(channels=[16,32,32]).
    auto: nature, or minatar for images that are too small for it. A network of your own: FILE.py:FUNCTION, from the
    numbers of an observation to a module (n, numbers) → (n, features), before the layers of --hidden."""

    groups: ClassVar[Groups] = {"environment": ("observations",), "network": ("encoder",)}

    def find_picture(self) -> "Picture | None":
        """Return how an image lies in the rows of the first of the run's environments that shows images, or None."""
        from .spaces import picture_in  # imports Gymnasium, which help lines do without

        return self.ask(lambda env, kwargs: picture_in(env, kwargs, self.observations))

    @property
    def own_network(self) -> bool:
        """Whether the encoder is a network of the user's, which is neither stacked nor, by default, compiled."""
        return ".py:" in self.encoder

    def unstackable(self) -> str:
        own = f"--encoder {self.encoder} is a network of your own, which has no stack"
        return own if self.own_network else super().unstackable()

    def resolve(self) -> str | None:
        note = self._choose_observations()
        if self.observations == "vector" and self.encoder != "auto" and not self.own_network:
            shown = next(iter(self.environments()), "the environment")
            raise UsageError(f"--encoder {self.encoder} reads images, but {shown} is read as vectors: leave it out")
        return in_one_line(note, super().resolve())

    def _choose_observations(self) -> str | None:
        """Replace "auto", and return a line for the user about what the environments show, if it says anything."""
        if self.observations != "auto":
            return None
        from .spaces import describe_rows, describe_united, picture_in

        lines: list[str] = []
        images: list[bool] = []

        def question(env: str, kwargs: Mapping[str, Any]) -> bool:
            images.append(picture_in(env, kwargs, self.observations) is not None)
            lines.append("" if env.startswith("ALE/") else describe_rows(env, kwargs, self.observations))
            return False  # ask of all

        self.ask(question)
        if any(lines):
            lines.append(describe_united(self.environments(), self.kwargs, self.observations))
        if len(set(images)) == 1:  # else it is refused when the agent is made
            self.observations = "image" if images[0] else "vector"
        return in_one_line(*lines)
