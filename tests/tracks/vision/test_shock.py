"""The shock protocol of Lillo & Cheney (2025), Appendix D.1."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm
from torch.testing import assert_close

from supple.interventions import make, parse_call
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.model import Model
from supple.tracks.vision.shock import Shock


def shocked(lab: Any, data: DataSet, **changes: Any) -> tuple[Model, Shock]:
    model = lab.model(data, **changes)
    return model, Shock(model, (1.5, 0.5, 0.25, 2.0), every=10)


def outputs(model: Model) -> Tensor:
    with torch.no_grad():
        return model.network(*model.learner.probe())


def test_every_tenth_epoch_has_the_next_factor_and_all_others_none(lab: Any, data: DataSet) -> None:
    _, shock = shocked(lab, data)
    gammas = []
    for epoch in range(60):
        shock.set(epoch, before=9)  # as after one task of 100 epochs
        gammas.append(shock.gamma)
    assert [epoch for epoch, gamma in enumerate(gammas) if gamma != 1.0] == [10, 20, 30, 40, 50]
    assert gammas[10::10] == [0.5, 0.25, 2.0, 1.5, 0.5]


@pytest.mark.parametrize("exchange", [None, "swap(activation=leaky_relu)", "injection", "nap"])
def test_pre_activations_are_scaled_and_nothing_else_until_it_is_over(
    lab: Any, data: DataSet, exchange: str | None
) -> None:
    """Also of units that an intervention added, and of those that it normalises (which would undo the factor)."""
    model, shock = shocked(lab, data, activation="tanh")
    if exchange:
        call = parse_call(exchange)
        make(call.name, **call.params).apply(model.learner)
    with torch.no_grad():
        for p in model.network.parameters():
            p.mul_(1.1)  # an injected head is no longer its twin
    mlp = model.network.mlp.new if exchange == "injection" else model.network.mlp
    plain = outputs(model)
    shock.set(40)
    assert not torch.allclose(outputs(model), plain)
    first, act, second, again, head = mlp
    (x,) = model.learner.probe()
    norm = partial(layer_norm, normalized_shape=(100,)) if exchange == "nap" else Tensor.clone
    hidden = again.forward(2 * norm(second(act.forward(2 * norm(first(x.flatten(2)))))))
    assert_close(mlp(x.flatten(2)), head(hidden))
    shock.set(41)
    assert torch.equal(outputs(model), plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "gammas"),
    [
        # tasks of 5 epochs of 6 updates: shocks in the epochs 2 and 4 of each, in turn over the stream
        ({"shock_every": 2, "epochs": 5}, ([1.0, 1.0, 4.0, 1.0, 0.25], [1.0, 1.0, 1.0, 2.0, 1.0, 4.0])),
        # tasks of 15 updates, 2.5 epochs: two shocks each
        ({"shock_every": 1, "updates_per_task": 15}, ([1.0, 4.0, 0.25], [1.0, 1.0, 2.0, 4.0])),
    ],
)
def test_a_run_logs_factor_and_saturation_epoch_by_epoch(
    lab: Any, tmp_path: Path, changes: dict[str, Any], gammas: tuple[list[float], list[float]]
) -> None:
    run = lab.run(tmp_path / "run", shocks=(4.0, 0.25, 2.0), eval_epochs=1, activation="tanh", **changes)
    rows = [row for row in lab.log(run, "metrics") if "gamma" in row]
    assert tuple([row["gamma"] for row in rows if row["task"] == task] for task in (0, 1)) == gammas
    assert all(0 <= row["saturated_fraction"] <= 1 for row in rows)
