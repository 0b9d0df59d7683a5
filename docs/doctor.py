"""How often does `supple doctor` err? The tables of docs/results/doctor.md.

    python docs/doctor.py run set        # seeds from 100 on: those on which thresholds were looked at
    python docs/doctor.py run report     # seeds from 0 on: false alarms and misses
    python docs/doctor.py show report    # the tables

A network is diagnosed at a checkpoint, and called healthy or lost by what the same run does after that: it goes on to
learn in the same world, or on the next task of the same stream. Nothing of the diagnosis has a part in that. What lies
between the two bounds is neither, and counts nowhere.

Every finished run is one line in docs/results/doctor/, and is not repeated. Runs are made one after the other on one
core, in a temporary folder.
"""

import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import torch
import tyro
from rich.console import Console
from rich.table import Table
from scipy.stats import binomtest

from supple.agents.dqn import DQNSettings
from supple.agents.ppo import PPOSettings
from supple.agents.presets import GYM_CONTROL
from supple.agents.suites import NINE_ROOMS
from supple.engine.loading import load_states, steps_of
from supple.engine.runs import prepare
from supple.engine.settings import RunSettings
from supple.engine.spec import RunSpec
from supple.metrics import Diagnosis, diagnose
from supple.tracks.language.pretrain.settings import PretrainSettings
from supple.tracks.vision.settings import VisionSettings

LEVELS = {  # four short levels at the learning rate of TRAC's notebook: the runs that were reported
    **GYM_CONTROL,
    "cycles": 4,
    "steps_per_task": 20_000,
    "hidden": (128, 128, 128),
    "learning_rate": 1e-2,
    "measure_every": 4_000,
    "checkpoint_every": 250_000,
    "compile": "on",
}
FOLDER = Path(__file__).parent / "results" / "doctor"
ALARMS = ("lost", "silent")
FIRST_SEED = {"set": 100, "report": 0}
Found = tuple[Diagnosis, float]  # of the checkpoint, and how the run did after it


@dataclass(frozen=True)
class Case:
    """Hold a kind of run: how to make and diagnose one, and at which score it is lost (at most) and healthy (at least).

    seeds: of `set` and of `report`.
    """

    name: str
    make: Callable[[int, Path], Found]
    lost: float
    healthy: float
    seeds: tuple[int, int]

    def label(self, score: float) -> str:
        if score <= self.lost:
            return "lost"
        return "healthy" if score >= self.healthy else "neither"


# -- runs of supple ---------------------------------------------------------------------------------------------------


def train_to_end(kind: str, settings: RunSettings, look: int, path: Path) -> Path:
    """Train to the end, with a checkpoint at step `look`; return the run."""
    settings.checkpoint_every, settings.keep_checkpoints, settings.measure_every = look, 2, 10**9
    prepare(RunSpec(kind, settings, command="docs/doctor.py"), path, lambda line: None).train(lambda step: None)
    return path


def diagnose_at(path: Path, look: int) -> Diagnosis:
    """Return the diagnosis of a run's one network at the checkpoint of step `look`."""
    folders = {look: steps_of(path)[look]}
    (diagnosis,) = (diagnose(*work.learners.values()) for _, work in load_states(path, folders, print))
    return diagnosis


def agent(kind: str, settings: Callable[[int], RunSettings], look: int) -> Callable[[int, Path], Found]:
    """Return what trains an agent; its score is `mean_return` of the episodes that end after the checkpoint."""

    def make(seed: int, folder: Path) -> Found:
        path = train_to_end(kind, settings(seed), look, folder / "run")
        episodes = read(path / "episodes.jsonl")
        return diagnose_at(path, look), mean_return([(e["step"], e["return"]) for e in episodes if e["step"] > look])

    return make


