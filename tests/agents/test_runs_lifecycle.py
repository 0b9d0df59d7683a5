"""Runs of all agents that are resumed or forked where they have a checkpoint: they go on to the same bytes."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from supple.agents.encoders import own_networks
from supple.engine.runs import open_run
from supple.engine.storage.names import slug
from supple.experiments.api import compare
from supple.metrics import trainability
from tests.agents.ppo import pictured
from tests.agents.ppo import test_runs as echo
from tests.agents.small import KINDS, SEEDS, lines, settings, train

pytestmark = pytest.mark.slow

RANDOM = {"activation": "rand_smooth_leaky"}
EXCHANGES = ("muon@0.4", "swap(activation=prelu)@0.4", "redo(tau=0.5)@0.5", "swap(activation=rand_smooth_leaky)@0.8")
STACKED = ("fire@task", "snp@update:30", "redo(tau=0.5)@every:50", "snp@0.6", "cbp(replacement_rate=0.05,maturity=2)")
FALLING = {"schedule": "linear", "schedule_over": "run"}
IMAGES: dict[str, Any] = {
    "encoder": "minatar(channels=[4])", "hidden": (8,), "shift": None,
    "hook": ("fire@0.6", "redo(tau=0.5)@every:80", "l2_init(strength=0.01)"),
}  # fmt: skip
RETURNS: dict[str, Any] = {"critic_head": "categorical", "n_step": 3, "scale_rewards": 5.0}
FORGETTING = {
    "dqn": {
        **RETURNS,
        "replay_sampling": "recency(horizon=100,low=.2)",
        "hook": ("replay(keep=0.3)@every:60", "replay@task", "reset(what=head)@task"),
    },
    "sac": {"replay_sampling": "reservoir", "hook": ("replay@task", "critic/replay(keep=0)@every:60")},
}
RESUMED: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {
    **{f"{kind}, exchanges": (kind, (0,), {"hook": EXCHANGES}) for kind in KINDS},
    **{
        f"{kind}, stack": (kind, SEEDS, {"hook": (*STACKED, "soft_snp(epsilon=0.01)")}) for kind in KINDS
    },
    **{f"{kind}, fresh": (kind, (0,), {"fresh": True, **RANDOM}) for kind in KINDS},
    **{
        f"{kind}, trainability": (kind, (0,), {"hook": ("snp(toward=fresh)@task",), "trainability_every": 40})
        for kind in KINDS
    },
    **{
        f"{kind}, forgetting, {len(seeds)}": (kind, seeds, own)
        for kind, own in FORGETTING.items()
        for seeds in (SEEDS[:1], SEEDS)
    },
    # what any of them forgot would change the run
    "hooks that remember": ("ppo", (0,), {"hook": (
        "trac", "ewc(samples=4)", "snr(window=2,eta=0.4)", "spectral", "cpr(period=7)", "chain",
    )}),
    "other hooks that remember": ("ppo", (0,), {"hook": (
        "upgd", "hare_tortoise@0.8", "chain(share=0.1,window=9)", "l2_er(period=7,rate=0.1)",
    )}),
    "ppo, falling rate": ("ppo", (0,), {**FALLING, "hook": ("muon@0.25",)}),
    "sac, falling rate": ("sac", (0,), {**FALLING, "hook": ("reset@task",)}),
    "ppo, gradual shifts": ("ppo", (0,), {"shift": "offset(scale=2,over=90) + permute_actions(over=90)"}),
    "ppo, restarts": ("ppo", (0,), {"env": "Pendulum-v1", "shift": None, "restart_episodes": True}),

    **{
        f"{kind}, own network": (kind, (0,), {
            "encoder": "body_of_test.py:make_body", "hook": ("redo(tau=0.5)@updates:20", "reset(what=head)@0.7"), **own,
        })
        for kind, own in {
            "ppo": {}, "dqn": {}, "sac": {"network": "simba", "hidden": (256, 256), "critic_width": 8},
        }.items()
    },
    "ppo, bits": ("ppo", (0,), {"env": "EchoBits-v0", "shift": None, "hook": ("fire@0.6",)}),
    "ppo, images, stack": ("ppo", (0, 1), {"env": "ColumnAndTime-v0", **IMAGES}),
    "dqn, spectral": ("dqn", (0,), {
        "double_q": True, "normalization": "spectral", "hook": ("injection@0.4", "fire@0.7"),
    }),
    "dqn, random stack": ("dqn", (3, 5), {**RANDOM, "double_q": True, "hook": ("injection@0.4",)}),
    "sac, priming": ("sac", (0,), {"learning_starts": 90, "priming_updates": 40, **RETURNS}),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _registered() -> None:
    pictured.register()
    echo.register()
    own_networks.register("body_of_test.py:make_body")(make_body)


def make_body(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 6), nn.Dropout(0.1))


@pytest.mark.parametrize("case", RESUMED)
def test_a_resumed_run_is_the_uninterrupted_one(
    case: str, same: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainability, "__defaults__", (3, 1e-3))  # updates, learning rate
    kind, seeds, own = RESUMED[case]
    run = train(kind, tmp_path / "run", seeds, keep_checkpoints=9, **own)
    fired = {event["hook"] for event in lines(run, "events") if event["event"] == "intervention"}
    assert fired >= {hook for hook in own.get("hook", ()) if "@" in hook}
    checkpoints = sorted(folder.name for folder in (run / "checkpoints").iterdir())
    for kept in {1, len(checkpoints) - 1}:
        again = shutil.copytree(run, tmp_path / f"again-{kept}")
        for folder in checkpoints[kept:]:
            shutil.rmtree(again / "checkpoints" / folder)
        open_run(again, print).train()
        same.assert_runs(again, run)


FORKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"{kind}, ewc": (kind, "ewc(strength=5,samples=16)", RANDOM) for kind in KINDS},
    **{
        f"{kind}, updates": (kind, f"snp(lam=0.5)@updates:{count}", {})
        for kind, count in {"ppo": 30, "dqn": 120, "sac": 25}.items()
    },
    "ppo, rate": ("ppo", "snp@task", FALLING | {"eval_tasks": "past"}),
    "dqn, forgetting": ("dqn", "replay(keep=.2)@task", FALLING | RETURNS),
    "ppo, images": ("ppo", "fire@task", IMAGES | {"env": "Column-v0", "hook": ()}),
    "ppo, environments": ("ppo", "fire@task", {
        "sequence": "inverted_pendulum,inverted_double_pendulum", "env": None, "cycles": 1, "adapter": 8,
    }),
}  # fmt: skip


@pytest.mark.parametrize("case", FORKED)
def test_a_fork_at_the_end_of_a_task_equals_the_whole_run_with_the_hook(
    case: str, here: Any, same: Any, tmp_path: Path
) -> None:
    """Hooks that look at the task behind them see what they would have seen in the run that was never forked."""
    kind, hook, own = FORKED[case]
    whole = train(kind, tmp_path / "whole", hook=(hook,), **{name: own[name] for name in own if name != "hook"})
    chosen = settings(kind, **own)
    with here():
        compare(kind, chosen, ["none", hook], out=tmp_path / "forked", seeds=[0], fork_at=0.5, warn=print)
    trunk, plain, arm = (tmp_path / "forked/seed-0" / name for name in ("trunk", "none", slug(hook)))
    assert same.last_state(arm) == same.last_state(whole)
    assert same.last_state(arm) != same.last_state(plain)
    for log in ("episodes", "metrics", "events"):
        assert same.log(trunk, log) + same.log(arm, log) == same.log(whole, log)
