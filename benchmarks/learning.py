"""Do PPO and SAC learn as well as Stable-Baselines3's, and what does each of PPO's settings do to that?

    python benchmarks/learning.py run ppo                        # 300k steps, four MuJoCo environments, five seeds
    python benchmarks/learning.py run ppo --steps 1_000_000 --arms defaults sb3
    python benchmarks/learning.py run sac                        # networks of 2 × 256, 100k steps, three seeds
    python benchmarks/learning.py show ppo                       # the tables, and figures in docs/images

Every finished run is one line in docs/results/learning/: the mean return of the training episodes in each of 20 equal
parts of the run, its seconds, and its score: the mean return of its last 100 episodes for PPO, and of the episodes in
its last two parts for SAC, whose runs may have only 100. Runs that are there already are not repeated.

PPO has 8 copies, rollouts of 256 steps, and 10 epochs of minibatches of 64. Observations and rewards are normalised on
both sides, by `VecNormalize` on SB3's. `defaults` is PPO without further settings: networks of 64-64 apart for policy
and value, values not clipped, as in SB3. The other arms change one thing in it. `before` has the defaults that PPO had
until these runs. SAC has SB3's settings on both sides; `clipped` and `squashed` are two ways to limit the policy's
log-standard deviation, of which SB3 has the first.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import tyro
from rows import Row, add_missing, read
from timing import begin

from supple.agents.ppo import PPOSettings
from supple.agents.presets import SAC_MLP
from supple.agents.sac import SACSettings
from supple.agents.settings import AgentSettings
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec
from supple.envs.make import quiet_mujoco
from supple.metrics import t_interval

FOLDER = Path(__file__).parents[1] / "docs" / "results" / "learning"
IMAGES = Path(__file__).parents[1] / "docs" / "images"
PARTS, LAST = 20, 100
PPO_ARMS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "clipped values": {"clip_value": True},
    "shared body": {"share_value": True},
    "256-256": {"hidden": (256, 256)},
    "adapter 256": {"adapter": 256},
    "annealed": {"anneal": "run"},
    "half value loss": {"value_coefficient": 0.25},
    "before": {"hidden": (256, 256), "adapter": 256, "share_value": True, "clip_value": True},
}
SAC_ARMS: dict[str, dict[str, Any]] = {
    way: {**SAC_MLP, "log_std": way, "replay_size": 100_000, "device": "cpu"} for way in ("clipped", "squashed")
}
ARMS = {"ppo": PPO_ARMS, "sac": SAC_ARMS}
SB3 = "sb3"
DRAWN = {"ppo": (SB3, "defaults"), "sac": (SB3, *SAC_ARMS)}
ENVS = {"ppo": ("Hopper-v5", "Walker2d-v5", "HalfCheetah-v5", "Ant-v5"), "sac": ("HalfCheetah-v5", "Hopper-v5")}
STEPS, SEEDS = {"ppo": 303_104, "sac": 100_000}, {"ppo": 5, "sac": 3}
Episodes = list[tuple[int, float]]  # (step at its end, return)


@dataclass(frozen=True)
class Job:
    agent: str
    arm: str
    env: str
    seed: int
    steps: int


@dataclass
class Options:
    what: Annotated[Literal["run", "show"], tyro.conf.Positional]
    agent: Annotated[Literal["ppo", "sac"], tyro.conf.Positional]
    steps: int | None = None
    """Default: 303,104 (PPO), 100,000 (SAC)."""
    arms: tuple[str, ...] = ()
    envs: tuple[str, ...] = ()
    seeds: int | None = None
    """Seeds 0 … seeds−1 (default: 5, or 3 with SAC)."""
    jobs: int = 2


def main(o: Options) -> None:
    out = FOLDER / f"{o.agent}.jsonl"
    if o.what == "show":
        show(o.agent, read(out))
        return
    arms, envs = o.arms or (SB3, *ARMS[o.agent]), o.envs or ENVS[o.agent]
    seeds, steps = range(o.seeds or SEEDS[o.agent]), o.steps or STEPS[o.agent]
    every = [Job(o.agent, arm, env, seed, steps) for seed in seeds for env in envs for arm in arms]
    add_missing(out, every, lambda row, job: row["job"] == asdict(job), train_one, describe_job, o.jobs)


def describe_job(row: Row) -> str:
    return f"{' '.join(map(str, row['job'].values()))} {row['last']} {row['seconds']:.0f} s"


def train_one(job: Job) -> Row:
    begin(1)
    gym.logger.min_level = gym.logger.ERROR
    quiet_mujoco()
    began = time.perf_counter()
    episodes = with_sb3(job) if job.arm == SB3 else with_supple(job)
    parts: list[list[float]] = [[] for _ in range(PARTS)]
    for step, value in episodes:
        parts[min(PARTS - 1, (step - 1) * PARTS // job.steps)].append(value)
    at_end = [value for _, value in episodes[-LAST:]] if job.agent == "ppo" else [*parts[-2], *parts[-1]]
    return {
        "job": asdict(job),
        "last": round(statistics.fmean(at_end), 1),
        "curve": [round(statistics.fmean(part), 1) if part else None for part in parts],
        "seconds": round(time.perf_counter() - began, 1),
    }


def with_supple(job: Job) -> Episodes:
    common = {"env": job.env, "steps": job.steps, "seed": job.seed, "eval_episodes": 0}
    common |= {"checkpoint_every": job.steps, "measure_every": job.steps, "compile": "on"}
    own = ARMS[job.agent][job.arm]
    settings: AgentSettings = PPOSettings(**common, **own) if job.agent == "ppo" else SACSettings(**common, **own)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        prepare(RunSpec(job.agent, settings, command="benchmarks/learning.py"), path, print).train(lambda step: None)
        lines = map(json.loads, (path / "episodes.jsonl").read_text().splitlines())
        return [(line["step"], line["return"]) for line in lines]


def with_sb3(job: Job) -> Episodes:
    import stable_baselines3 as sb3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    class Record(BaseCallback):
        episodes: Episodes

        def _init_callback(self) -> None:
            self.episodes = []

        def _on_step(self) -> bool:
            infos = (info["episode"] for info in self.locals["infos"] if "episode" in info)
            self.episodes += [(self.num_timesteps, float(episode["r"])) for episode in infos]
            return True

    record = Record()
    if job.agent == "ppo":
        env = VecNormalize(make_vec_env(job.env, 8, seed=job.seed))
        sb3.PPO("MlpPolicy", env, n_steps=256, seed=job.seed, device="cpu").learn(job.steps, record)
    else:
        env = make_vec_env(job.env, 1, seed=job.seed)
        sb3.SAC("MlpPolicy", env, buffer_size=100_000, seed=job.seed, device="cpu").learn(job.steps, record)
    return record.episodes


def show(agent: str, rows: Sequence[Row]) -> None:
    """Print the scores of every arm in every environment as Markdown, and draw the learning curves."""
    for steps in sorted({row["job"]["steps"] for row in rows}):
        envs = [env for env in ENVS[agent] if any(row["job"]["env"] == env for row in rows)]
        which = f"the last {LAST} training episodes" if agent == "ppo" else "the training episodes in the last tenth"
        print(f"\n{steps:,} steps: mean return of {which}\n")
        print(f"| | {' | '.join(envs)} | seconds a run |\n|{'---|' * (len(envs) + 2)}")
        for arm in (SB3, *ARMS[agent]):
            found = {env: runs_of(rows, arm, env, steps) for env in envs}
            if seconds := [row["seconds"] for group in found.values() for row in group]:
                cells = (format_cell([row["last"] for row in group]) for group in found.values())
                print(f"| {arm} | {' | '.join(cells)} | {statistics.median(seconds):.0f} |")
        ours = next(iter(ARMS[agent]))
        print(f"| {ours} − {SB3} | {' | '.join(difference(rows, ours, env, steps) for env in envs)} | |")
        draw(agent, rows, envs, steps)


def runs_of(rows: Sequence[Row], arm: str, env: str, steps: int) -> list[Row]:
    """Return the runs of an arm in an environment, by seed."""
    found = [row for row in rows if (row["job"]["arm"], row["job"]["env"], row["job"]["steps"]) == (arm, env, steps)]
    return sorted(found, key=lambda row: row["job"]["seed"])


def format_cell(scores: Sequence[float]) -> str:
    """Return a mean, its 95 % t interval, and the scores by seed."""
    if not scores:
        return ""
    around = t_interval(scores)
    span = "" if around is None else f" [{around[0]:,.0f}, {around[1]:,.0f}]"
    return f"{statistics.fmean(scores):,.0f}{span}: {', '.join(f'{score:,.0f}' for score in scores)}"


def difference(rows: Sequence[Row], arm: str, env: str, steps: int) -> str:
    """Return the difference of an arm's mean to SB3's, with Welch's 95 % interval and p."""
    from scipy.stats import ttest_ind

    scores, theirs = ([row["last"] for row in runs_of(rows, each, env, steps)] for each in (arm, SB3))
    if min(len(scores), len(theirs)) < 2:
        return ""
    test = ttest_ind(scores, theirs, equal_var=False)
    low, high = test.confidence_interval()
    gap = statistics.fmean(scores) - statistics.fmean(theirs)
    return f"{gap:,.0f} [{low:,.0f}, {high:,.0f}], p = {test.pvalue:.2f}"


def draw(agent: str, rows: Sequence[Row], envs: Sequence[str], steps: int) -> None:
    """Draw the mean curve of SB3 and of our arms in `DRAWN` in each environment, with every seed behind it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import numpy as np

    figure, panels = plt.subplots(1, len(envs), figsize=(3.4 * len(envs), 3), squeeze=False)
    at = (np.arange(PARTS) + 0.5) * steps / PARTS / 1000
    for panel, env in zip(panels[0], envs, strict=True):
        for arm, colour in zip(DRAWN[agent], ("tab:orange", "tab:blue", "tab:green"), strict=False):
            curves = np.array([row["curve"] for row in runs_of(rows, arm, env, steps)], float)
            if len(curves):
                panel.plot(at, curves.T, color=colour, alpha=0.25, linewidth=0.8)
                label = "Stable-Baselines3" if arm == SB3 else f"supple, {arm}"
                panel.plot(at, np.nanmean(curves, 0), color=colour, linewidth=2, label=label)
        panel.set(title=env, xlabel="thousand environment steps")
    panels[0][0].set_ylabel("mean training return")
    panels[0][0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(IMAGES / f"learning-{agent}-{steps // 1000}k.png", dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main(tyro.cli(Options))
