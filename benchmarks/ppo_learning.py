"""Does PPO learn as well as Stable-Baselines3's? The same settings, SB3's defaults, on HalfCheetah-v5.

    python benchmarks/ppo_learning.py --seeds 5
    python benchmarks/ppo_learning.py --seeds 5 --envs 8 --iterations 18

Each run appends one JSON line to --out; runs that are there already are not repeated, so an interrupted
benchmark goes on where it stopped. The score of a run is the mean return of the episodes that ended in its last
tenth. Criterion: our mean over the seeds is no lower than SB3's mean minus its standard deviation.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import tyro
from rich.console import Console
from rich.table import Table
from timing import begin

from supple.agents.ppo import PPOSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs.make import quiet_mujoco

ROLLOUT = 2048  # SB3's default
Episodes = list[tuple[int, float]]  # (step at its end, return)


@dataclass(frozen=True)
class Args:
    seeds: int = 5  # seeds 0 … seeds-1
    envs: int = 1  # parallel environments; 1 is SB3's default
    iterations: int = 146  # of 2048 steps in each environment; 146 are 299,008 steps of one
    out: Path = Path("docs/results/ppo_learning.jsonl")  # one line per finished run


def with_sb3(seed: int, envs: int, steps: int) -> Episodes:
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    class Record(BaseCallback):
        episodes: Episodes

        def _init_callback(self) -> None:
            self.episodes = []

        def _on_step(self) -> bool:
            infos = (info["episode"] for info in self.locals["infos"] if "episode" in info)
            self.episodes += [(self.num_timesteps, float(episode["r"])) for episode in infos]
            return True

    record = Record()
    PPO("MlpPolicy", make_vec_env("HalfCheetah-v5", envs, seed=seed), seed=seed).learn(steps, record)
    return record.episodes


def with_supple(seed: int, envs: int, steps: int) -> Episodes:
    settings = PPOSettings(
        env="HalfCheetah-v5", steps=steps, seed=seed, num_envs=envs, rollout_steps=ROLLOUT, hidden=(64, 64), adapter=0,
        share_value=False, clip_value=False, normalize_observations=False, normalize_rewards=False,
        eval_episodes=0, checkpoint_every=steps,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        prepare(RunSpec("ppo", settings, command="benchmarks/ppo_learning.py"), path, print).train(lambda step: None)
        lines = map(json.loads, (path / "episodes.jsonl").read_text().splitlines())
        return [(line["step"], line["return"]) for line in lines]


LIBRARIES: dict[str, Callable[[int, int, int], Episodes]] = {"Stable-Baselines3": with_sb3, "supple": with_supple}


def score(episodes: Episodes, steps: int) -> float:
    """Return the mean return of the episodes that ended in the last tenth of the run."""
    return statistics.fmean(ret for step, ret in episodes if step > 0.9 * steps)


def main(args: Args) -> bool:
    begin(1)
    gym.logger.min_level = gym.logger.ERROR
    quiet_mujoco()
    steps = args.iterations * args.envs * ROLLOUT
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.touch()
    done = [json.loads(line) for line in args.out.read_text().splitlines()]
    scores: dict[str, list[float]] = {}
    for library, learn in LIBRARIES.items():
        for seed in range(args.seeds):
            found = [
                r for r in done if (r["library"], r["envs"], r["seed"], r["steps"]) == (library, args.envs, seed, steps)
            ]
            if found:
                result = found[0]
            else:
                start = time.perf_counter()
                episodes = learn(seed, args.envs, steps)
                result = {
                    "library": library, "env": "HalfCheetah-v5", "envs": args.envs, "seed": seed, "steps": steps,
                    "return": round(score(episodes, steps), 2), "seconds": round(time.perf_counter() - start, 1),
                }  # fmt: skip
                with args.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
            scores.setdefault(library, []).append(result["return"])
    table = Table(
        title=f"PPO on {args.envs} × HalfCheetah-v5, {steps:,} steps, {args.seeds} seeds: return in the last tenth"
    )
    for column in ("library", "mean", "sd", "seeds"):
        table.add_column(column, justify="left" if column == "library" else "right")
    summary = {name: (statistics.fmean(v), statistics.stdev(v) if len(v) > 1 else 0.0) for name, v in scores.items()}
    for library, (mean, sd) in summary.items():
        table.add_row(library, f"{mean:,.0f}", f"{sd:,.0f}", ", ".join(f"{value:,.0f}" for value in scores[library]))
    console = Console()
    console.print(table)
    peer, spread = summary["Stable-Baselines3"]
    passed = summary["supple"][0] >= peer - spread
    console.print(f"supple ≥ SB3's mean − sd ({peer - spread:,.0f}): {'yes' if passed else 'NO'}")
    return passed


if __name__ == "__main__":
    sys.exit(0 if main(tyro.cli(Args)) else 1)
