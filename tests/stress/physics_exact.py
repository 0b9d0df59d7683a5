"""Do copies stepped together give what they give one by one? Every task, long, by a random and by a trained policy.

    OMP_NUM_THREADS=1 python tests/stress/physics_exact.py

Copies stepped one by one choose the actions; copies stepped together, on one thread and on two, have to show the same
observations (before resets and after), rewards, ends and episodes, to the last bit. The trained policy is PPO's after
`train` steps, with noise on its actions: it comes to states that random actions do not. Half of the steps are taken
under `shift`, which changes the physics while they are. Exits with 1 if anything differs.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import tyro

from supple.agents.ppo import PPOSettings
from supple.agents.trained import Trained
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs import BatchedVector, Vector, make_env, vectorize
from supple.envs.physics_tasks import TASKS

Policy = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Args:
    envs: tuple[str, ...] = tuple(TASKS)
    steps: int = 10_000  # of each copy
    copies: int = 8
    threads: tuple[int, ...] = (1, 2)
    train: int = 30_720  # steps of PPO; 0: random actions alone
    shift: str = "friction(over=20000,from_task=0) + gravity(low=0.8,high=1.2,from_task=0)"  # of half of the steps


def make_random_policy(space: gym.spaces.Box, copies: int) -> Policy:
    """Return a policy of uniform actions, half of them beyond the bounds."""
    draws = np.random.default_rng(0)
    return lambda observations: 2 * draws.uniform(space.low, space.high, (copies, *space.shape)).astype(np.float32)


def train_policy(env: str, space: gym.spaces.Box, copies: int, steps: int) -> Policy:
    """Return the policy that PPO comes to, with noise of a fifth of the bounds."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        prepare(
            RunSpec("ppo", PPOSettings(env=env, steps=steps, compile="off", eval_episodes=0)), run, lambda line: None
        ).train(lambda step: None)
        agent = Trained(run)
    draws, scale = np.random.default_rng(1), 0.2 * space.high

    def act(observations: np.ndarray) -> np.ndarray:
        actions: np.ndarray = agent.predict(observations) + scale * draws.standard_normal((copies, *space.shape))
        return actions.astype(np.float32)

    return act


def compare(env: str, policy: Policy, args: Args, shift: str | None) -> tuple[int, int]:
    """Return how many steps of all copies differed somewhere, and how many episodes ended."""
    make: Callable[[], gym.Env] = lambda: make_env(env, shifts=shift)  # noqa: E731
    singly = Vector([make] * args.copies)
    others = [vectorize([make] * args.copies, threads=threads) for threads in args.threads]
    assert all(isinstance(other, BatchedVector) for other in others), f"{env} is not stepped together here"
    seen = [envs.reset(range(args.copies)) for envs in (singly, *others)]
    different, ended = sum(not np.array_equal(seen[0], other) for other in seen[1:]), 0
    for step in range(args.steps // 2):
        actions = policy(seen[0])
        first, *results = (envs.step(actions) for envs in (singly, *others))
        seen[0], ended = first.obs, ended + len(first.episodes)
        different += not all(
            first.episodes == other.episodes and all(map(np.array_equal, first[:-1], other[:-1])) for other in results
        )
        if shift:
            for envs in (singly, *others):
                envs.progress(step * args.copies)
    for envs in (singly, *others):
        envs.close()
    return different, ended


def main(args: Args) -> bool:
    wrong = 0
    for env in args.envs:
        space = make_env(env).action_space
        assert isinstance(space, gym.spaces.Box)
        policies = {"random": make_random_policy(space, args.copies)}
        if args.train:
            policies["trained"] = train_policy(env, space, args.copies, args.train)
        for name, policy in policies.items():
            found = [compare(env, policy, args, shift) for shift in (None, args.shift)]
            different, ended = map(sum, zip(*found, strict=True))
            wrong += different
            print(env, name, "different:", different, "episodes:", ended, flush=True)
    return not wrong


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
