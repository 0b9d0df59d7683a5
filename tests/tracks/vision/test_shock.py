"""The shock protocol of Lillo & Cheney (2025), Appendix D.1."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from supple.interventions import make
from supple.tracks.vision.data import DataSet
from supple.tracks.vision.model import Model
from supple.tracks.vision.shock import Shock


def shocked(lab: Any, data: DataSet, **changes: Any) -> tuple[Model, Shock]:
    model = lab.model(data, **changes)
    return model, Shock(model, (1.5, 0.5, 0.25, 2.0), every=10)


def outputs(model: Model) -> Tensor:
    x = model.learner.probe()
    assert x
    with torch.no_grad():
        return model.network(*x)


def test_every_tenth_epoch_has_the_next_factor_and_all_others_none(lab: Any, data: DataSet) -> None:
    _, shock = shocked(lab, data)
    gammas = []
    for epoch in range(60):
        shock.set(epoch, before=9)  # as after one task of 100 epochs
        gammas.append(shock.gamma)
    assert [epoch for epoch, gamma in enumerate(gammas) if gamma != 1.0] == [10, 20, 30, 40, 50]
    assert gammas[10::10] == [0.5, 0.25, 2.0, 1.5, 0.5]


def test_pre_activations_are_scaled_and_nothing_else_until_it_is_over(lab: Any, data: DataSet) -> None:
    model, shock = shocked(lab, data, activation="tanh")
    plain = outputs(model)
    first, inner, second, _, head = model.network.mlp
    (x,) = model.learner.probe() or ()
    shock.set(40)
    assert shock.gamma == 2.0
    hidden = torch.tanh(2 * second(torch.tanh(2 * first(x.flatten(2)))))
    torch.testing.assert_close(outputs(model), head(hidden))
    assert not torch.allclose(outputs(model), plain)
    assert isinstance(inner, nn.Module)
    shock.set(41)
    assert torch.equal(outputs(model), plain)


@pytest.mark.parametrize("exchange", ["swap(activation=leaky_relu)", "injection"])
def test_units_added_by_an_intervention_are_shocked_too(lab: Any, data: DataSet, exchange: str) -> None:
    model, shock = shocked(lab, data)
    name, _, text = exchange.rstrip(")").partition("(")
    make(name, **dict([text.split("=")]) if text else {}).apply(model.learner)
    with torch.no_grad():
        for p in model.network.parameters():
            p.mul_(1.1)  # the new head is no longer its twin
    first = model.network.mlp.new if exchange == "injection" else model.network.mlp
    plain = outputs(model)
    shock.set(40)
    loud = outputs(model)
    assert not torch.allclose(plain, loud)
    (x,) = model.learner.probe() or ()
    layers = list(first)
    inner, second = layers[1], layers[3]
    with torch.no_grad():
        hidden = second.forward(2 * layers[2](inner.forward(2 * layers[0](x.flatten(2)))))
        torch.testing.assert_close(first(x.flatten(2)), layers[4](hidden))
    shock.set(0)
    assert torch.equal(outputs(model), plain)


@pytest.mark.slow
def test_a_run_logs_factor_and_saturation_epoch_by_epoch(lab: Any, tmp_path: Path) -> None:
    """Tasks of 5 epochs of 6 updates: shocks in the epochs 2 and 4 of each, in turn over the stream."""
    run = lab.run(
        tmp_path / "run", shock_every=2, shocks=(4.0, 0.25, 2.0), epochs=5, tasks=2, eval_epochs=1, activation="tanh"
    )
    rows = [row for row in lab.log(run, "metrics") if "gamma" in row]
    seen = {(row["task"], row["step"]): row["gamma"] for row in rows}
    first = {(0, 6): 1.0, (0, 12): 1.0, (0, 18): 4.0, (0, 24): 1.0, (0, 30): 0.25}
    second = {(1, 30): 1.0, (1, 36): 1.0, (1, 42): 1.0, (1, 48): 2.0, (1, 54): 1.0, (1, 60): 4.0}
    assert seen == first | second
    assert all(0 <= row["saturated_fraction"] <= 1 for row in rows)


@pytest.mark.slow
def test_shocks_of_earlier_tasks_count_where_tasks_have_updates_instead_of_epochs(lab: Any, tmp_path: Path) -> None:
    """Tasks of 15 updates, 2.5 epochs: two shocks each."""
    run = lab.run(tmp_path / "run", shock_every=1, shocks=(4.0, 0.25, 2.0), updates_per_task=15, tasks=2, eval_epochs=1)
    gammas = [row["gamma"] for row in lab.log(run, "metrics") if row.get("task") == 1 and "gamma" in row]
    assert gammas == [1.0, 1.0, 2.0, 4.0]
    assert [row["step"] for row in lab.log(run, "metrics") if "gamma" in row] == [6, 12, 15, 15, 21, 27, 30]
