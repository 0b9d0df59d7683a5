"""SAC: supple, Stable-Baselines3 and SBX in their own loops; and the update alone at the size of SimBa."""

from collections.abc import Callable

Side = tuple[Callable[[], object], int]
STEPS, WARM_UP = 300, 300  # environment steps of a turn; before the first, so that all learn from the beginning
UPDATES = 5  # of a turn, at SimBa's size


def supple(threads: int) -> Side:
    from sac_steps import Ours

    ours = Ours(threads, "on")
    ours(WARM_UP)
    return lambda: ours(STEPS), STEPS


def sb3(threads: int) -> Side:
    from sac_steps import sb3 as made

    model = made()
    model(WARM_UP)
    return lambda: model(STEPS), STEPS


def sbx(threads: int) -> Side:
    import gymnasium as gym
    from sac_steps import ENV
    from sbx import SAC

    model = SAC("MlpPolicy", gym.make(ENV), seed=0)
    model.learn(WARM_UP)
    return lambda: model.learn(STEPS, reset_num_timesteps=False), STEPS


def simba(threads: int) -> Side:
    from sac_parts import full_size
    from sac_speed import data

    agent = full_size(compile="on")
    batch, noise = data(agent)
    return lambda: [agent.soft_update(batch, noise) for _ in range(UPDATES)], UPDATES


def simba_plain(threads: int) -> Side:
    from sac_parts import full_size
    from sac_speed import data, plain

    agent = full_size()
    (batch, noise), update = data(agent), plain(agent)
    return lambda: [update(batch, noise) for _ in range(UPDATES)], UPDATES


def simba_jax(threads: int) -> Side:
    from sac_parts import full_size
    from sac_speed import data, jitted

    agent = full_size()
    (batch, noise), update = data(agent), jitted(agent)
    return lambda: [update(batch, noise) for _ in range(UPDATES)], UPDATES
