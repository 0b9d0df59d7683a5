"""Agents of several seeds that are trained at once: each is its run alone, and resumed runs are the same."""

from pathlib import Path
from typing import Any

import pytest

from supple.experiments.api import compare
from supple.registry.errors import UsageError
from tests.agents.small import KINDS, SEEDS, lines, settings, train


def rows(run: Path, log: str, seed: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a log, those of one member for a stack, without what differs between any two runs."""
    own = [row for row in lines(run, log) if seed is None or row.get("seed") == seed]
    return [{name: value for name, value in row.items() if name not in ("seed", "time")} for row in own]


def require_alike(ours: list[dict[str, Any]], alone: list[dict[str, Any]], tolerance: float) -> None:
    assert [list(row) for row in ours] == [list(row) for row in alone]
    for own, other in zip(ours, alone, strict=True):
        for key, value in other.items():
            wanted = value if isinstance(value, str) else pytest.approx(value, rel=tolerance, abs=tolerance)
            assert own[key] == wanted, (key, other["step"])


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_each_member_of_a_stack_trains_as_its_run_alone(name: str, tmp_path: Path) -> None:
    stack = train(name, tmp_path / "stack", SEEDS)
    for seed in SEEDS[:2]:
        alone = train(name, tmp_path / str(seed), (seed,))
        require_alike(rows(stack, "episodes", seed)[:6], rows(alone, "episodes")[:6], 1e-6)
        require_alike(rows(stack, "metrics", seed)[:1], rows(alone, "metrics")[:1], 2e-3)


def test_a_stack_and_a_run_alone_measure_the_same_costly_metrics(tmp_path: Path) -> None:
    own = {"cycles": 1, "curvature": True, "measure_every": 120}
    stack, alone = (train("ppo", tmp_path / str(len(seeds)), seeds, **own) for seeds in (SEEDS[:2], SEEDS[:1]))
    assert "agent/lambda_max" in rows(alone, "metrics")[0]
    require_alike(rows(stack, "metrics", SEEDS[0])[:1], rows(alone, "metrics")[:1], 2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_arms_of_stacks_begin_at_the_identical_state(name: str, here: Any, tmp_path: Path) -> None:
    folder = tmp_path / "c" / "seeds-3-8-5"
    with here():
        compare(name, settings(name, stack=3), ["none", "fire@120"], out=tmp_path / "c", seeds=SEEDS, fork_at=0.5)
    whole = train(name, tmp_path / "whole", SEEDS)
    for seed in SEEDS:
        arm, trunk = (rows(folder / part, "episodes", seed) for part in ("none", "trunk"))
        assert trunk + arm == rows(whole, "episodes", seed)


def test_seeds_are_grouped_as_evenly_as_possible() -> None:
    one = settings("ppo")
    assert one.group((0,)) == ((0,),)
    assert one.group(tuple(range(4))) == (tuple(range(4)),)
    assert one.group(tuple(range(5))) == ((0, 1, 2), (3, 4))  # for two cores
    assert [len(seeds) for seeds in one.group(tuple(range(11)))] == [4, 4, 3]
    assert settings("ppo", stack="off").group((0, 1)) == ((0,), (1,))
    assert settings("ppo", stack=2).group((4, 7, 1)) == ((4, 7), (1,))


def test_a_stack_of_more_seeds_than_there_are_is_refused_unless_they_are_added_to_a_comparison() -> None:
    with pytest.raises(UsageError, match="--stack 3 needs 3 seeds or more, got 2"):
        settings("ppo", stack=3).group((0, 1))
    assert settings("ppo", stack=3).group((3, 4), added=True) == ((3, 4),)
    with pytest.raises(UsageError, match="--stack 3 needs 3 seeds or more, got 1"):
        settings("ppo", stack=3).check()


def test_the_settings_of_a_stack_say_so() -> None:
    stack, alone = settings("sac").of((3, 8)), settings("sac").of((3,))
    assert (stack.seed, stack.seeds, stack.stack, stack.stacked) == (3, (3, 8), 2, True)  # type: ignore[attr-defined]
    assert (alone.seed, alone.seeds, alone.stack, alone.stacked) == (3, (), "off", False)  # type: ignore[attr-defined]
