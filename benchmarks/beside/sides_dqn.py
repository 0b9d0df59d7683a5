"""DQN on Asterix, with the Nature CNN, by supple and Stable-Baselines3; and what both do before they learn."""

from collections.abc import Callable

import subjects

Side = tuple[Callable[[], object], int]
STEPS = {"learning": 400, "playing": 4_000}  # of a turn
WARM_UP = 2_000  # steps before anything is timed; they fill the memory that batches come from


def supple(threads: int, what: str, precision: str = "float32") -> Side:
    run = subjects.dqn(threads, learning_starts=0 if what == "learning" else 10**9, precision=precision)
    run.live(WARM_UP)
    return lambda: run.live(STEPS[what]), STEPS[what]


def sb3(threads: int, what: str, envs: str) -> Side:
    """Set SB3 up for Atari as its documentation does: `make_atari_env`, `AtariWrapper`, 4 stacked frames."""
    from stable_baselines3 import DQN
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    from supple.envs.make import import_ale

    import_ale()  # registers the games
    n = int(envs)
    model = DQN(
        "CnnPolicy", VecFrameStack(make_atari_env(subjects.ASTERIX, n, seed=0, env_kwargs={"frameskip": 1}), 4),
        batch_size=32, buffer_size=20_000, learning_starts=0 if what == "learning" else 10**9,
        train_freq=4 if n == 1 else 1, gradient_steps=max(1, n // 4), seed=0, device="cpu",
    )  # fmt: skip
    model.learn(WARM_UP)
    return lambda: model.learn(STEPS[what], reset_num_timesteps=False), STEPS[what]
