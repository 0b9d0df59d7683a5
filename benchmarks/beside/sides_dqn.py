"""DQN on Asterix: supple with eight environments; Stable-Baselines3 with one and with eight."""

from collections.abc import Callable

Side = tuple[Callable[[], object], int]
STEPS, WARM_UP = 400, 2_000


def supple(threads: int, precision: str = "float32") -> Side:
    from dqn_speed import Ours

    ours = Ours(threads, learning=True, precision=precision)
    ours(WARM_UP)
    return lambda: ours(STEPS), STEPS


def sb3(threads: int, envs: str) -> Side:
    from dqn_speed import Peer

    peer = Peer(int(envs), learning=True)
    peer(WARM_UP)
    return lambda: peer(STEPS), STEPS
