"""Atari games for the agents that play them: their settings, and copies of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from supple.engine.settings import Groups
from supple.registry.schema import Positive, Share

from .image_settings import ImageSettings

if TYPE_CHECKING:
    from supple.envs import Envs


@dataclass(kw_only=True)
class GameSettings(ImageSettings):
    sticky: Share = 0.25
    """Probability that an Atari game repeats the previous action (sticky actions)."""
    sticky_per: Literal["frame", "step"] = "frame"
    """Draw sticky actions per frame, as ALE does, or per agent step, as FIRE's released code does."""
    max_frames: Positive[int] = 108_000
    """Frames after which an Atari episode is truncated. One agent step is 4 frames."""

    groups: ClassVar[Groups] = {"environment": ("sticky", "sticky_per", "max_frames")}

    def plays_games(self) -> bool:
        """Return whether one of the run's environments is an Atari game."""
        return any(is_game(name) for name in self.environments())

    def episode_limit(self, env: str) -> int | None:
        return self.max_frames // 4 if is_game(env) else super().episode_limit(env)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.observations not in ("auto", "image") and self.plays_games():
            yield f"--observations {self.observations}: Atari games are read as images: use --observations auto"
        if self.env_workers and self.sticky_per == "step":
            yield "--sticky-per step draws for all copies of a game from one generator: use --env-workers 0"
        if self.environments() and not self.plays_games():
            yield from self.without_effect(
                ("sticky", "sticky_per", "max_frames"),
                """environments that are no Atari games (MinAtar's: --env-kwargs '{"sticky_action_prob": 0}')""",
            )


def is_game(env: str) -> bool:
    """Return whether this Gymnasium id is that of an Atari game."""
    return env.startswith("ALE/")


def make_games(settings: GameSettings, env: str, worlds: Sequence[Mapping[str, Any]]) -> "Envs":
    """Return copies of an Atari game, whose observations are stacks of frames (see `envs.AtariVector`).

    worlds: for each copy, further arguments of `envs.make_pixels`."""
    from supple.envs import ConcatenatedVector, make_pixels  # Gymnasium, which help lines do without

    s = settings
    share = max(len(worlds) // len(s.members), 1)  # the copies of a member
    # with --sticky-per step, all copies of a vector draw from one generator, which members must not
    kinds = [(world, row // share if s.sticky_per == "step" else 0) for row, world in enumerate(worlds)]
    alike = [(world, len(list(copies))) for (world, _), copies in groupby(kinds)]
    vectors = [
        make_pixels(
            env,
            copies,
            sticky=s.sticky,
            sticky_per=s.sticky_per,
            max_frames=s.max_frames,
            threads=s.stepping["threads"],
            **world,
        )
        for world, copies in alike
    ]
    return ConcatenatedVector(vectors) if len(vectors) > 1 else vectors[0]


def look_at_game(settings: GameSettings, env: str) -> tuple[tuple[int, int, int], Any]:
    """Return the frames, height and width of an observation of an Atari game, and its action space."""
    envs: Any = make_games(settings, env, [settings.world])
    shape, actions = envs.single_observation_space.shape, envs.single_action_space
    envs.close()
    return shape, actions
