"""Other modes and difficulties of Atari games (Machado et al. 2018, arXiv 1709.06009, section 5)."""

import gymnasium as gym
import numpy as np

from .base import Shift, Values, name_of, shifts


@shifts.register("mode")
class Mode(Shift):
    """Change the mode or difficulty of an Atari game, uniformly over those that it has, except the previous task's.

    Task 0 has the game's default, the first of each.
    """

    gradual = "episodes"

    def check(self, env: gym.Env) -> None:
        if not hasattr(env.unwrapped, "ale"):
            raise ValueError(f"mode needs an Atari game, got {name_of(env)}")
        if len(_variants(env)) == 1:
            raise ValueError(f"mode has nothing to change: {name_of(env)} has only one mode and one difficulty")

    def neutral(self, env: gym.Env) -> Values:
        return _variants(env)[0]

    def draw(self, env: gym.Env, random: np.random.Generator, previous: Values) -> Values:
        others = [variant for variant in _variants(env) if variant != previous]
        return others[random.integers(len(others))]

    def set(self, env: gym.Env, values: Values) -> None:
        game = env.unwrapped
        # A reset with a seed reloads the game with the environment's values, a reset without a seed keeps the
        # emulator's. So both are set.
        game._game_mode, game._game_difficulty = values["mode"], values["difficulty"]  # type: ignore[attr-defined]
        game.ale.setMode(values["mode"])  # type: ignore[attr-defined]
        game.ale.setDifficulty(values["difficulty"])  # type: ignore[attr-defined]


def _variants(env: gym.Env) -> list[Values]:
    ale = env.unwrapped.ale  # type: ignore[attr-defined]
    modes, difficulties = ale.getAvailableModes(), ale.getAvailableDifficulties()
    return [{"mode": int(mode), "difficulty": int(level)} for mode in modes for level in difficulties]
