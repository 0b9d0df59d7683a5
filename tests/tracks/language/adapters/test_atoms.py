import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.tracks.language.adapters import activation_maps, activation_mass, add_task, parameter_table, prune
from supple.tracks.language.report.atom_maps import atom_map
from tests.tracks.language.adapters.models import adapted, inputs
from tests.tracks.logs import refusal

pytestmark = pytest.mark.slow


@settings(max_examples=40)
@given(st.lists(st.floats(0, 10, allow_subnormal=False) | st.just(0.0), min_size=12, max_size=12), st.floats(0.05, 1.0))
def test_pruning_keeps_the_fewest_atoms_with_that_share_of_the_mass(values, keep):
    made, mass = adapted(), torch.tensor(values, dtype=torch.float64)
    masses = {"0": mass, "2": torch.ones(12, dtype=torch.float64)}
    keys, atoms = made[0].bank("A").clone(), made[0].bank("B").clone()
    if not mass.sum() > 0:
        assert "no token used an atom of '0'" in refusal(prune, made, masses, keep)
        return
    report = prune(made, masses, keep)["0"]
    kept = [int((keys == key).all(-1).nonzero()) for key in made[0].bank("A")]
    assert kept == sorted(kept)
    assert torch.equal(made[0].bank("B"), atoms[kept])
    assert torch.equal(report.mass, mass[kept])
    ordered = mass.sort(descending=True).values
    assert sorted(report.mass.tolist(), reverse=True) == ordered[: len(kept)].tolist()
    shares = [0.0, *(ordered.cumsum(0) / mass.sum()).tolist()]
    assert shares[len(kept) - 1] < keep * (1 + 1e-12)
    assert shares[len(kept)] >= keep * (1 - 1e-12)
    assert report.kept == pytest.approx(shares[len(kept)])
    assert report.before == (4, 4, 4)
    assert report.after == made[0].sizes == tuple(sum(i // 4 == task for i in kept) for task in range(3))
    add_task(made)  # and it goes on
    made(inputs(2)).sum().backward()


def test_mass_and_maps_are_of_the_weights_of_all_tokens_and_leave_the_mode_alone():
    made, x = adapted(k=3).train(), inputs(40)
    made[2].eval()
    maps = activation_maps(made, lambda: (made(x), made(x)))
    assert (made[0].training, made[2].training) == (True, False)
    for training in (True, False):
        made.train(training)
        weights = made[0].weights(x, x @ made[0].bank("A").T).detach()
        with activation_mass(made) as mass:
            made(x)
            made(x)
        made(x)  # not counted
        torch.testing.assert_close(mass["0"], 2 * weights.sum(0))
    np.testing.assert_allclose(maps["0"], np.tile(weights.numpy(), (2, 1)), rtol=1e-6)
    np.testing.assert_allclose(maps["2"].sum(0), mass["2"], rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "params", "trainable", "stored", "activated"),
    [
        ("seqlora", {}, 4 * 14, 4 * 14, 4 * 14),
        ("inclora", {}, 4 * 14, 12 * 14, 12 * 14),
        ("moe_lora", {"k": 2}, 4 * 14 + 6, 12 * 14 + 18, 8 * 14 + 18),
        ("external_router", {"k": 5}, 4 * 20, 12 * 20, 12 * 6 + 5 * 14),
        ("moram", {"k": 3}, 4 * 14, 12 * 14, 12 * 6 + 3 * 8),
    ],
)
def test_parameters_are_counted_as_in_table_11(kind, params, trainable, stored, activated):
    made = adapted(kind, **params)
    row, _, total = parameter_table(made)
    assert (row["trainable"], row["stored"], row["activated"]) == (trainable, stored, activated)
    assert total["trainable"] == sum(p.numel() for p in made.parameters() if p.requires_grad)


def test_a_figure_shows_the_weights_of_each_row_and_where_tasks_part():
    weights = np.random.default_rng(0).random((6, 12), dtype=np.float32)
    figure = atom_map(weights, (4, 4, 4), list("tokens"), "layer 0")
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == list("tokens")
    assert len(figure.axes[0].lines) == 2
    np.testing.assert_allclose(figure.axes[0].images[0].get_array(), weights)
    assert "do not fit 8 atoms" in refusal(atom_map, weights, (4, 4))
