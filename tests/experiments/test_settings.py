"""Settings that cannot work are refused in one line that names the option."""

import math
from typing import Any

import pytest

from supple.experiments.errors import UsageError
from supple.experiments.settings import RunSettings, positive


def test_the_stream_comes_from_env_and_steps_or_from_sequence_and_steps_per_task() -> None:
    assert RunSettings(env="hopper", steps=8).stream() == ("hopper", 8)
    assert RunSettings(sequence="hopper,ant", steps_per_task=8, cycles=3).stream() == ("hopper,ant", 8)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "give either --env"),
        ({"env": "a", "sequence": "b"}, "give either --env"),
        ({"env": "a"}, "--steps is missing"),
        ({"sequence": "a"}, "--steps-per-task is missing"),
        ({"env": "a", "steps": 1, "steps_per_task": 1}, "--steps-per-task does not go with --env: use --steps"),
        ({"sequence": "a", "steps": 1}, "--steps does not go with --sequence: use --steps-per-task"),
        ({"env": "a", "steps": 1, "cycles": 2}, "--cycles goes with --sequence"),
        ({"env": "a", "steps": 0}, "--steps must be a positive number, got 0"),
        ({"sequence": "a", "steps_per_task": -1}, "--steps-per-task must be a positive number"),
        ({"sequence": "a", "steps_per_task": 1, "cycles": 0}, "--cycles must be a positive number"),
    ],
)
def test_streams_that_cannot_be_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RunSettings(**values).stream()


@pytest.mark.parametrize("name", ["threads", "checkpoint_every", "keep_checkpoints", "measure_every"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_what_counts_must_be_positive(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} must be"):
        RunSettings(**{name: value}).check()


def test_seed_and_evaluation_episodes_may_be_0_but_not_less() -> None:
    RunSettings(seed=0, eval_episodes=0).check()
    for name in ("seed", "eval_episodes"):
        with pytest.raises(UsageError, match="must be 0 or more, got -1"):
            RunSettings(**{name: -1}).check()


def test_positive_lets_what_was_not_given_pass() -> None:
    positive(**{"--a": None, "--b": 1e-9})
    with pytest.raises(UsageError, match="--c must be a positive number, got 0"):
        positive(**{"--a": None, "--b": 1e-9, "--c": 0})
