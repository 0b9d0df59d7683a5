"""Re-balancing of a LoRA's A and B in a run of tasks."""

from pathlib import Path
from typing import Any

import pytest

from supple.registry.errors import RunError, UsageError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["inclora", "seqlora"])
def test_loras_are_balanced_where_the_hook_says(trials: Any, tmp_path: Path, method: str) -> None:
    run = trials.run(tmp_path / "run", method, hook=("rebalance(lam=-0.5)@6",))
    (event,) = [event for event in trials.log(run, "events") if event["event"] == "intervention"]
    assert event["after"]["lambda_balance"] == pytest.approx(-0.5, abs=1e-5)
    assert event["after"]["lambda_residual"] < 1e-5 < event["before"]["lambda_residual"]
    assert event["after"]["gradient_norm"] > 0
    assert event["change"]["feature_covariance_distance"] < 1e-5


def test_adapters_with_routing_have_no_linear_pair(trials: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'model' has no two consecutive linear maps"):
        trials.run(tmp_path / "run", "moram", hook=("rebalance@task",))


def test_rebalancing_a_fresh_lora_to_zero_is_refused(trials: Any, tmp_path: Path) -> None:
    """B is zero, so A would have to be zero at λ = 0 too, and the gradients of both would vanish."""
    with pytest.raises(RunError, match=r"a map of .* is zero, so lam=0"):
        trials.run(tmp_path / "run", "seqlora", hook=("rebalance@start",))
