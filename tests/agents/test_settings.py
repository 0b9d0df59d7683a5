"""Settings of agents: one environment or a stream of several. Settings that cannot work are refused in one line."""

from typing import Any

import pytest

from supple.agents.settings import AgentSettings
from supple.registry.errors import UsageError


def test_the_stream_comes_from_env_and_steps_or_where_there_are_several_tasks_from_steps_per_task() -> None:
    assert AgentSettings(env="hopper", steps=8).stream() == ("hopper", 8)
    assert AgentSettings(sequence="hopper,ant", steps_per_task=8, cycles=3).stream() == ("hopper,ant", 8)
    assert AgentSettings(env="hopper", steps_per_task=8, cycles=3).stream() == ("hopper", 8)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"env": "a", "sequence": "b"}, "give either --env"),
        ({"env": "a"}, "--steps is missing"),
        ({"env": "a", "cycles": 2}, "--steps-per-task is missing"),
        ({"env": "a", "steps": 1, "steps_per_task": 1}, "either --steps .* or --steps-per-task"),
        ({"sequence": "a", "steps": 1}, "--steps cannot be combined with --sequence: use --steps-per-task"),
        ({"env": "a", "steps": 0}, "--steps must be a positive number, got 0"),
        ({"sequence": "a", "steps_per_task": 1, "cycles": 0}, "--cycles must be a positive number"),
    ],
)
def test_contradictory_streams_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        AgentSettings(**values).stream()
