import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from supple.tracks.language.adapters import (
    activation_maps,
    activation_mass,
    add_task,
    maker,
    parameter_table,
    prune,
    wrap,
)
from supple.tracks.language.report.atom_maps import mean_map, token_map

pytestmark = pytest.mark.slow


def model(tasks: int = 3, kind: str = "moram", **params) -> nn.Sequential:
    torch.manual_seed(0)
    made, source = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).double(), torch.Generator().manual_seed(1)
    wrap(made, ["0", "2"], maker(kind, **{"r": 4, **params}))
    for _ in range(tasks):
        add_task(made, source)
        for layer in (made[0], made[2]):
            nn.init.normal_(layer.B, generator=source)
    return made.eval()


def inputs(rows: int = 40) -> Tensor:
    return torch.randn(2, rows // 2, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


@pytest.mark.parametrize("training", [True, False])
def test_mass_is_the_sum_of_the_weights_of_all_tokens(training):
    made = model(k=3).train(training)
    with activation_mass(made) as mass:
        made(inputs())
        made(inputs())
    for name, layer, x in (("0", made[0], inputs()), ("2", made[2], torch.tanh(made[0](inputs())))):
        weights = layer.weights(x, x @ layer.bank("A").T)
        torch.testing.assert_close(mass[name], 2 * weights.detach().sum((0, 1)))
    before = mass["0"].clone()
    made(inputs())
    assert torch.equal(mass["0"], before)


@settings(max_examples=40)
@given(st.lists(st.floats(0, 10, allow_subnormal=False) | st.just(0.0), min_size=12, max_size=12), st.floats(0.05, 1.0))
def test_pruning_keeps_the_fewest_atoms_with_that_share_of_the_mass(values, keep):
    mass = torch.tensor(values, dtype=torch.float64)
    made, all_mass = model(), {"0": mass, "2": torch.ones(12, dtype=torch.float64)}
    keys = made[0].bank("A").clone()
    if not mass.sum() > 0:
        with pytest.raises(ValueError, match="no token used an atom of '0'"):
            prune(made, all_mass, keep)
        return
    report = prune(made, all_mass, keep)["0"]
    ordered = mass.sort(descending=True).values
    remaining = sum(report.after)
    assert ordered[:remaining].sum() >= keep * mass.sum() * (1 - 1e-12)
    assert remaining == 1 or ordered[: remaining - 1].sum() < keep * mass.sum() * (1 + 1e-12)
    assert report.kept == pytest.approx(float(ordered[:remaining].sum() / mass.sum()))
    assert report.before == (4, 4, 4)
    assert sorted(report.mass.tolist(), reverse=True) == ordered[:remaining].tolist()
    kept = [int((keys == key).all(-1).nonzero()) for key in made[0].bank("A")]
    assert kept == sorted(kept)
    assert torch.equal(report.mass, mass[kept])
    assert report.after == tuple(sum(i // 4 == task for i in kept) for task in range(3))


def test_outputs_of_a_pruned_layer_are_those_of_its_atoms_left():
    made, whole = model(k=2), model(k=2)
    with activation_mass(made) as mass:
        made(inputs())
    report = prune(made, mass, 0.6)
    assert sum(report["0"].after) < 12
    keep = torch.tensor([bool((made[0].bank("A") == key).all(-1).any()) for key in whole[0].bank("A")])
    alone = whole[0]
    alone.frozen_A, alone.frozen_B = alone.frozen_A[keep[:8]], alone.frozen_B[keep[:8]]
    alone.A, alone.B = nn.Parameter(alone.A[keep[8:]].detach()), nn.Parameter(alone.B[keep[8:]].detach())
    alone.sizes = tuple(map(int, keep.view(3, 4).sum(1)))
    assert torch.equal(made[0](inputs()), alone(inputs()))
    add_task(made)
    assert made[0].sizes == (*report["0"].after, 4)
    made(inputs()).sum().backward()


def test_maps_are_the_weights_in_evaluation_and_leave_the_mode_alone():
    made = model(k=3).train()
    made[2].eval()
    maps = activation_maps(made, lambda: (made(inputs()), made(inputs())))
    assert {name: values.shape for name, values in maps.items()} == {"0": (80, 12), "2": (80, 12)}
    assert (made[0].training, made[2].training) == (True, False)
    weights = made.eval()[0].weights(inputs(), inputs() @ made[0].bank("A").T).detach().view(40, 12)
    np.testing.assert_allclose(maps["0"], np.tile(weights.numpy(), (2, 1)), rtol=1e-6)
    assert made[0].watch is None


@pytest.mark.parametrize(
    ("kind", "params", "trainable", "stored", "activated"),
    [
        ("seqlora", {}, 4 * 14, 4 * 14, 4 * 14),
        ("inclora", {}, 4 * 14, 12 * 14, 12 * 14),
        ("moe_lora", {}, 4 * 14 + 6, 12 * 14 + 18, 12 * 14 + 18),
        ("moe_lora", {"k": 2}, 4 * 14 + 6, 12 * 14 + 18, 8 * 14 + 18),
        ("external_router", {"k": 5}, 4 * 20, 12 * 20, 12 * 6 + 5 * 14),
        ("moram", {"k": 3}, 4 * 14, 12 * 14, 12 * 6 + 3 * 8),
    ],
)
def test_parameters_are_counted_as_in_table_11(kind, params, trainable, stored, activated):
    made = model(kind=kind, **params)
    row, _, total = parameter_table(made)
    assert (row["trainable"], row["stored"], row["activated"]) == (trainable, stored, activated)
    assert row["trainable"] == sum(p.numel() for p in made[0].parameters() if p.requires_grad)
    assert total["trainable"] == sum(p.numel() for p in made.parameters() if p.requires_grad)


def test_figures_show_each_token_and_each_set(tmp_path):
    maps = activation_maps(model(), lambda: None)
    weights = np.random.default_rng(0).random((6, 12), dtype=np.float32)
    figure = token_map(weights, (4, 4, 4), list("tokens"), "layer 0")
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == list("tokens")
    assert len(figure.axes[0].lines) == 2
    figure = mean_map({"task 1": weights[:, :4], "task 3": weights}, (4, 4, 4))
    shown = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(shown[1], weights.mean(0))
    assert shown.mask[0, 4:].all()
    figure.savefig(tmp_path / "map.png")
    with pytest.raises(ValueError, match="the tasks added 8 atoms, but the map has 12"):
        token_map(weights, (4, 4))
    with pytest.raises(ValueError, match="'none' has weights"):
        mean_map({"none": maps["0"]}, (4, 4, 4))
