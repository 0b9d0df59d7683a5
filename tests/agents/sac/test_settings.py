"""Environments and settings that SAC cannot work with."""

from typing import Any

import pytest

from supple.agents.sac import SACSettings


@pytest.mark.parametrize(
    ("changes", "worth"),
    [
        ({}, False),  # SimBa with critics of 512
        ({"critic_width": 128}, True),
        ({"network": "mlp", "hidden": (64, 64)}, True),
        ({"network": "mlp", "hidden": (64, 256)}, False),
    ],
)
def test_seeds_with_small_networks_are_stacked_on_a_cpu(changes: dict[str, Any], worth: bool) -> None:
    settings = SACSettings(env="Pendulum-v1", steps=20_000, device="cpu", **changes)
    assert settings.group((0, 1, 2)) == (((0, 1, 2),) if worth else ((0,), (1,), (2,)))


def test_a_stack_that_draws_activations_for_each_seed_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supple.agents.offpolicy.settings.compile_problem", lambda: None)

    def resolved(activation: str, *seeds: int) -> tuple[str, str | None]:
        own: dict[str, Any] = {"env": "Pendulum-v1", "steps": 20_000, "device": "cpu", "compile": "on"}
        settings = SACSettings(**own, activation=activation, seeds=seeds)
        note = settings.resolve()
        return settings.compile, note

    assert resolved("rand_smooth_leaky", 0, 1) == (
        "off", "--activation rand_smooth_leaky draws for each seed of a stack: updates run in eager mode, slower",
    )  # fmt: skip
    assert resolved("rand_smooth_leaky")[0] == "on"
    assert resolved("relu", 0, 1)[0] == "on"
