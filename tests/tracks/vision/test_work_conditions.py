"""Hooks with conditions on a stack of classifiers: each seed meets them on its own, at its own steps."""

from pathlib import Path
from typing import Any

import pytest

from supple.engine.runs import prepare
from supple.engine.spec import RunSpec

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2)
said: list[str] = []
SHORT: dict[str, Any] = {"measure_every": 6, "width": 8, "images": 32, "checkpoint_every": 6, "keep_checkpoints": 9}


def train(lab: Any, out: Path, **changes: Any) -> Path:
    prepare(RunSpec("vision", lab.settings(**SHORT, **changes)), out, said.append).train(lambda _: None)
    return out


def firings(lab: Any, run: Path, seed: int) -> list[tuple[int, str]]:
    events = (event for event in lab.log(run, "events") if event["event"] == "intervention")
    return [(event["step"], event["hook"]) for event in events if seed in event.get("seeds", [seed])]


@pytest.fixture(scope="module")
def hooks(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Conditions that one seed or two of three meet at the first measurement."""
    run = lab.run(tmp_path_factory.mktemp("plain") / "run", seeds=SEEDS, **SHORT)
    norms = sorted(row["model/weight_norm"] for row in lab.log(run, "metrics") if row["step"] == 6)
    high, low = (norms[0] + norms[1]) / 2, (norms[1] + norms[2]) / 2
    return f"fire@when:weight_norm>{high!r}", f"snp(toward=fresh,noise=0.01)@when:weight_norm<{low!r}"


def test_each_seed_meets_a_condition_as_in_its_run_alone(lab: Any, tmp_path: Path, hooks: tuple[str, ...]) -> None:
    stack = train(lab, tmp_path / "stack", seeds=SEEDS, hook=hooks)
    waiting = [str(seed) for seed in SEEDS if hooks[0] not in dict(map(reversed, firings(lab, stack, seed)))]
    assert f"{hooks[0]} never fired for seed {waiting[0]}, because its condition was never met" in said[0]
    assert sum((6, hooks[0]) in firings(lab, stack, seed) for seed in SEEDS) == 2
    for seed in SEEDS:
        alone = train(lab, tmp_path / str(seed), seeds=(seed,), hook=hooks)
        assert firings(lab, stack, seed) == firings(lab, alone, seed)
        for ours, own in zip(lab.log(stack, "metrics", seed), lab.log(alone, "metrics"), strict=True):
            assert ours["model/weight_norm"] == pytest.approx(own["model/weight_norm"], rel=1e-4)
