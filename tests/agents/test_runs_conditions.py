"""Hooks with conditions on agents of several seeds: each seed meets them on its own, at its own steps."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from supple.engine.runs import open_run
from supple.registry.errors import UsageError
from tests.agents.small import KINDS, SEEDS, lines
from tests.agents.small import train as trained
from tests.agents.test_runs_stacked import require_alike, rows

pytestmark = pytest.mark.slow

SMALL: dict[str, Any] = {"cycles": 1, "steps_per_task": 120, "measure_every": 40, "checkpoint_every": 40, "shift": None}
LEARNER = {"ppo": "agent", "dqn": "q", "sac": "critic"}


def train(name: str, folder: Path, seeds: tuple[int, ...], *hooks: str) -> Path:
    return trained(name, folder, seeds, **SMALL, eval_episodes=0, keep_checkpoints=5, hook=hooks)


def firings(run: Path, seed: int) -> list[tuple[int, str, str]]:
    ours = [e for e in lines(run, "events") if e["event"] == "intervention" and seed in e.get("seeds", [seed])]
    return [(e["step"], e["hook"], e["learner"]) for e in ours]


@pytest.fixture(scope="module", params=KINDS)
def conditions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[str]]:
    """A kind of agent, and conditions that two of three seeds meet at the first measurement."""
    name, metric = request.param, f"{LEARNER[request.param]}/weight_norm"
    run = train(name, tmp_path_factory.mktemp("plain") / "run", SEEDS)
    first = sorted(next(row[metric] for row in rows(run, "metrics", seed) if metric in row) for seed in SEEDS)
    return name, [f"@when:{metric}>{(first[0] + first[1]) / 2!r}", f"@when:{metric}<{(first[1] + first[2]) / 2!r}"]


def test_each_seed_meets_a_condition_as_in_its_run_alone(conditions: tuple[str, list[str]], tmp_path: Path) -> None:
    name, (high, low) = conditions
    hooks = (f"fire{high}", f"snp(toward=fresh,noise=0.01){low}", f"redo(tau=0.5){low}", "l2_init(strength=0.1)")
    stack = train(name, tmp_path / "stack", SEEDS, *hooks)
    assert 0 < sum(firings(stack, seed)[0][:2] == (40, hooks[0]) for seed in SEEDS) < len(SEEDS)
    for seed in SEEDS:
        alone = train(name, tmp_path / str(seed), (seed,), *hooks)
        assert firings(stack, seed) == firings(alone, seed)
        require_alike(rows(stack, "metrics", seed)[:2], rows(alone, "metrics")[:2], 2e-3)


def test_a_resumed_stack_goes_on_with_what_each_seed_has_met(
    conditions: tuple[str, list[str]], same: Any, tmp_path: Path
) -> None:
    name, (high, low) = conditions
    run = train(
        name, tmp_path / "run", SEEDS, f"hare_tortoise(momentum=0.5){high}", f"snp(toward=fresh,noise=0.1){low}"
    )
    again = tmp_path / "again"
    shutil.copytree(run, again)
    for folder in sorted((again / "checkpoints").iterdir(), key=lambda folder: int(folder.name))[1:]:
        shutil.rmtree(folder)
    open_run(again, print).train()
    same.assert_runs(again, run)


def test_what_changes_networks_is_refused_with_a_condition_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="muon changes the structure of the networks, which the seeds of a stack share"
    ):
        train("ppo", tmp_path / "run", SEEDS, "muon@when:agent/weight_norm>0")
