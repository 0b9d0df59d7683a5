"""Agents of several seeds as one stack, beside one seed of the same code, Stable-Baselines3 and rejax; one core each.

A turn counts the environment steps of all seeds. Runs do not share anything, so two cores do twice as much.
"""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import subjects
from stepped import ENDLESS, SteppedAgent

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.presets import GYM_CONTROL

Side = tuple[Callable[[], object], int]
ROLLOUT, WIDTH = 800, 128  # steps of PPO between updates; units of each of its three layers
TURN = {"ppo": 4 * ROLLOUT, "dqn": 1_000, "sac-64": 500, "sac-256": 100}  # steps of a seed
WARM_UP = 600  # steps before the first turn, after which DQN and SAC learn
DQN: dict[str, Any] = {
    "env": "CartPole-v1", "steps": ENDLESS, "num_envs": 4, "learning_starts": 500, "replay_size": 50_000,
    "batch_size": 32, "replay_ratio": 1.0, "learning_rate": 1e-3, "device": "cpu",
}  # fmt: skip


def supple(threads: int, kind: str, seeds: str) -> Side:
    several = tuple(range(int(seeds))) if int(seeds) > 1 else ()
    if kind == "ppo":
        run = subjects.cartpole(WIDTH, compile="on", threads=threads, seeds=several)
    elif kind == "dqn":
        run = SteppedAgent("dqn", DQNSettings(**DQN, threads=threads, seeds=several))
    else:
        width = int(kind.removeprefix("sac-"))
        world = {"env": "Pendulum-v1"} if width == 64 else {}
        made = subjects.sac_settings(hidden=(width, width), compile="on", threads=threads, seeds=several, **world)
        run = SteppedAgent("sac", made)
    run.live(ROLLOUT if kind == "ppo" else WARM_UP)
    return lambda: run.live(TURN[kind]), TURN[kind] * int(seeds)


def sb3_dqn(threads: int) -> Side:
    from stable_baselines3 import DQN as Peer

    model = Peer(
        "MlpPolicy", gym.make("CartPole-v1"), 1e-3, 50_000, 500, 32, train_freq=1, gradient_steps=1,
        policy_kwargs={"net_arch": [256, 256]}, seed=0, device="cpu",
    )  # fmt: skip
    return _learn(model, "dqn")


def sb3_sac(threads: int, width: str) -> Side:
    from stable_baselines3 import SAC as Peer

    env = gym.make("Pendulum-v1" if width == "64" else subjects.CHEETAH)
    network = {"net_arch": [int(width)] * 2}
    return _learn(Peer("MlpPolicy", env, policy_kwargs=network, seed=0, device="cpu"), f"sac-{width}")


def _learn(model: Any, kind: str) -> Side:
    model.learn(WARM_UP)
    return lambda: model.learn(TURN[kind], reset_num_timesteps=False), TURN[kind]


def rejax(threads: int, seeds: str) -> Side:
    """Train as many seeds under `vmap`, on gymnax's CartPole; XLA's threads are those that the process may use.

    Its evaluations are left out, and its compilation is not timed."""
    import jax
    from rejax import PPO as Peer

    s = PPOSettings(**GYM_CONTROL)
    algorithm = Peer.create(
        env="CartPole-v1", num_envs=1, num_steps=s.rollout_steps, num_epochs=s.epochs,
        num_minibatches=s.rollout_steps // s.minibatch_size, total_timesteps=TURN["ppo"], eval_freq=TURN["ppo"],
        skip_initial_evaluation=True, learning_rate=s.learning_rate, gamma=s.gamma, gae_lambda=s.gae_lambda,
        ent_coef=s.entropy_coefficient, agent_kwargs={"hidden_layer_sizes": (WIDTH,) * 3, "activation": "leaky_relu"},
    )  # fmt: skip
    algorithm = algorithm.replace(eval_callback=lambda algorithm, state, key: jax.numpy.zeros(1))
    keys = jax.random.split(jax.random.PRNGKey(0), int(seeds))
    train = jax.jit(jax.vmap(algorithm.train)).lower(keys).compile()
    return lambda: jax.block_until_ready(train(keys)), TURN["ppo"] * int(seeds)
