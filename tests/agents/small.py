"""Small runs of all agents, in which everything happens within a few hundred steps."""

import json
from pathlib import Path
from typing import Any

from supple.agents.settings import AgentSettings
from supple.engine.kinds import find_kind
from supple.engine.runs import prepare
from supple.engine.spec import RunSpec

SEEDS = (3, 8, 5)
KINDS = ("ppo", "dqn", "sac")
COMMON: dict[str, Any] = {
    "num_envs": 2, "measure_every": 60, "eval_episodes": 2, "checkpoint_every": 60, "cycles": 2, "steps_per_task": 120,
    "device": "cpu", "compile": "off",
}  # fmt: skip
REPLAY: dict[str, Any] = {"learning_starts": 40, "replay_size": 300, "batch_size": 8}
OWN: dict[str, dict[str, Any]] = {
    "ppo": {"env": "CartPole-v1", "rollout_steps": 20, "minibatch_size": 10, "epochs": 2, "hidden": (16, 16)},
    "dqn": REPLAY | {
        "env": "CartPole-v1", "hidden": (16, 16), "target_period": 60, "exploration_steps": 100, "learning_rate": 1e-3,
    },
    "sac": REPLAY | {
        "env": "Pendulum-v1", "network": "mlp", "hidden": (16, 16), "replay_ratio": 0.5, "max_episode_steps": 30,
    },
}  # fmt: skip
SHIFTS = {"ppo": "offset(scale=2,over=50)", "dqn": "offset(scale=2)", "sac": "offset(scale=0.5)"}


def settings(kind: str, **own: Any) -> AgentSettings:
    """Return the settings of a run of two tasks, which are shifted, or as `own` says."""
    values = {**COMMON, **OWN[kind], **own}
    shift = SHIFTS[kind] if values["cycles"] > 1 and "sequence" not in own else None
    made: AgentSettings = find_kind(kind).settings_class()(**{"shift": shift, **values})
    return made


def train(kind: str, folder: Path, seeds: tuple[int, ...] = (0,), **own: Any) -> Path:
    prepare(RunSpec(kind, settings(kind, **own).of(seeds)), folder, lambda line: None).train()
    return folder


def lines(run: Path, log: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / f"{log}.jsonl").read_text().splitlines()]
