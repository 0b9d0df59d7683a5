"""MinAtar: five small Atari games (Young & Tian 2019, arXiv 1903.03176), played by the package `minatar` (GPL-3)."""

import colorsys
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

GAMES = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
LONGEST = 5_000  # steps of an episode, twice those after which Freeway ends
PIXELS = 16  # of a picture, on each side of a cell


# The ids are those of their package that have all six actions, as the published results do. Those that have an effect,
# version 1 in the package, are an argument here.
for game in GAMES:
    name = f"MinAtar/{game.title().replace('_', '')}-v0"
    gym.register(name, f"{__name__}:MinAtar", max_episode_steps=LONGEST, kwargs={"game": game})


def require_minatar() -> None:
    """Raise ImportError if `minatar` is not installed. It is an optional dependency because it is under the GPL."""
    if find_spec("minatar") is None:
        raise ImportError("MinAtar needs minatar (GPL-3.0, a separate extra): pip install 'supple[minatar]'")


class MinAtar(gym.Env):
    """A game of MinAtar. Observations are bool, (10, 10, channels): each channel shows the places of one thing.

    The package has an environment for Gymnasium too. This one differs from it in four points: a reset with a seed
    determines the whole episode (there, the first action may be the last one of the episode before, by stickiness),
    pictures are uint8, rewards are floats, and an episode is truncated after 5,000 steps. The games have no limit of
    their own but Freeway's 2,500 steps, and neither have the published results; but in Seaquest, a policy that never
    leaves the surface plays for ever.

    Args:
        game: Its name in the package, such as "space_invaders".
        use_minimal_action_set: Whether the actions are only those that have an effect in the game.
        sticky_action_prob: The probability that the previous action is repeated instead of the chosen one.
        difficulty_ramping: Whether the game becomes more difficult as an episode goes on.
        render_mode: "rgb_array": `render` returns pictures, uint8 (160, 160, 3).

    Raises:
        ValueError: The probability is none.
        ImportError: minatar is not installed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 as Gymnasium declares it

    def __init__(
        self,
        game: str,
        use_minimal_action_set: bool = False,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        if not 0.0 <= sticky_action_prob <= 1.0:
            raise ValueError(f"sticky_action_prob must be a number in [0, 1], got {sticky_action_prob!r}")
        require_minatar()
        from minatar import Environment  # takes a second, in which it imports seaborn

        self.render_mode = render_mode
        self.game = Environment(game, sticky_action_prob, difficulty_ramping)
        every = list(range(self.game.num_actions()))
        self._actions = self.game.minimal_action_set() if use_minimal_action_set else every
        self.action_space = gym.spaces.Discrete(len(self._actions))
        self.observation_space = gym.spaces.Box(0, 1, tuple(self.game.state_shape()), np.bool_)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.bool_], dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(seed)
            self.game.last_action = 0
        self.game.reset()
        return self.game.state(), {}

    def step(self, action: int) -> tuple[NDArray[np.bool_], float, bool, bool, dict[str, Any]]:
        reward, ended = self.game.act(self._actions[action])
        return self.game.state(), float(reward), bool(ended), False, {}

    def render(self) -> NDArray[np.uint8] | None:
        """Return a picture in which each channel has a colour, and the last one of a cell is seen."""
        if self.render_mode is None:
            return None
        state = self.game.state()
        count = state.shape[-1]
        colours = [(0.0, 0.0, 0.0), *(colorsys.hsv_to_rgb(i / count, 0.6, 1.0) for i in range(count))]
        cells = (state * np.arange(1, count + 1)).max(axis=-1)
        return (255 * np.array(colours)[cells]).astype(np.uint8).repeat(PIXELS, 0).repeat(PIXELS, 1)
