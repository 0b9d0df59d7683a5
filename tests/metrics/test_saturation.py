"""Saturated units, dead units, and the measures of a shock, on known cases and against plain loops."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from supple.interventions import activation
from supple.metrics import (
    accuracy_recovery_time,
    activation_slopes,
    dead_fraction,
    non_recovery_rate,
    peak_saturation,
    saturation_area,
    saturation_fraction,
    saturation_recovery_time,
)

X = torch.randn(6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3


@pytest.mark.parametrize("unit", [nn.Tanh(), nn.ReLU(), nn.ELU(inplace=True), nn.LeakyReLU(0.1), nn.GELU()])
def test_slopes_are_difference_quotients(unit: nn.Module) -> None:
    h = 1e-6
    quotients = ((unit((X + h).clone()) - unit((X - h).clone())) / (2 * h)).abs()
    before = X.clone()
    torch.testing.assert_close(activation_slopes(unit, X), quotients, rtol=1e-5, atol=1e-7)
    assert torch.equal(X, before)


def test_slopes_of_activations_that_change_the_width() -> None:
    for name in ("crelu", "deep_fourier"):  # one of the two halves always passes the gradient; cos² + sin²
        torch.testing.assert_close(activation_slopes(activation(name), X), torch.ones_like(X))
    gates = activation_slopes(nn.GLU(), X[:, :4])
    torch.testing.assert_close(gates[:, :2], torch.sigmoid(X[:, 2:4]))


def test_random_slopes_are_at_their_mean_and_modes_and_hooks_are_left_alone() -> None:
    unit = activation("rand_smooth_leaky", lower=0.1, upper=0.9)
    unit.register_forward_pre_hook(lambda *_: 1 / 0)  # that of a shock would scale a second time
    state = torch.get_rng_state()
    assert torch.equal(activation_slopes(unit, X), activation_slopes(unit, X))
    assert torch.equal(torch.get_rng_state(), state)
    assert unit.training


def test_saturation_pools_samples_and_units_of_all_layers() -> None:
    first, second = torch.tensor([[1.0, 0.0], [-1e-4, 1e-3]]), torch.full((2, 3, 2), 5.0)
    assert saturation_fraction(first) == 0.5  # a slope of exactly the threshold is none
    assert saturation_fraction([first, second]) == 2 / 16
    assert saturation_fraction({"a": first}, threshold=0.01) == 0.75


# --- dead units --------------------------------------------------------------------------------------------


def outputs(*units: list[float]) -> Tensor:
    return torch.tensor(units).T


def test_a_unit_stuck_on_a_plateau_of_its_family_is_dead() -> None:
    tanh = outputs([1.0, -0.999, 1.0], [0.9, 0.2, -0.4], [-1.0, -1.0, -0.9])
    assert dead_fraction(tanh, plateaus=(-1, 1)) == pytest.approx(1 / 3)
    assert dead_fraction(tanh) == 0  # without plateaus only magnitude counts
    relu = outputs([0.0, 0.005, 0.0], [3.0, 0.0, 0.0])
    assert dead_fraction(relu, plateaus=(0,)) == 0.5
    elu = outputs([-1.0, -0.995, -1.0], [2.0, -1.0, 0.3])
    assert dead_fraction(elu, plateaus=(-1,)) == 0.5


def test_a_unit_negligible_beside_its_layer_is_dead() -> None:
    leaky = outputs([-1e-5, 1e-5, 1e-5], [3.0, -0.2, 1.0])
    assert dead_fraction(leaky) == 0.5
    assert dead_fraction(1e-6 * leaky) == 0.5
    images = leaky.T[None, :, :, None].expand(2, -1, -1, 4)  # channels are the units
    assert dead_fraction(images, plateaus=(3.0,)) == 0.5


# --- shocks ------------------------------------------------------------------------------------------------


def loop_recovery(window: list[float]) -> float:
    peak = max(window)
    for epoch in range(window.index(peak), len(window)):
        if window[epoch] <= peak / 2:
            return epoch
    return math.inf


def test_shock_measures_equal_a_loop_over_windows() -> None:
    windows = np.random.default_rng(0).uniform(size=(20, 3, 10)).round(2)
    times, areas = saturation_recovery_time(windows), saturation_area(windows)
    np.testing.assert_array_equal(times, np.apply_along_axis(lambda w: loop_recovery(w.tolist()), -1, windows))
    np.testing.assert_allclose(areas, (windows[..., 1:] + windows[..., :-1]).sum(-1) / 2)
    np.testing.assert_array_equal(peak_saturation(windows), windows.max(-1))
    assert saturation_recovery_time([0.0, 0.0]) == 0


def test_accuracy_recovers_at_95_percent_of_what_it_was() -> None:
    accuracy = [[0.5, 0.7, 0.76, 0.9], [0.5, 0.6, 0.7, 0.75], [0.79, 0.3, 0.3, 0.3]]
    times = accuracy_recovery_time(accuracy, before=[0.8, 0.8, 0.8])
    assert times.tolist() == [2, math.inf, 0]
    assert accuracy_recovery_time(accuracy[1], 0.8, share=0.8) == 2
    assert non_recovery_rate(times) == pytest.approx(1 / 3)
