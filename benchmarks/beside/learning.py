"""Train Stable-Baselines3 with the settings of the suite `learning`, for the tables of docs/results/learning.md.

    supple sweep learning --out runs/learning
    python benchmarks/beside/learning.py runs/learning          # its rows: runs/learning/sb3.rows.jsonl
    python docs/suites.py learning runs/learning                # the tables

Settings, environments, seeds and steps are those of the studies of the sweep, at its scale. The number of each run is
one line of the file; those that are there already are not trained again. PPO's observations and rewards are normalised
by `VecNormalize` in the studies in which supple normalises them.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import gymnasium as gym
import numpy as np
import torch
import tyro

sys.path.append(str(Path(__file__).parents[2] / "docs"))
import suite_rows

from supple.engine.machine.denormals import flushing_denormals
from supple.envs.make import quiet_mujoco
from supple.experiments.queue.queue import QueuedRun
from supple.experiments.sweeps.sweep import open_sweep

Curve = list[tuple[int, float]]  # (step, return of an episode, or mean return of an evaluation)


@dataclass(frozen=True)
class Options:
    folder: Annotated[Path, tyro.conf.Positional]
    """Folder of a sweep of the suite."""
    studies: tuple[str, ...] = ()
    """Default: all."""


def main(o: Options) -> None:
    torch.set_num_threads(1)
    gym.logger.min_level = gym.logger.ERROR
    quiet_mujoco()
    out = o.folder / "sb3.rows.jsonl"
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    have = {(row["study"], row["arm"], row["seed"]) for row in rows}
    for queued in open_sweep(o.folder):
        labels, seed = queued.spec.labels, queued.spec.seeds[0]
        arm = " · ".join([*(f"{name}={value}" for name, value in labels.variant.items()), "sb3"])
        if labels.arm != "none" or (labels.study, arm, seed) in have or (o.studies and labels.study not in o.studies):
            continue
        with flushing_denormals():  # as in supple's runs
            found = numbers(queued)
        lines = [
            {"study": labels.study, "arm": arm, "seed": seed, "column": column, "value": value}
            for column, value in found.items()
        ]
        with out.open("ab", buffering=0) as file:  # in one piece: a cut must not leave a part of a run
            file.write("".join(f"{json.dumps(line)}\n" for line in lines).encode())
        print(*lines, sep="\n", flush=True)


def numbers(queued: QueuedRun) -> dict[str, float]:
    """Train an agent, and return the numbers that docs/suite_rows.py has of runs of supple."""
    settings: Any = queued.spec.settings
    study, began = queued.spec.labels.study, time.perf_counter()
    model = agent(queued.spec.kind, settings)
    if settings.eval_every:
        found = {
            column: value for *_, column, value in suite_rows.evaluated(study, "", 0, evaluations(model, settings))
        }
    else:
        found = suite_rows.score(study, episodes(model, settings.steps), settings.steps)
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def agent(kind: str, s: Any) -> Any:
    """Return Stable-Baselines3's agent with the settings of a run of supple."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    env = make_vec_env(s.env, s.num_envs, seed=s.seed)
    if kind == "ppo":
        normalized = VecNormalize(env) if s.normalize_observations else env
        return sb3.PPO(
            "MlpPolicy", normalized, s.learning_rate, s.rollout_steps, s.minibatch_size, s.epochs, s.gamma,
            s.gae_lambda, seed=s.seed, device="cpu",
        )  # fmt: skip
    if kind == "sac":
        return sb3.SAC("MlpPolicy", env, buffer_size=s.replay_size, seed=s.seed, device="cpu")
    return sb3.DQN(
        "MlpPolicy", env, seed=s.seed, device="cpu", learning_rate=s.learning_rate, buffer_size=s.replay_size,
        learning_starts=s.learning_starts, batch_size=s.batch_size, gamma=s.gamma, gradient_steps=1,
        train_freq=round(1 / s.replay_ratio), target_update_interval=s.target_period,
        exploration_fraction=s.exploration_steps / s.steps, exploration_final_eps=s.exploration,
        max_grad_norm=s.max_grad_norm, policy_kwargs={"net_arch": list(s.hidden)},
    )  # fmt: skip


def episodes(model: Any, steps: int) -> Curve:
    """Train an agent, and return the end and the return of each training episode."""
    from stable_baselines3.common.callbacks import BaseCallback

    curve: Curve = []

    class Record(BaseCallback):
        def _on_step(self) -> bool:
            infos = (info["episode"] for info in self.locals["infos"] if "episode" in info)
            curve.extend((self.num_timesteps, float(episode["r"])) for episode in infos)
            return True

    model.learn(steps, Record())
    return curve


def evaluations(model: Any, s: Any) -> Curve:
    """Train an agent, and return its greedy evaluations as often as supple's agent is evaluated."""
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    curve: Curve = []

    class Evaluate(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps // s.eval_every > len(curve):
                env = Monitor(gym.make(s.env))
                env.reset(seed=1_000 + s.seed)
                curve.append((self.num_timesteps, float(np.mean(evaluate_policy(self.model, env, s.eval_episodes)[0]))))
            return True

    model.learn(s.steps, Evaluate())
    return curve


if __name__ == "__main__":
    main(tyro.cli(Options))