def mean_return(episodes: Sequence[tuple[int, float]]) -> float:
    """Return the mean over ten equal spans of steps of the mean return of the episodes that end in each, so that many
    short episodes count no more than a few long ones."""
    first, last = episodes[0][0], episodes[-1][0] + 1
    parts: dict[int, list[float]] = defaultdict(list)
    for step, value in episodes:
        parts[(step - first) * 10 // (last - first)].append(value)
    return statistics.fmean(map(statistics.fmean, parts.values()))


def control(**own: Any) -> Callable[[int, Path], Found]:
    """Return a run of four levels of gym-control: 8,000 steps of the last are behind it, 12,000 before it."""
    return agent("ppo", lambda seed: PPOSettings(**LEVELS, seed=seed, **own), 68_000)


def rooms(*hooks: str) -> Callable[[int, Path], Found]:
    """Return a run of nine-rooms-small, in the middle of its last goal."""
    own = {**NINE_ROOMS, "cycles": 5, "steps_per_task": 25_600, "hook": hooks}
    return agent("ppo", lambda seed: PPOSettings(**own, seed=seed), 115_200)


def plain(env: str, steps: int, **own: Any) -> Callable[[int, Path], Found]:
    """Return a run of PPO's defaults with two layers of 64, in its middle."""
    own = {"env": env, "steps": steps, "hidden": (64, 64), "adapter": 0, "eval_episodes": 0, **own}
    return agent("ppo", lambda seed: PPOSettings(**own, seed=seed), steps // 2)


def dqn(seed: int) -> DQNSettings:
    return DQNSettings(
        env="CartPole-v1", steps=20_000, seed=seed, num_envs=1, hidden=(128, 128), learning_rate=5e-4,
        replay_size=20_000, learning_starts=1_000, target_period=500, exploration_steps=5_000, eval_episodes=0,
    )  # fmt: skip


def labels(tasks: int, **own: Any) -> Callable[[int, Path], Found]:
    """Return a run of random-label MNIST, 1,200 images for 40 epochs a task, before its last task.

    Its score is the accuracy at the end of that, as a share of the accuracy at the end of the first.
    """
    per_task = 1_200 * 40 // 16

    def make(seed: int, folder: Path) -> Found:
        settings = VisionSettings(
            stream="random-labels", images=1_200, epochs=40, tasks=tasks, seed=seed, compile="on", **own
        )
        look = (tasks - 1) * per_task
        path = train_to_end("vision", settings, look, folder / "run")
        accuracy = [task["test_accuracy"] for task in read(path / "tasks.jsonl")]
        return diagnose_at(path, look), accuracy[-1] / accuracy[0]

    return make


def gpt(seed: int, folder: Path) -> Found:
    """Return a small GPT after its first corpus; its score: how much less loss it has on the next than a new one."""
    size: dict[str, Any] = {"layers": 2, "width": 64, "heads": 4, "block_size": 64, "batch_size": 16}
    size |= {"micro_batch": 16, "tokenizer": "bytes", "learning_rate": 1e-3, "eval_every": 0, "seed": seed}
    both = PretrainSettings(
        first=("kjv",), first_share=0.05, second=("brown",), pretrain_steps=400, warmup=40, steps=200, **size
    )
    new = PretrainSettings(first=("brown",), pretrain_steps=200, warmup=20, **size)
    runs = train_to_end("pretrain", both, 400, folder / "run"), train_to_end("pretrain", new, 200, folder / "new")
    loss, fresh = (read(run / "tasks.jsonl")[-1]["val_loss/brown"] for run in runs)
    return diagnose_at(runs[0], 400), fresh - loss


# -- models of Stable-Baselines3 --------------------------------------------------------------------------------------

SB3: dict[str, dict[str, Any]] = {
    # RL Zoo's for CartPole, with a quarter of the buffer
    "DQN": {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 25_000, "learning_starts": 1_000,
            "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
            "exploration_final_eps": 0.04, "policy_kwargs": {"net_arch": [256, 256]}},
    "PPO": {},
}  # fmt: skip


def sb3(algorithm: str, steps: int) -> Callable[[int, Path], Found]:
    """Return a model of SB3 that is saved in the middle of training, examined as `--sb3` does; it then goes on."""

    def make(seed: int, folder: Path) -> Found:
        import stable_baselines3
        from stable_baselines3.common.monitor import Monitor

        from supple.integrations.sb3 import learners_of_saved

        env = Monitor(gym.make("CartPole-v1"))
        model = getattr(stable_baselines3, algorithm)("MlpPolicy", env, seed=seed, device="cpu", **SB3[algorithm])
        model.learn(steps // 2)
        model.save(folder / "model.zip")
        before = len(env.get_episode_rewards())
        model.learn(steps - steps // 2, reset_num_timesteps=False)
        more = {key: value for key, value in SB3[algorithm].items() if key == "policy_kwargs"}
        learners = learners_of_saved(folder / "model.zip", algorithm, "CartPole-v1", **more)
        returns, ends = env.get_episode_rewards(), list(accumulate(env.get_episode_lengths()))
        return diagnose(*learners.values()), mean_return([*zip(ends, returns, strict=True)][before:])

    return make


POLE = (15.0, 30.0)  # return: one that pushes one way has 9.3, one that acts at random 22
UNSHIFTED = (30.0, 100.0)
SWING = (-400.0, -150.0)  # return: one that never swings up has −500
GOAL = (-5.0, 0.0)  # return: one that never comes near the goal has −8 to −14, a fresh agent 2
SHARE = (0.5, 0.8)  # of the accuracy on the first task
NATS = (-0.2, -0.05)  # a byte, less than a new one has
CASES = (
    Case("gym-control, none", control(), *POLE, (2, 5)),
    Case("random labels, relu, task 3", labels(3), *SHARE, (2, 5)),
    Case("PPO, CartPole", plain("CartPole-v1", 40_960), *UNSHIFTED, (2, 4)),
    Case("gym-control, fresh", control(fresh=True), *POLE, (2, 4)),
    Case("random labels, leaky_relu, task 10", labels(10, activation="leaky_relu(negative_slope=0.8)"), *SHARE,
         (2, 3)),
    Case("random labels, relu, task 10", labels(10), *SHARE, (2, 3)),
    Case("gym-control, reset@task", control(hook=("reset@task",)), *POLE, (2, 3)),
    Case("gym-control, fire@task", control(hook=("fire@task",)), *POLE, (2, 3)),
    Case("DQN, CartPole", agent("dqn", dqn, 10_000), *UNSHIFTED, (2, 2)),
    Case("PPO, Acrobot", plain("Acrobot-v1", 81_920), *SWING, (1, 2)),
    Case("GPT, next corpus", gpt, *NATS, (1, 2)),
    Case("SB3's PPO, CartPole", sb3("PPO", 20_000), *UNSHIFTED, (1, 2)),
    Case("SB3's DQN, CartPole", sb3("DQN", 50_000), *UNSHIFTED, (1, 1)),
    Case("random labels, relu + l2_init, task 10", labels(10, hook=("l2_init(strength=1e-3)",)), *SHARE,
         (1, 1)),
    Case("nine-rooms, none", rooms(), *GOAL, (1, 1)),
    Case("nine-rooms, fire@task", rooms("fire@task"), *GOAL, (1, 1)),
)  # fmt: skip


# -- what is written and shown ----------------------------------------------------------------------------------------


@dataclass
class Options:
    what: Annotated[Literal["run", "show"], tyro.conf.Positional]
    seeds: Annotated[Literal["set", "report"], tyro.conf.Positional]
    only: str = ""
    """Run only kinds whose names hold this."""


def main(o: Options) -> None:
    out = FOLDER / f"{o.seeds}.jsonl"
    if o.what == "show":
        show(o.seeds, read(out))
        return
    torch.set_flush_denormal(True)  # as in runs
    torch.set_num_threads(1)
    gym.logger.min_level = gym.logger.ERROR
    out.parent.mkdir(parents=True, exist_ok=True)
    have = {(row["case"], row["seed"]) for row in read(out)}
    jobs = [(seed, case) for case in CASES for seed in range(case.seeds[o.seeds == "report"]) if o.only in case.name]
    for number, case in sorted(jobs, key=lambda job: job[0]):  # one seed of every kind, then the next
        seed = FIRST_SEED[o.seeds] + number
        if (case.name, seed) in have:
            continue
        row = examine_one(case, seed)
        with out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(*(row[k] for k in ("case", "seed", "is", "score", "verdict", "loss", "new_loss", "entropy")),
              f"{row['seconds']:.0f} s", *row["signs"], flush=True)  # fmt: skip


def examine_one(case: Case, seed: int) -> dict[str, Any]:
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        found, score = case.make(seed, Path(folder))
    return {
        "case": case.name, "seed": seed, "is": case.label(score), "score": round(score, 3), "verdict": found.state,
        "loss": round(found.loss, 4), "new_loss": round(found.new_loss, 4), "entropy": found.now.entropy,
        "new_entropy": found.new.entropy, "signs": found.signs, "units": [asdict(u) for u in found.now.units],
        "new_units": [asdict(u) for u in found.new.units], "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.open()] if path.exists() else []


def rows_of_case(rows: list[dict[str, Any]]) -> Iterator[tuple[Case, list[dict[str, Any]]]]:
    for case in CASES:
        if own := [row for row in rows if row["case"] == case.name]:
            yield case, own


def show(seeds: str, rows: list[dict[str, Any]]) -> None:
    table = Table("run", "is", "score", "verdict", "error", "at initialisation", "entropy",
                  title=f"{seeds}: {len(rows)} runs")  # fmt: skip
    for case, own in rows_of_case(rows):
        table.add_row(
            case.name, count(own, "is"), format_interval([row["score"] for row in own]), count(own, "verdict"),
            format_interval([row["loss"] for row in own]), format_interval([row["new_loss"] for row in own]),
            format_interval([row["entropy"] for row in own if row["entropy"] is not None]),
        )  # fmt: skip
    Console().print(table)
    for kind, wrong, name in (("healthy", True, "false alarms"), ("lost", False, "misses")):
        own = [row for row in rows if row["is"] == kind]
        if own:
            errors = sum((row["verdict"] in ALARMS) is wrong for row in own)
            around = binomtest(errors, len(own)).proportion_ci(0.95, "exact")
            print(f"{name}: {errors} of {len(own)} {kind} runs, [{around.low:.1%}, {around.high:.1%}]: "
                  f"{count(own, 'verdict')}")  # fmt: skip


def count(rows: list[dict[str, Any]], column: str) -> str:
    words = [row[column] for row in rows]
    return ", ".join(f"{words.count(each)} {each}" for each in dict.fromkeys(words))


def format_interval(values: list[float]) -> str:
    return ", ".join(f"{value:.2g}" if abs(value) < 10 else f"{value:.0f}" for value in sorted(values)) or "–"


if __name__ == "__main__":
    main(tyro.cli(Options))
