"""Do PPO and DQN learn CartPole-v1 as well as Stable-Baselines3's do, with the same settings?

    python benchmarks/cartpole.py ppo
    python benchmarks/cartpole.py dqn

Each run appends one JSON line to --out; runs that are there already are not repeated, so an interrupted benchmark goes
on where it stopped. Every 10,000 steps the greedy policy is evaluated on 10 episodes of its own. Criterion: an
evaluation of 475 or more (CartPole-v1's own threshold) in at least four seeds of five, within 100,000 steps (PPO)
or 200,000 (DQN).
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import tyro
from rich.console import Console
from rich.table import Table
from timing import begin

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.settings import AgentSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec

ENV = "CartPole-v1"
EVERY, EPISODES, SOLVED = 10_000, 10, 475.0
PPO: dict[str, Any] = {
    "num_envs": 8,
    "rollout_steps": 32,
    "epochs": 20,
    "minibatch_size": 256,
    "learning_rate": 1e-3,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "clip_value": False,
    "hidden": (64, 64),
    "adapter": 0,
    "share_value": False,
    "normalize_observations": False,
    "normalize_rewards": False,
}
DQN: dict[str, Any] = {
    "num_envs": 1,
    "replay_ratio": 0.25,
    "batch_size": 128,
    "replay_size": 100_000,
    "learning_starts": 1_000,
    "target_period": 500,
    "learning_rate": 5e-4,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 10.0,
    "clip_rewards": False,
    "exploration": 0.05,
    "exploration_steps": 20_000,
    "eval_epsilon": 0.0,
    "widths": (256, 256),
    "initialization": "pytorch",
}
STEPS = {"ppo": 100_000, "dqn": 200_000}
Curve = list[tuple[int, float]]  # (step, mean return of an evaluation)


@dataclass(frozen=True)
class Args:
    agent: Annotated[Literal["ppo", "dqn"], tyro.conf.Positional]
    seeds: int = 5  # seeds 0 … seeds-1
    out: Path = Path("docs/results/learning/cartpole.jsonl")  # one line per finished run

    @property
    def steps(self) -> int:
        return STEPS[self.agent]

    @property
    def settings(self) -> dict[str, Any]:
        return PPO if self.agent == "ppo" else DQN


def with_supple(seed: int, args: Args) -> Curve:
    steps = args.steps
    common = {"env": ENV, "steps": steps, "seed": seed, "eval_every": EVERY, "eval_episodes": EPISODES}
    common |= {"measure_every": steps, "checkpoint_every": steps, **args.settings}
    settings: AgentSettings = (
        PPOSettings(**common, compile="off") if args.agent == "ppo" else DQNSettings(**common, device="cpu")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        prepare(RunSpec(args.agent, settings, command="benchmarks/cartpole.py"), path, print).train(lambda step: None)
        lines = map(json.loads, (path / "metrics.jsonl").read_text().splitlines())
        return [(line["step"], line["eval/return"]) for line in lines if "eval/return" in line]


def peer(seed: int, args: Args) -> Any:
    """Return Stable-Baselines3's agent with these settings."""
    import stable_baselines3 as sb3
    from stable_baselines3.common.env_util import make_vec_env

    s = args.settings
    if args.agent == "ppo":
        return sb3.PPO(
            "MlpPolicy", make_vec_env(ENV, s["num_envs"], seed=seed), s["learning_rate"], s["rollout_steps"],
            s["minibatch_size"], s["epochs"], s["gamma"], s["gae_lambda"], seed=seed, device="cpu",
        )  # fmt: skip
    return sb3.DQN(
        "MlpPolicy", ENV, seed=seed, device="cpu", learning_rate=s["learning_rate"], buffer_size=s["replay_size"],
        learning_starts=s["learning_starts"], batch_size=s["batch_size"], gamma=0.99, gradient_steps=1,
        train_freq=round(1 / s["replay_ratio"]), target_update_interval=s["target_period"],
        exploration_fraction=s["exploration_steps"] / args.steps, exploration_final_eps=s["exploration"],
        max_grad_norm=s["max_grad_norm"], policy_kwargs={"net_arch": list(s["widths"])},
    )  # fmt: skip


def with_sb3(seed: int, args: Args) -> Curve:
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor

    curve: Curve = []

    class Evaluate(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps // EVERY > len(curve):
                env = Monitor(gym.make(ENV))
                env.reset(seed=1_000 + seed)
                mean, _ = evaluate_policy(self.model, env, EPISODES)
                curve.append((self.num_timesteps, float(mean)))
            return True

    peer(seed, args).learn(args.steps, Evaluate())
    return curve


LIBRARIES: dict[str, Callable[[int, Args], Curve]] = {"supple": with_supple, "Stable-Baselines3": with_sb3}


def run(library: str, seed: int, args: Args) -> dict[str, Any]:
    """Return a run's results: those of an earlier one with the same settings if --out has it."""
    key = {"agent": args.agent, "library": library, "seed": seed, "steps": args.steps}
    key["settings"] = json.loads(json.dumps(args.settings))
    for line in map(json.loads, args.out.read_text().splitlines()):
        if {name: line[name] for name in key} == key:
            return line
    start = time.perf_counter()
    curve = LIBRARIES[library](seed, args)
    solved = next((step for step, value in curve if value >= SOLVED), None)
    seconds = round(time.perf_counter() - start, 1)
    result = {**key, "curve": curve, "solved": solved, "last": curve[-1][1], "seconds": seconds}
    with args.out.open("a") as file:
        file.write(json.dumps(result) + "\n")
    return result


def main(args: Args) -> bool:
    begin(1)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.touch()
    runs = {library: [run(library, seed, args) for seed in range(args.seeds)] for library in LIBRARIES}
    table = Table(
        title=f"{args.agent.upper()} on {ENV}: mean (sd over {args.seeds} seeds) of evaluations on {EPISODES} episodes"
    )
    table.add_column("steps", justify="right")
    for library in runs:
        table.add_column(library, justify="right")
    curves = ([each["curve"] for each in found] for found in runs.values())
    for row in zip(*(zip(*found, strict=True) for found in curves), strict=True):
        returns = [[value for _, value in points] for points in row]
        cells = (f"{statistics.fmean(found):.0f} ({statistics.pstdev(found):.0f})" for found in returns)
        table.add_row(f"{row[0][0][0]:,}", *cells)
    console = Console()
    console.print(table)
    for library, found in runs.items():
        last = ", ".join(f"{each['last']:.0f}" for each in found)
        solved = ", ".join("never" if each["solved"] is None else f"{each['solved']:,}" for each in found)
        console.print(f"{library}: first evaluation of {SOLVED:.0f} or more after {solved}; at the end {last}")
    reached = sum(each["solved"] is not None for each in runs["supple"])
    return reached >= 0.8 * args.seeds


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
